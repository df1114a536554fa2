// An EventPlane that records what is published and can be told to fail.
#pragma once

#include "understudy/transport/event_plane.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace understudy::fakes {

class FakeEventPlane final : public transport::EventPlane {
 public:
  struct Published {
    transport::EventChannel channel;
    std::string payload;
  };
  std::vector<Published> published;
  std::size_t opened = 0;
  bool down = false;
  std::string refused_topic;  ///< no publisher of it can be opened
  std::size_t payload_max = 1 << 20;
  transport::EventTransport::Kind wire = transport::EventTransport::Kind::kNats;

  Result<std::unique_ptr<transport::EventPublisher>> Open(
      transport::EventChannel channel, transport::Delivery /*delivery*/) override {
    if (!refused_topic.empty() && channel.topic == refused_topic) {
      return Fail(Errc::kUnavailable, "event plane: no more sockets");
    }
    ++opened;
    return std::make_unique<Publisher>(*this, std::move(channel));
  }
  [[nodiscard]] std::size_t payload_bytes_max() const override { return payload_max; }
  [[nodiscard]] transport::EventTransport::Kind kind() const override { return wire; }

  /// Payloads of `topic` in `scope`, in order.
  [[nodiscard]] std::vector<std::string> Of(std::string_view topic,
                                            transport::EventScope scope) const {
    std::vector<std::string> payloads;
    for (const auto& message : published) {
      if (message.channel.topic == topic && message.channel.scope == scope) {
        payloads.push_back(message.payload);
      }
    }
    return payloads;
  }

 private:
  class Publisher final : public transport::EventPublisher {
   public:
    Publisher(FakeEventPlane& plane, transport::EventChannel channel)
        : plane_(plane), channel_(std::move(channel)) {}
    Status Publish(std::string_view payload) override {
      if (plane_.down) {
        return Fail(Errc::kUnavailable, "event plane: down");
      }
      plane_.published.push_back({channel_, std::string(payload)});
      return {};
    }
    [[nodiscard]] const transport::EventChannel& channel() const override { return channel_; }
    [[nodiscard]] std::optional<transport::Record> record() const override {
      return EncodeEventChannel(channel_,
                                {transport::EventTransport::Kind::kNats, SubjectPrefix(channel_)});
    }

   private:
    FakeEventPlane& plane_;
    transport::EventChannel channel_;
  };
};

}  // namespace understudy::fakes
