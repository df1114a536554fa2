// Where KV blocks live: engines say it, routers are told.
#pragma once

#include <cstdint>

namespace understudy {

/// Of one event's blocks. An engine has most of them on the device only.
enum class StorageTier : std::uint8_t { kDevice, kHostPinned, kDisk, kExternal };

}  // namespace understudy
