// Frames of a registered rendezvous connection.
#pragma once

#include "transport/tcp/bootstrap_socket.h"
#include "understudy/transport/bootstrap.h"

#include <memory>

namespace understudy::transport {

/// What both sides use once they are registered. `socket` is not read by others any more.
[[nodiscard]] std::unique_ptr<BootstrapConnection> NewBootstrapConnection(
    std::shared_ptr<BootstrapSocket> socket, const BootstrapIdentity& identity);

}  // namespace understudy::transport
