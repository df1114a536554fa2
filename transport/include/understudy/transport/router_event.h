// What a KV-aware router is told about a worker's cache: topic `kv-events` of the event plane.
// Source: events.md 3; vectors/events/zmq_relay_1.3.0.json and zmq_relay_1.6.1.json.
#pragma once

#include "understudy/base/ids.h"
#include "understudy/base/result.h"
#include "understudy/base/storage_tier.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace understudy::transport {

using understudy::StorageTier;
/// device, host_pinned, disk, external.
[[nodiscard]] std::string_view TierName(StorageTier tier);
[[nodiscard]] std::optional<StorageTier> TierOfName(std::string_view name);

/// Who owns the blocks; 1.6 only. A `cleared` of kWorker clears the rank's own blocks in order, one
/// without a domain resets everything of the rank.
enum class ResidencyDomain : std::uint8_t { kNone, kWorker };

/// One image, video or sound inside a block.
struct MmObject {
  std::uint64_t mm_hash = 0;
  /// Token ranges [begin, end) in the block; usually unknown, then empty.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> offsets;
  friend bool operator==(const MmObject&, const MmObject&) = default;
};

struct RouterBlock {
  BlockHash block_hash{};    ///< the engine's name of the block, opaque to the router
  TokensHash tokens_hash{};  ///< what the router looks prompts up by
  friend bool operator==(const RouterBlock&, const RouterBlock&) = default;
};

/// `mm_extra_info` of one block of the event.
struct BlockMmInfo {
  std::uint32_t block = 0;  ///< index into RouterEvent::blocks
  std::vector<MmObject> objects;
  friend bool operator==(const BlockMmInfo&, const BlockMmInfo&) = default;
};

struct RouterEvent {
  enum class Kind : std::uint8_t { kStored, kRemoved, kCleared };

  WorkerId worker_id{};
  DpRank dp_rank{};
  std::uint64_t event_id = 0;  ///< outbound id, contiguous per (worker, rank), from 1
  Kind kind = Kind::kStored;
  StorageTier tier = StorageTier::kDevice;
  ResidencyDomain domain = ResidencyDomain::kWorker;
  std::optional<BlockHash> parent;              ///< kStored: the block before the first one
  std::optional<std::uint32_t> start_position;  ///< kStored: not known to any engine so far
  std::vector<RouterBlock> blocks;              ///< kRemoved: tokens_hash is not set
  std::vector<BlockMmInfo> mm_infos;            ///< kStored: ascending by block; most have none
  std::optional<std::string> session_id;        ///< 1.6, when the engine said so
  friend bool operator==(const RouterEvent&, const RouterEvent&) = default;
};

/// How a release's readers want the events; part of the release profile.
struct RouterEventForm {
  bool in_array = false;       ///< 1.6: an array of events per message; 1.3: exactly one, bare
  bool has_residency = false;  ///< 1.6: `residency_domain` and `session_id` are written
};
inline constexpr RouterEventForm kRouterEventForm13{false, false};
inline constexpr RouterEventForm kRouterEventForm16{true, true};

/// Inner payload (msgpack) of one `kv-events` message, keys in the captured order. With
/// `form.in_array` all of `events`, else the only one (asserted).
[[nodiscard]] std::string EncodeRouterEvents(std::span<const RouterEvent> events,
                                             RouterEventForm form);
/// The array around `count` events that follow, for messages that are put together bit by bit.
void AppendRouterEventsHead(std::string& msgpack, std::size_t count);
/// One event's map appended to msgpack, respectively as compact JSON: for messages that hold events
/// among other things (answers to recovery queries).
void AppendRouterEvent(std::string& msgpack, const RouterEvent& event, RouterEventForm form);
void AppendRouterEventJson(std::string& json, const RouterEvent& event, RouterEventForm form);

/// Reads the payload of either release: one map, or an array of at most kRouterEventsMax maps.
/// Unknown keys are skipped; a missing tier is kDevice, a missing domain kNone. kMalformed names
/// the field; kUnsupported: an unknown tier or domain.
inline constexpr std::size_t kRouterEventsMax = 65536;
[[nodiscard]] Result<std::vector<RouterEvent>> DecodeRouterEvents(std::string_view msgpack);

}  // namespace understudy::transport
