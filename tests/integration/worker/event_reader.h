// A router's eyes and mouth: reads the event plane of a namespace, asks recovery queries.
#pragma once

#include "tests/fakes/loop_thread.h"
#include "tests/integration/nats/nats_peer.h"
#include "tests/unit/transport/tcp/peer.h"
#include "understudy/transport/event_payloads.h"
#include "understudy/transport/kv_query.h"
#include "understudy/transport/router_event.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace understudy::worker {

using Json = nlohmann::ordered_json;

/// What a router holds of one rank.
using BlockSet = std::set<std::uint64_t>;

/// Everything published below `namespace.<ns>` since it was made. Members block.
class EventReader {
 public:
  EventReader(const std::string& nats_url, const std::string& ns);

  struct Message {
    std::string subject;
    transport::EventEnvelope envelope;
  };
  /// Of the topic, on the subject of 1.3 (false) or of 1.6 (true).
  [[nodiscard]] std::vector<Message> Of(const std::string& topic, bool in_16);
  /// KV events of one rank, in order.
  [[nodiscard]] std::vector<transport::RouterEvent> KvEvents(bool in_16, std::uint32_t rank = 0);
  [[nodiscard]] std::vector<transport::ForwardPassMetrics> Passes(bool in_16);
  [[nodiscard]] std::vector<transport::SequenceEvent> Sequences();
  /// Until `condition` holds; false after a minute.
  [[nodiscard]] bool Wait(const std::function<bool()>& condition);
  [[nodiscard]] bool WaitConnected() { return client_.WaitConnected(true); }

 private:
  fakes::LoopThread thread_;
  transport::Inbox inbox_;
  transport::TestClient client_;
};

/// Applies events to what a router holds.
void Apply(BlockSet& blocks, const transport::RouterEvent& event);
[[nodiscard]] BlockSet Apply(const std::vector<transport::RouterEvent>& events);
/// The blocks of a tree dump; a child before its parent is a failure of the test.
[[nodiscard]] BlockSet BlocksOfDump(const Json& dump);

/// Sends recovery queries as a router does and takes the answer on a connection of its own.
class QueryCaller {
 public:
  explicit QueryCaller(const std::string& nats_url);

  /// The item of the answer; null when there is none (`ack` then holds the acknowledgement).
  [[nodiscard]] Json Ask(const std::string& subject,
                         transport::PayloadCodec codec,
                         const std::string& body);
  [[nodiscard]] Json Ask(const std::string& subject,
                         transport::PayloadCodec codec,
                         const transport::KvQuery& query);
  [[nodiscard]] const std::string& ack() const { return ack_; }

 private:
  fakes::LoopThread thread_;
  transport::TestClient client_;
  transport::PeerListener listener_;
  std::string ack_;
};

}  // namespace understudy::worker
