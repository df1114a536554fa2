// The relayed events of one instance, from its engine's sockets to the event plane, as long as
// discovery lists it.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/base/result.h"
#include "understudy/transport/discovery.h"
#include "understudy/transport/event_plane.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/nats.h"
#include "understudy/transport/zmq.h"
#include "worker/event_side/kv_publishers.h"
#include "worker/kv_relay/engine_subscriber.h"
#include "worker/kv_relay/query_server.h"
#include "worker/kv_relay/relay.h"
#include "worker/metrics/metrics.h"
#include "worker/relay/options.h"
#include "worker/request_path/ingress.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace understudy::worker {

/// On the loop's thread. Not to be destroyed from inside a ZMQ handler.
class RelaySession {
 public:
  /// What all sessions of the process share; outlives them.
  struct Process {
    transport::Loop& loop;
    const Clock& clock;
    Metrics& metrics;
    transport::NatsClient& requests;
    transport::EventPlane& plane;
    std::shared_ptr<transport::ZmqContext> zmq;
    const RelayPlan& plan;
    std::uint64_t own_id = 0;    ///< instance id of the query endpoints
    std::string subject_prefix;  ///< of all query endpoints' subjects; ends with a dot
  };
  /// Whose events, and how its cache is cut.
  struct Worker {
    std::uint64_t id = 0;
    std::uint32_t first_rank = 0, ranks = 1, block_size = 0;
  };

  /// Publishers, queries and sockets to the engine. kUnavailable as from the plane or the sockets,
  /// kInvalidConfig for an address that they refuse.
  [[nodiscard]] static Result<std::unique_ptr<RelaySession>> Open(const Process& process,
                                                                  const RelayedEngine& engine,
                                                                  const Worker& worker);
  RelaySession(const RelaySession&) = delete;
  RelaySession& operator=(const RelaySession&) = delete;

  [[nodiscard]] const Worker& worker() const { return worker_; }
  /// What discovery is to know, in this order; without those of the worker itself.
  [[nodiscard]] std::vector<transport::Record> Records() const;
  /// Those of the query endpoints.
  [[nodiscard]] const std::vector<std::string>& subjects() const { return subjects_; }
  void OnQuery(const transport::NatsMessage& message) { ingress_.OnRequest(message); }

  /// After a reconnect of the event plane's wire.
  void SayNewestAgain() { relay_.SayNewestAgain(); }
  /// Sends what is held back; nothing is read or sent afterwards.
  void Stop();

  [[nodiscard]] const std::vector<std::unique_ptr<EngineSubscriber>>& subscribers() const {
    return subscribers_;
  }
  [[nodiscard]] std::uint64_t doubtful() const { return relay_.doubtful(); }

 private:
  RelaySession(const Process& process, const Worker& worker);
  [[nodiscard]] Status OpenRank(const RelayedEngine& engine, std::uint32_t dp_rank);
  void ServeQueries();

  const Process& process_;
  Worker worker_;
  KvRelay relay_;
  Ingress ingress_;
  QueryServer queries_;
  std::vector<std::unique_ptr<transport::EventPublisher>> publishers_;
  std::vector<KvSource> sources_;
  std::vector<transport::Record> query_records_;
  std::vector<std::string> subjects_;
  std::vector<std::unique_ptr<EngineSubscriber>> subscribers_;  // last: they feed the relay
};

}  // namespace understudy::worker
