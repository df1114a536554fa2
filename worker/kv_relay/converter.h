// An engine's KV events -> what routers are told.
#pragma once

#include "understudy/base/ids.h"
#include "understudy/transport/kv_batch.h"
#include "understudy/transport/router_event.h"
#include "worker/kv_relay/cache_namespaces.h"
#include "worker/kv_relay/conversion_rules.h"
#include "worker/kv_relay/event_filter.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace understudy::worker {

enum class KvEventType : std::uint8_t { kStored, kRemoved, kCleared, kIgnored };
inline constexpr std::size_t kKvEventTypes = 4;
/// stored, removed, cleared, ignored: label `event_type` of the counters.
[[nodiscard]] std::string_view EventTypeLabel(KvEventType type);
[[nodiscard]] KvEventType TypeOf(const transport::EngineKvEvent& event);

/// Counts since the start. Names of the metrics: events.md 5.
struct KvConversionCounters {
  template <class T>
  using PerType = std::array<T, kKvEventTypes>;
  PerType<std::uint64_t> received{};
  PerType<std::uint64_t> accepted{};  ///< passed the filters
  PerType<std::array<std::uint64_t, kKvFilterReasons>> filtered{};
  std::uint64_t unreadable = 0;          ///< events that cost themselves, of any type
  std::uint64_t empty_store_blocks = 0;  ///< stored events that went out without a block
  std::uint64_t repeated_hash = 0;       ///< stored events that name a block twice: dropped
  std::uint64_t blocks_cut = 0;          ///< blocks not published: wrong size or too few tokens
};

/// Stateful: learns cache groups and salts. One for each engine stream; not thread-safe.
/// Source: events.md 1.4 to 1.6; vectors/events/zmq_relay_*.json.
class KvEventConverter {
 public:
  struct Options {
    WorkerId worker_id{};
    DpRank dp_rank{};  ///< for batches that name none
    std::uint32_t block_size = 0;
    /// Placeholder of media in the engine's tokens; set when frontends hash pad tokens instead.
    std::optional<std::uint32_t> image_token_id;
    KvConversionRules rules;
  };
  /// Warnings of a kind that are logged, at most.
  static constexpr std::uint32_t kWarningsMax = 3;
  /// Ranks that one stream may name; events of further ones are dropped and counted as unreadable.
  static constexpr std::size_t kRanksMax = 1024;

  explicit KvEventConverter(const Options& options) : options_(options), filter_(options.rules) {}

  /// Appends what the routers are told. Event ids count from 0 over all that was appended, ever.
  /// The rank is the batch's own where it names one.
  void Convert(const transport::EngineKvBatch& batch, std::vector<transport::RouterEvent>& out);
  /// The engine started anew, with an empty cache: appends a clear of every rank that was told
  /// about, and forgets what was learned.
  void Restart(std::vector<transport::RouterEvent>& out);

  [[nodiscard]] const KvConversionCounters& counters() const { return counters_; }
  [[nodiscard]] const CacheNamespaces& namespaces() const { return namespaces_; }

 private:
  using Reason = std::optional<KvFilterReason>;
  struct Head {
    DpRank rank{};
    transport::StorageTier tier = transport::StorageTier::kDevice;
    std::string salt;
  };
  Reason Check(const transport::EngineKvStored& event, Head& head);
  Reason Check(const transport::EngineKvRemoved& event, Head& head);
  Reason Check(const transport::EngineKvCleared& event, Head& head);
  Reason Check(const transport::EngineKvIgnored& event, Head& head);
  void Append(const transport::EngineKvStored& event,
              const Head& head,
              std::vector<transport::RouterEvent>& out);
  void Append(const transport::EngineKvRemoved& event,
              const Head& head,
              std::vector<transport::RouterEvent>& out);
  void Append(const transport::EngineKvCleared& event,
              const Head& head,
              std::vector<transport::RouterEvent>& out);
  void Append(const transport::EngineKvIgnored& event,
              const Head& head,
              std::vector<transport::RouterEvent>& out);

  /// False: one rank too many.
  bool Remember(DpRank rank);
  transport::RouterEvent& NewEvent(transport::RouterEvent::Kind kind,
                                   const Head& head,
                                   std::vector<transport::RouterEvent>& out);
  [[nodiscard]] bool RepeatsAHash(const transport::EngineKvStored& event);
  [[nodiscard]] std::size_t BlocksThatFit(const transport::EngineKvStored& event);
  [[nodiscard]] TokensHash HashBlock(std::span<const std::uint32_t> window,
                                     std::span<const transport::MmObject> objects,
                                     std::uint64_t seed);
  [[nodiscard]] std::span<const std::uint32_t> WithPadTokens(
      std::span<const std::uint32_t> window, std::span<const transport::MmObject> objects);
  void Warn(std::uint32_t& count, const std::string& text);

  Options options_;
  KvEventFilter filter_;
  CacheNamespaces namespaces_;
  KvConversionCounters counters_;
  std::vector<DpRank> ranks_;  // told about so far
  std::uint64_t next_event_id_ = 0;
  std::uint32_t cut_warnings_ = 0, repeat_warnings_ = 0;
  // Scratch, so that a steady stream allocates only what goes out.
  std::vector<BlockHash> sorted_hashes_;
  std::vector<std::uint32_t> padded_tokens_;
  std::vector<std::uint64_t> mm_hashes_;
};

}  // namespace understudy::worker
