// Brokers between the publishers and the subscribers of a ZMQ event plane.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/discovery.h"
#include "worker/config/environment.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace understudy::worker {

struct ZmqBrokers {
  std::vector<std::string> xsub;  ///< publishers connect to all of them
  std::vector<std::string> xpub;  ///< subscribers do; with several they get everything so often
  bool in_discovery = false;      ///< they are yet to be looked up

  /// False: subscribers connect to each publisher.
  [[nodiscard]] bool used() const { return in_discovery || !xsub.empty(); }
};

/// DYN_ZMQ_BROKER_URL (`xsub=tcp://a:1;tcp://b:1, xpub=tcp://a:2;tcp://b:2`), else
/// DYN_ZMQ_BROKER_ENABLED. kInvalidConfig names the variable, its value and what is expected.
[[nodiscard]] Result<ZmqBrokers> ZmqBrokersFromEnvironment(const Environment& env);

/// Adds what the records in the namespace `ns` say of brokers. False: no record does.
bool AddBrokersOf(const std::vector<transport::Record>& records,
                  const std::string& ns,
                  ZmqBrokers& brokers);

/// Starts `discovery`, then looks brokers up where they have to be. `done` gets the lease; errors
/// as from Discovery::Start, and kUnavailable: there are no brokers. `discovery` and `brokers` live
/// until then.
void StartWithBrokers(transport::Discovery& discovery,
                      const std::string& ns,
                      ZmqBrokers& brokers,
                      std::function<void(const Result<std::uint64_t>&)> done);

}  // namespace understudy::worker
