// Records that tell subscribers where events come from. Pure, any thread.
// Source: events.md 3; vectors/events/discovery_records.json, wire/both_profiles_records.json.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/records.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::transport {

/// Whose events a channel carries. 1.3 uses the first two, 1.6 the third.
enum class EventScope : std::uint8_t { kNamespace, kComponent, kEndpoint };

/// One publisher of one topic, as one release's readers look for it.
struct EventChannel {
  EventScope scope = EventScope::kComponent;
  EndpointName place;
  std::string topic;
  std::uint64_t publisher_id = 0;
};

/// How its messages travel: `kind` Nats with a subject prefix, or Zmq with an endpoint
/// (tcp://host:port). A ZmqBroker publishes nothing of its own: it stands between publishers, which
/// connect to `xsub`, and subscribers, which connect to `xpub`.
struct EventTransport {
  enum class Kind : std::uint8_t { kNats, kZmq, kZmqBroker };
  Kind kind = Kind::kNats;
  std::string address{};
  std::vector<std::string> xsub{}, xpub{};
};
/// Component of the records of brokers.
inline constexpr std::string_view kZmqBrokerComponent = "zmq_broker";

/// `namespace.<ns>[.component.<c>[.endpoint.<e>]]`; 1.6 writes characters outside A-Z a-z 0-9 - _
/// as %XX.
[[nodiscard]] std::string SubjectPrefix(const EventChannel& channel);
/// `<prefix>.<topic>`: where NATS subscribers listen.
[[nodiscard]] std::string EventSubject(const EventChannel& channel);

/// `v1/event_channels/...`.
[[nodiscard]] Record EncodeEventChannel(const EventChannel& channel,
                                        const EventTransport& transport);

struct EventChannelRecord {
  EventChannel channel;
  EventTransport transport;
};
/// Either release's form. kUnsupported: a transport of another kind.
[[nodiscard]] Result<EventChannelRecord> DecodeEventChannel(std::string_view json);

/// `v1/event_sources/...`, 1.6: makes the router take the events of a publisher, and tells where it
/// asks for those that it missed.
struct EventSource {
  EventChannel channel;  ///< kEndpoint
  std::uint64_t worker_id = 0;
  std::uint32_t dp_rank = 0;
  std::optional<InstanceRecord> recovery_target;
};
[[nodiscard]] Record EncodeEventSource(const EventSource& source);

}  // namespace understudy::transport
