// A way out of the library's Connect.
//
// nats.c 3.4.1 never returns from Connect when a server sends its INFO and then nothing: past the
// timeout it asks the socket again and again, at the cost of a whole core (measured; it returns as
// soon as the connection ends). The library does not show the socket before it is done, so it is
// looked up among the process's descriptors.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace understudy::transport {

/// The ports of a list of URLs that SplitNatsUrls took; 4222 where none is written.
[[nodiscard]] std::vector<std::uint16_t> NatsPorts(std::string_view urls);

/// Shuts down every TCP socket of this process that has one of `server_ports` as its peer and only
/// one descriptor: a link that is up has two, the library's and ours. One of another client that
/// connects at the same moment is hit too: it tries again. Any thread.
void EndPendingConnects(const std::vector<std::uint16_t>& server_ports);

}  // namespace understudy::transport
