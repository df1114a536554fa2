#include "worker/call/zmq_watch.h"

#include "understudy/transport/event_plane.h"

#include <utility>

namespace understudy::worker {

ZmqWatch::ZmqWatch(transport::Loop& loop,
                   transport::Discovery& discovery,
                   std::string ns,
                   Handler handler)
    : loop_(loop),
      discovery_(discovery),
      ns_(std::move(ns)),
      handler_(std::move(handler)),
      timer_(loop.NewTimer()) {}

Status ZmqWatch::Start(std::function<void(Result<std::size_t>)> listed) {
  UNDERSTUDY_TRY(
      subscriber_,
      transport::ZmqSubscriber::New(
          loop_, transport::ZmqContext::New(), "", {}, [this](transport::ZmqFrames frames) {
            if (const auto event = transport::ParseZmqEvent(frames)) {
              handler_(event->topic, event->envelope);
            } else {
              handler_("?", frames.empty() ? std::string_view() : frames.back());
            }
          }));
  listed_ = std::move(listed);
  List();
  return {};
}

void ZmqWatch::List() {
  discovery_.List(
      "v1/event_channels/",
      [this, alive = std::weak_ptr(alive_)](const Result<std::vector<transport::Record>>& records) {
        if (alive.expired()) {
          return;
        }
        if (records) {
          Follow(*records);
        }
        if (auto first = std::exchange(listed_, nullptr)) {
          first(records ? Result<std::size_t>(followed_.size())
                        : tl::make_unexpected(records.error()));
        }
        timer_->After(kListEvery, [this] { List(); });
      });
}

void ZmqWatch::Follow(const std::vector<transport::Record>& records) {
  std::set<std::string> found;
  for (const auto& record : records) {
    const auto channel = transport::DecodeEventChannel(record.value);
    if (channel && channel->channel.place.ns == ns_ &&
        channel->transport.kind == transport::EventTransport::Kind::kZmq) {
      found.insert(channel->transport.address);
    }
  }
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
