// Inner payloads of the event plane besides KV events and loads. msgpack, keys in the captured
// order. Source: events.md 6, 7; vectors/events/event_plane_live_*.json.
#pragma once

#include "understudy/base/result.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace understudy::transport {

/// Topic `forward-pass-metrics`: what one pass of one rank did. Lengths and sums in
/// tokens.
struct ForwardPassMetrics {
  struct Lengths {
    std::uint64_t count = 0, sum = 0;
    double variance = 0;  ///< of the population
  };
  std::string worker_id;  ///< decimal instance id
  std::uint32_t dp_rank = 0;
  std::uint64_t counter_id = 0;  ///< from 1, per rank, +1 per message
  double wall_time_s = 0;        ///< 0 in an idle heartbeat
  Lengths prefill;               ///< `sum` is not part of the message
  std::uint64_t prefill_tokens = 0, prefill_kv_tokens = 0;
  Lengths decode, queued_prefill, queued_decode;
};
/// Replaces `out`, so that its memory is used again.
void EncodeForwardPass(std::string& out, const ForwardPassMetrics& metrics);
[[nodiscard]] Result<ForwardPassMetrics> DecodeForwardPass(std::string_view msgpack);

/// Topic `active_sequences_events`, 1.6.
struct SequenceEvent {
  std::string request_id;
  std::uint64_t worker_id = 0;
  std::uint32_t dp_rank = 0;
  std::string kind = "MarkPrefillCompleted";  ///< or "Free", "AddRequest" (its fields are skipped)
  std::uint64_t router_id = 0;                ///< a worker puts its own instance id here
};
/// MarkPrefillCompleted and Free only.
void AppendSequenceEvent(std::string& out, const SequenceEvent& event);
/// {"events": [...]} of `count` events, which follow: the form on ZMQ.
void AppendSequenceGroupHead(std::string& out, std::size_t count);
[[nodiscard]] Result<SequenceEvent> DecodeSequenceEvent(std::string_view msgpack);

}  // namespace understudy::transport
