// All that differs between Dynamo releases on the wire, in one place: elsewhere there is no `if` on
// the release.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/event_records.h"
#include "understudy/transport/kv_query.h"
#include "understudy/transport/records.h"
#include "worker/kv_relay/conversion_rules.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace understudy::worker {

/// How one release's routers are spoken to. Source: events.md 3, 4.5, 5, 7.
struct ReleaseWire {
  std::string name;
  transport::EventScope kv_scope{};    ///< of kv-events, forward-pass-metrics
  transport::EventScope load_scope{};  ///< of kv_metrics
  transport::KvAnswerForm answers;     ///< of recovery queries, and of the events themselves
  std::uint64_t publisher_id_mask = 0;
  /// The query endpoint is named after the publisher, and a source record ties the two together;
  /// otherwise it is named after the rank.
  bool has_sources = false;
  bool has_sequence_events = false;  ///< the worker tells when a prompt is computed
};

struct ReleaseProfile {
  std::string name;
  std::string service_version;     ///< in $SRV replies
  std::vector<ReleaseWire> wires;  ///< all that is published goes out once in each form
  /// Of instance records: the codec in which 1.6 frontends then send; 1.3 ones ignore it.
  std::optional<std::string> request_plane_codec;
  bool card_says_publishing = false;  ///< `kv_event_publishing_enabled`
  /// As 1.6: rows that follow each other in what an engine says at once become one event. Only
  /// when no 1.3 router listens, whose worker sends them as they are.
  bool merges_units = false;
  /// How an engine's KV events are read. With both, as 1.6: a 1.3 router then matches less where
  /// cache salts or plain media digests are used.
  KvConversionRules kv_conversion = kKvConversion13;
};

/// `release` is 1.3, 1.6 or both. kInvalidConfig names the option, the value and what is allowed.
[[nodiscard]] Result<ReleaseProfile> MakeReleaseProfile(const std::string& release,
                                                        const transport::EndpointName& endpoint);

inline constexpr const char* kKvEventsTopic = "kv-events";
inline constexpr const char* kLoadTopic = "kv_metrics";
inline constexpr const char* kForwardPassTopic = "forward-pass-metrics";
inline constexpr const char* kSequencesTopic = "active_sequences_events";

/// A publisher of `topic` with a random id that the release takes.
[[nodiscard]] transport::EventChannel NewChannel(const ReleaseWire& wire,
                                                 const std::string& topic,
                                                 const transport::EndpointName& endpoint);
/// Endpoint that answers for the events of one publisher.
[[nodiscard]] std::string QueryEndpointName(const ReleaseWire& wire,
                                            std::uint32_t dp_rank,
                                            std::uint64_t publisher_id);

}  // namespace understudy::worker
