// What an inference engine says about its KV cache: the payload of one ZMQ message.
// Source: events.md 1.2, 1.3; vectors/events/zmq_relay_*.json, mocker_zmq_*.json.
#pragma once

#include "understudy/base/ids.h"
#include "understudy/base/result.h"
#include "understudy/transport/router_event.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace understudy::transport {

/// Where a block lives and which cache group of the model it belongs to; as the engine said it.
struct KvScope {
  std::optional<std::string> medium;  ///< "GPU", "CPU", ...; empty text means absent
  std::optional<std::uint32_t> group_idx;
  std::optional<std::string> spec_kind;  ///< kv_cache_spec_kind: "full_attention", ...
  std::optional<std::uint32_t> sliding_window;
  std::optional<std::string> locality;   ///< "LOCAL", "REMOTE"
  std::optional<std::string> ownership;  ///< "kvcr"
  friend bool operator==(const KvScope&, const KvScope&) = default;
};

/// A text among a block's extra_keys; items of other types carry nothing for us and are not kept.
struct KvExtraKey {
  std::uint32_t block = 0;
  std::string text;
  friend bool operator==(const KvExtraKey&, const KvExtraKey&) = default;
};

struct EngineKvStored {
  KvScope scope;
  std::vector<BlockHash> hashes;
  std::optional<BlockHash> parent;
  /// With `is_eagle` (the engine sent pairs) one more than the blocks' tokens: the windows overlap.
  std::vector<std::uint32_t> tokens;
  std::uint64_t block_size = 0;
  bool is_eagle = false;
  std::optional<std::string> lora_name;
  std::optional<std::string> cache_salt;  ///< map key, or the metadata map at position 7 (SGLang)
  std::optional<std::string> session_id;  ///< map form only
  std::vector<KvExtraKey> extra_keys;     ///< ascending by block
  bool has_mm_infos = false;              ///< `block_mm_infos` was given: extra_keys name no media
  std::vector<BlockMmInfo> mm_infos;      ///< ascending by block
  friend bool operator==(const EngineKvStored&, const EngineKvStored&) = default;
};

struct EngineKvRemoved {
  KvScope scope;
  std::vector<BlockHash> hashes;
  friend bool operator==(const EngineKvRemoved&, const EngineKvRemoved&) = default;
};

struct EngineKvCleared {
  std::optional<std::string> ownership;
  friend bool operator==(const EngineKvCleared&, const EngineKvCleared&) = default;
};

/// Tag `Ignored`: the engine's way to say nothing.
struct EngineKvIgnored {
  friend bool operator==(const EngineKvIgnored&, const EngineKvIgnored&) = default;
};

using EngineKvEvent =
    std::variant<EngineKvStored, EngineKvRemoved, EngineKvCleared, EngineKvIgnored>;

/// An event that could not be read. The others of its batch are good.
struct KvEventProblem {
  std::size_t position = 0;  ///< in the batch's list of events
  std::string text;          ///< names field and value
};

struct EngineKvBatch {
  double timestamp_s = 0;  ///< Unix time of the engine
  std::vector<EngineKvEvent> events;
  std::optional<std::uint32_t> dp_rank;  ///< absent or nil: the rank of the socket
  std::vector<KvEventProblem> problems;  ///< the first kKvProblemsKept
  std::size_t problems_total = 0;
  std::size_t trailing_bytes = 0;  ///< behind the batch, ignored
};
inline constexpr std::size_t kKvProblemsKept = 8;

/// What one batch may hold; beyond a limit of the batch it is refused whole, beyond one of an event
/// that event is.
struct KvBatchLimits {
  std::size_t payload_bytes_max = 16U << 20;
  std::size_t events_max = 65536;
  std::size_t hashes_max = 1U << 20;    ///< of one event
  std::size_t tokens_max = 4U << 20;    ///< of one event
  std::size_t mm_items_max = 1U << 20;  ///< extra keys, media and offsets of the whole batch
  std::size_t text_bytes_max = 4096;    ///< of one name, salt, session id or extra key
  std::size_t nesting_max = 32;
};

/// Reads what vLLM, SGLang and the mockers of both releases send: events as tagged arrays (any
/// generation) or maps. More lenient than Dynamo's own listener, which loses the whole batch then:
/// - an event that cannot be read costs only itself (see EngineKvBatch::problems);
/// - the batch may be a map, or an array without the rank;
/// - a hash may be a byte string of 8 to 32 bytes: its last 8 as a big-endian number, which is what
///   vLLM itself sends when it is told to send integers (and sends for GPU blocks while its CPU
///   offload sends bytes: both must name the same block);
/// - lora_id, which is thrown away, may be negative;
/// - an integer in the place of BlockRemoved's medium is group_idx (dynamo-mocker 1.3.0 leaves the
///   medium out).
/// kMalformed: not msgpack, no batch, a negative rank; kUnsupported: over a limit of the batch.
/// Pure; what it allocates is bounded by the payload's size and the limits, never by a count alone.
[[nodiscard]] Result<EngineKvBatch> DecodeKvBatch(std::string_view payload,
                                                  const KvBatchLimits& limits = {});

/// Our own form, which both releases' listeners take: map events in the three-element array.
/// `medium` is left out when absent, as in mocker_zmq_1.6.1.json.
[[nodiscard]] std::string EncodeKvBatch(double timestamp_s,
                                        std::span<const EngineKvEvent> events,
                                        std::uint32_t dp_rank);

// ---- the ZMQ message around it ----

/// Frames of a live message: topic, sequence (8 bytes, big-endian), payload.
struct EngineMessage {
  std::string_view topic;
  std::uint64_t sequence = 0;
  std::string_view payload;
};
/// kMalformed names the count or size seen.
[[nodiscard]] Result<EngineMessage> ParseEngineMessage(std::span<const std::string_view> frames);

/// Sequence of the message that ends a replay.
inline constexpr std::uint64_t kReplayEndSequence = ~std::uint64_t{0};

/// A reply to a replay request, as the DEALER sees it. Both shapes are read: empty, sequence,
/// payload; and empty, topic, sequence, payload. `ended` is set by kReplayEndSequence or an empty
/// payload.
struct ReplayReply {
  std::uint64_t sequence = 0;
  std::string_view payload;
  bool ended = false;
};
[[nodiscard]] Result<ReplayReply> ParseReplayReply(std::span<const std::string_view> frames);

/// The 8 bytes of a sequence frame, big-endian.
[[nodiscard]] std::string SequenceFrame(std::uint64_t sequence);
/// kMalformed names the size seen.
[[nodiscard]] Result<std::uint64_t> ParseSequenceFrame(std::string_view frame);

}  // namespace understudy::transport
