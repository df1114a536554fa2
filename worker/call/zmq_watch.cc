#include "worker/call/zmq_watch.h"

#include "understudy/transport/event_plane.h"

#include <utility>

namespace understudy::worker {
namespace {

/// `namespace.<ns>.`, as subjects of endpoints have it.
std::string SubjectsOf(const std::string& ns) {
  const std::string all =
      transport::SubjectPrefix({transport::EventScope::kEndpoint, {ns, "", ""}, "", 0});
  return all.substr(0, all.find(".component.")) + ".";
}

}  // namespace

bool SeenMessages::Add(std::uint64_t publisher_id, std::uint64_t sequence) {
  const Key key{publisher_id, sequence};
  if (!known_.insert(key).second) {
    return false;
  }
  order_.push_back(key);
  if (order_.size() > kKeptMax) {
    known_.erase(order_.front());
    order_.pop_front();
  }
  return true;
}

ZmqWatch::ZmqWatch(transport::Loop& loop,
                   transport::Discovery& discovery,
                   std::string ns,
                   ZmqBrokers brokers,
                   Handler handler)
    : loop_(loop),
      discovery_(discovery),
      ns_(std::move(ns)),
      subjects_(SubjectsOf(ns_)),
      brokers_(std::move(brokers)),
      handler_(std::move(handler)),
      timer_(loop.NewTimer()) {}

Status ZmqWatch::Start(std::function<void(Result<std::size_t>)> listed) {
  UNDERSTUDY_TRY(
      subscriber_,
      transport::ZmqSubscriber::New(
          loop_, transport::ZmqContext::New(), "", {}, [this](transport::ZmqFrames frames) {
            Take(frames);
          }));
  listed_ = std::move(listed);
  List();
  return {};
}

void ZmqWatch::Take(transport::ZmqFrames frames) {
  const auto event = transport::ParseZmqEvent(frames);
  if (!event) {
    handler_("?", frames.empty() ? std::string_view() : frames.back());
  } else if (!brokers_.used() ||
             (!IsElsewhere(event->topic) && seen_.Add(event->publisher_id, event->sequence))) {
    handler_(event->topic, event->envelope);
  }
}

/// Through a broker comes what others say, too. 1.3 names no place, and is shown.
bool ZmqWatch::IsElsewhere(std::string_view key) const {
  return key.starts_with("namespace.") && !key.starts_with(subjects_);
}

void ZmqWatch::List() {
  discovery_.List(
      "v1/event_channels/",
      [this, alive = std::weak_ptr(alive_)](const Result<std::vector<transport::Record>>& records) {
        if (alive.expired()) {
          return;
        }
        if (records) {
          Follow(EndpointsIn(*records));
        }
        if (auto first = std::exchange(listed_, nullptr)) {
          first(records ? Result<std::size_t>(followed_.size())
                        : tl::make_unexpected(records.error()));
        }
        timer_->After(kListEvery, [this] { List(); });
      });
}

std::set<std::string> ZmqWatch::EndpointsIn(const std::vector<transport::Record>& records) const {
  if (brokers_.used()) {
    ZmqBrokers brokers = brokers_;
    if (brokers.in_discovery) {
      AddBrokersOf(records, ns_, brokers);
    }
    return {brokers.xpub.begin(), brokers.xpub.end()};
  }
  std::set<std::string> found;
  for (const auto& record : records) {
    const auto channel = transport::DecodeEventChannel(record.value);
    if (channel && channel->channel.place.ns == ns_ &&
        channel->transport.kind == transport::EventTransport::Kind::kZmq) {
      found.insert(channel->transport.address);
    }
  }
  return found;
}

void ZmqWatch::Follow(std::set<std::string> found) {
  for (const auto& endpoint : followed_) {
    if (!found.contains(endpoint)) {
      subscriber_->Disconnect(endpoint);
    }
  }
  for (const auto& endpoint : found) {
    if (!followed_.contains(endpoint) && !subscriber_->Connect(endpoint)) {
      handler_("?", "not an endpoint: " + endpoint);
    }
  }
  followed_ = std::move(found);
}

}  // namespace understudy::worker
