// Leaving: discovery first, then the running streams, then the wires; every step bounded.
#pragma once

#include "understudy/transport/discovery.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/nats.h"
#include "worker/event_side/event_side.h"
#include "worker/kv_relay/query_server.h"
#include "worker/request_path/request_path.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace understudy::worker {

/// On the loop's thread. Phases: 1 delete the instance records, 2 keep serving for the grace
/// period, then unsubscribe and let running streams finish up to the limit, 3 end hand-offs on both
/// their sides, close what is left without complete_final (so that it migrates), revoke,
/// disconnect.
class Shutdown {
 public:
  static constexpr Nanoseconds kDeleteLimit =
      std::chrono::seconds(2);  ///< an unreachable store must not stop a drain
  static constexpr Nanoseconds kFinishLimit =
      std::chrono::seconds(1);  ///< for streams whose last frames are under way
  /// For peers to be told and engines to take back what they hold.
  static constexpr Nanoseconds kHandoffLimit = std::chrono::seconds(5);
  static constexpr Nanoseconds kRevokeLimit = std::chrono::seconds(2);
  static constexpr Nanoseconds kDisconnectLimit = std::chrono::milliseconds(500);

  /// Any pointer may be null: that part was not reached at start.
  struct Parts {
    transport::Discovery* discovery = nullptr;
    transport::NatsClient* requests = nullptr;  ///< connection of the request plane
    transport::NatsClient* events = nullptr;
    RequestPath* path = nullptr;
    HandoffSide* handoffs = nullptr;
    EventSide* event_side = nullptr;
    QueryServer* queries = nullptr;
    std::vector<std::string> instance_keys;
    std::vector<transport::NatsClient::SubscriptionId> subscriptions;  ///< of requests
    /// Of recovery queries: while streams run, their events may be asked for.
    std::vector<transport::NatsClient::SubscriptionId> query_subscriptions;
    Nanoseconds grace = std::chrono::milliseconds(200);
    Nanoseconds limit = std::chrono::seconds(900);
  };
  Shutdown(transport::Loop& loop, Parts parts, std::function<void()> done);

  void Begin();
  /// A second signal: straight to phase 3, a third ends its waiting.
  void Force();

 private:
  enum class Phase : std::uint8_t {
    kIdle,
    kDeregister,
    kGrace,
    kDrain,
    kFinish,
    kHandoffs,
    kClose
  };
  void AfterDelete();
  void Unsubscribe();
  void CheckDrained();
  void AwaitFinishing();
  void EndHandoffs();
  void Close();
  void CloseNats();

  transport::Loop& loop_;
  Parts parts_;
  std::function<void()> done_;
  std::unique_ptr<transport::Timer> timer_, poll_;
  Phase phase_ = Phase::kIdle;
  std::size_t retiring_ = 0;  ///< subscriptions that may still bring requests
  int closing_ = 0;
};

}  // namespace understudy::worker
