// Recovery queries: a router that missed KV events asks the worker for them, or for all its blocks.
// Source: events.md 4.3; vectors/events/local_indexer_query_*.json, query_wire_*.json.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/codec.h"
#include "understudy/transport/router_event.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::transport {

struct KvQuery {
  std::uint64_t worker_id = 0;
  std::uint32_t dp_rank = 0;
  std::optional<std::uint64_t> start_event_id, end_event_id;
  bool supports_tree_dump_failed = false;  ///< 1.6: reads the answer of that name
};
/// A map, or an array of the fields in this order; null and missing optional fields are the same.
/// kMalformed names the field.
[[nodiscard]] Result<KvQuery> DecodeKvQuery(PayloadCodec codec, std::string_view body);
/// For clients: as 1.3 writes it, or with the fields that 1.6 adds.
[[nodiscard]] std::string EncodeKvQuery(PayloadCodec codec, const KvQuery& query, bool as_16);

/// How a release reads answers; part of the release profile.
struct KvAnswerForm {
  RouterEventForm events;
  bool has_reset_scope = false;  ///< 1.6: `reset_scope` in a tree dump
  bool has_lower_tiers = false;  ///< 1.6: blocks outside the device are dumped too
};
inline constexpr KvAnswerForm kKvAnswerForm13{kRouterEventForm13, false, false};
inline constexpr KvAnswerForm kKvAnswerForm16{kRouterEventForm16, true, true};

/// Writes the data frame of an answer that may be long, in pieces of about kPieceBytes.
class KvAnswerWriter {
 public:
  static constexpr std::size_t kPieceBytes = 64U << 10U;

  KvAnswerWriter(PayloadCodec codec, KvAnswerForm form) : codec_(codec), form_(form) {}

  void Add(const RouterEvent& event);
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// The whole frame, to be sent piece by piece; the writer is empty afterwards.
  [[nodiscard]] std::vector<std::string> TakeEvents(std::uint64_t last_event_id);
  [[nodiscard]] std::vector<std::string> TakeTreeDump(std::uint64_t last_event_id);

 private:
  [[nodiscard]] std::vector<std::string> Take(std::string_view variant,
                                              bool reset_scope,
                                              std::uint64_t last_event_id);

  PayloadCodec codec_;
  KvAnswerForm form_;
  std::vector<std::string> pieces_;
  std::uint64_t count_ = 0;
  std::size_t bytes_ = 0;
};

/// Whole data frames of the short answers.
void AppendKvTooNew(std::string& out,
                    PayloadCodec codec,
                    std::uint64_t requested_start,
                    std::uint64_t requested_end,
                    std::uint64_t newest_available);
void AppendKvInvalidRange(std::string& out,
                          PayloadCodec codec,
                          std::uint64_t start_id,
                          std::uint64_t end_id);
void AppendKvError(std::string& out, PayloadCodec codec, std::string_view text);
void AppendKvTreeDumpFailed(std::string& out,
                            PayloadCodec codec,
                            std::uint64_t last_event_id,
                            std::string_view message);

}  // namespace understudy::transport
