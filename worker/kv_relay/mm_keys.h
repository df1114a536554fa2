// Media that an engine names among a block's extra keys.
#pragma once

#include "understudy/transport/kv_batch.h"
#include "understudy/transport/router_event.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace understudy::worker {

/// The first 16 of 64 hexadecimal digits as a number; with `padded` only when the other 48 are
/// zeros. Source: events.md 1.3, extra_keys.
[[nodiscard]] std::optional<std::uint64_t> MmHashOfKey(std::string_view key, bool padded);

/// One entry for each block that names media, ascending. The place of a medium in its block is not
/// known: offsets stay empty.
[[nodiscard]] std::vector<transport::BlockMmInfo> MmInfosOfKeys(
    std::span<const transport::KvExtraKey> keys, bool padded);

}  // namespace understudy::worker
