#include "understudy/transport/event_plane.h"

#include "understudy/base/assert.h"
#include "understudy/transport/codec.h"
#include "understudy/transport/nats.h"

#include <chrono>
#include <deque>
#include <span>
#include <string>
#include <utility>

namespace understudy::transport {
namespace {

std::uint64_t UnixMilliseconds() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

/// What goes to one connection, in order.
class Outbox {
 public:
  Outbox(Loop& loop, NatsClient& nats) : nats_(nats), timer_(loop.NewTimer()) {}

  Status Send(const std::string& subject, std::string_view bytes, Delivery delivery) {
    if (waiting_.empty()) {
      auto sent = nats_.Publish(subject, std::as_bytes(std::span(bytes)));
      if (sent || sent.error().code != Errc::kOverloaded || delivery == Delivery::kLossy) {
        return sent;
      }
      Retry();
    } else if (delivery == Delivery::kLossy) {
      return Fail(Errc::kOverloaded, "event plane: the connection is full");
    }
    if (waiting_bytes_ + bytes.size() > kEventsWaitingBytesMax) {
      return Fail(Errc::kOverloaded,
                  "event plane: " + std::to_string(waiting_bytes_) + " bytes are waiting");
    }
    waiting_bytes_ += bytes.size();
    waiting_.emplace_back(subject, bytes);
    return {};
  }

  [[nodiscard]] std::int64_t payload_bytes_max() const { return nats_.payload_bytes_max(); }

 private:
  void Retry() {
    timer_->After(kEventRetry, [this] { SendWaiting(); });
  }

  void SendWaiting() {
    while (!waiting_.empty()) {
      const auto& [subject, bytes] = waiting_.front();
      const auto sent = nats_.Publish(subject, std::as_bytes(std::span(bytes)));
      if (!sent && sent.error().code == Errc::kOverloaded) {
        Retry();
        return;
      }
      if (!sent && sent.error().code == Errc::kUnavailable) {
        waiting_.clear();
        waiting_bytes_ = 0;
        return;
      }
      waiting_bytes_ -= bytes.size();
      waiting_.pop_front();
    }
  }

  NatsClient& nats_;
  std::deque<std::pair<std::string, std::string>> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::unique_ptr<Timer> timer_;
};

class NatsPublisher final : public EventPublisher {
 public:
  NatsPublisher(Outbox& outbox, EventChannel channel, Delivery delivery)
      : outbox_(outbox),
        channel_(std::move(channel)),
        delivery_(delivery),
        subject_(EventSubject(channel_)) {}

  Status Publish(std::string_view payload) override {
    envelope_.clear();
    AppendEnvelope(
        envelope_, channel_.publisher_id, sequence_++, UnixMilliseconds(), channel_.topic, payload);
    auto sent = outbox_.Send(subject_, envelope_, delivery_);
    if (envelope_.capacity() > kKeepCapacityBytes) {
      std::string().swap(envelope_);
    }
    return sent;
  }
  [[nodiscard]] const EventChannel& channel() const override { return channel_; }
  [[nodiscard]] std::optional<Record> record() const override {
    return EncodeEventChannel(channel_, {EventTransport::Kind::kNats, SubjectPrefix(channel_)});
  }

 private:
  static constexpr std::size_t kKeepCapacityBytes = 4096;

  Outbox& outbox_;
  EventChannel channel_;
  Delivery delivery_;
  std::string subject_;
  std::string envelope_;  ///< scratch
  std::uint64_t sequence_ = 0;
};

class Plane final : public EventPlane {
 public:
  Plane(Loop& loop, NatsClient& nats) : outbox_(loop, nats) {}

  Result<std::unique_ptr<EventPublisher>> Open(EventChannel channel, Delivery delivery) override {
    return std::make_unique<NatsPublisher>(outbox_, std::move(channel), delivery);
  }
  [[nodiscard]] std::size_t payload_bytes_max() const override {
    const auto limit = static_cast<std::size_t>(outbox_.payload_bytes_max());
    constexpr std::size_t kEnvelope = kEnvelopeBytesMax + 64;  // and the topic
    return limit > kEnvelope ? limit - kEnvelope : 1;
  }
  [[nodiscard]] EventTransport::Kind kind() const override { return EventTransport::Kind::kNats; }

 private:
  Outbox outbox_;
};

}  // namespace

std::unique_ptr<EventPlane> NewNatsEventPlane(Loop& loop, NatsClient& nats) {
  return std::make_unique<Plane>(loop, nats);
}

}  // namespace understudy::transport
