// One event of an engine's batch, tagged array or map, in every generation.
#pragma once

#include "transport/codec/msgpack_value.h"
#include "transport/codec/problem.h"
#include "understudy/transport/kv_batch.h"

#include <cstddef>

namespace understudy::transport {

/// Consumes one value. False: `problem` holds the reason, or the reader is broken. `mm_items`: see
/// KvFieldReader.
[[nodiscard]] bool ReadKvEvent(MsgpackReader& value,
                               const KvBatchLimits& limits,
                               std::size_t& mm_items,
                               EngineKvEvent& out,
                               Problem& problem);

}  // namespace understudy::transport
