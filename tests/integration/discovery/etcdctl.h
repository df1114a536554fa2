// etcdctl speaks to the server by gRPC: an eye and a hand that share no code with ours.
#pragma once

#include "tests/fakes/server_process.h"

#include <cstdint>
#include <string>

namespace understudy::fakes {

/// Runs `etcdctl <arguments>` against `server` and gives back what it printed, errors too.
std::string Etcdctl(const ServerProcess& server, const std::string& arguments);

/// Ends the lease; the test fails when the server refuses.
void Revoke(const ServerProcess& server, std::uint64_t lease);

/// The lease that holds `key`; 0 when the key is not there.
std::uint64_t LeaseOf(const ServerProcess& server, const std::string& key);

}  // namespace understudy::fakes
