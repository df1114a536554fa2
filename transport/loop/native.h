// The asio side of a Loop, for the wires in this folder's neighbours. Not installed, not seen by
// the worker.
#pragma once

#include "understudy/transport/loop.h"

#include <asio/io_context.hpp>

namespace understudy::transport {

/// The context that `loop` (made by Loop::New) runs; lives as long as the loop.
[[nodiscard]] asio::io_context& NativeContext(Loop& loop);

}  // namespace understudy::transport
