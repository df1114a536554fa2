// Direct mode: every publisher is a socket of its own, its address stands in its record. With
// brokers all of them share a socket for each broker. Source: events.md 3.1.
#include "understudy/transport/event_plane.h"

#include "transport/codec/big_endian.h"
#include "understudy/transport/codec.h"
#include "understudy/transport/response_stream.h"
#include "understudy/transport/zmq.h"

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace understudy::transport {
namespace {

constexpr char kFrameVersion = 1;
constexpr std::size_t kFrameHeadBytes = 5;  ///< version, length of the envelope

std::uint64_t UnixMilliseconds() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

std::string_view Number(std::array<char, 8>& bytes, std::uint64_t number) {
  StoreU64(bytes.data(), number);
  return {bytes.data(), bytes.size()};
}

/// What a publisher sends on: its own one, or one for each broker.
using Sockets = std::vector<std::unique_ptr<ZmqPublisher>>;

/// Behind the version byte.
std::uint64_t LoadLength(std::string_view frame) {
  std::array<char, 8> bytes{};
  frame.substr(1, 4).copy(bytes.data() + 4, 4);
  return LoadU64(bytes.data());
}

class Publisher final : public EventPublisher {
 public:
  /// `address`: where it is bound; empty: brokers stand between.
  Publisher(std::shared_ptr<Sockets> sockets, EventChannel channel, std::string address)
      : sockets_(std::move(sockets)),
        channel_(std::move(channel)),
        address_(std::move(address)),
        key_(address_.empty() && channel_.scope == EventScope::kEndpoint ? EventSubject(channel_)
                                                                         : channel_.topic) {}

  Status Publish(std::string_view payload) override {
    const std::uint64_t sequence = sequence_++;
    frame_.assign(kFrameHeadBytes, kFrameVersion);
    AppendEnvelope(
        frame_, channel_.publisher_id, sequence, UnixMilliseconds(), channel_.topic, payload);
    StoreBytes(frame_.data() + 1, frame_.size() - kFrameHeadBytes, 4);
    std::array<char, 8> publisher{};
    std::array<char, 8> number{};
    const std::array<std::string_view, 4> frames = {
        key_, Number(publisher, channel_.publisher_id), Number(number, sequence), frame_};
    bool sent = false;
    for (const auto& socket : *sockets_) {
      sent = socket->Send(frames) == ZmqSend::kSent || sent;
    }
    if (frame_.capacity() > kKeepCapacityBytes) {
      std::string().swap(frame_);
    }
    if (!sent) {
      return Fail(Errc::kOverloaded,
                  "event plane: " + (address_.empty() ? "every socket to a broker" : address_) +
                      " holds too much unsent");
    }
    return {};
  }
  [[nodiscard]] const EventChannel& channel() const override { return channel_; }
  [[nodiscard]] std::optional<Record> record() const override {
    if (address_.empty()) {
      return std::nullopt;
    }
    return EncodeEventChannel(channel_, {EventTransport::Kind::kZmq, address_});
  }

 private:
  static constexpr std::size_t kKeepCapacityBytes = 4096;

  std::shared_ptr<Sockets> sockets_;
  EventChannel channel_;
  std::string address_;
  std::string key_;    ///< by which subscribers choose: through a broker 1.6 names the place
  std::string frame_;  ///< scratch
  std::uint64_t sequence_ = 0;
};

class Plane final : public EventPlane {
 public:
  Plane(Loop& loop, std::shared_ptr<ZmqContext> context, ZmqEventPlaneOptions options)
      : loop_(loop), context_(std::move(context)), options_(std::move(options)) {}

  Result<std::unique_ptr<EventPublisher>> Open(EventChannel channel,
                                               Delivery /*delivery*/) override {
    if (!options_.brokers.empty()) {
      UNDERSTUDY_TRY(auto shared, SocketsToBrokers());
      return std::make_unique<Publisher>(std::move(shared), std::move(channel), std::string());
    }
    UNDERSTUDY_TRY(auto socket, ZmqPublisher::New(context_, {}));
    const bool v6 = options_.bind_host.find(':') != std::string::npos;
    UNDERSTUDY_TRY_STATUS(
        socket->Bind("tcp://" + (v6 ? "[" + options_.bind_host + "]" : options_.bind_host) + ":*"));
    UNDERSTUDY_TRY(const auto bound, ParseHostPort(socket->bound_endpoint().substr(6)));
    const auto& host = options_.advertised_host;
    const bool bracketed = host.find(':') != std::string::npos && !host.starts_with('[');
    auto address =
        "tcp://" + (bracketed ? "[" + host + "]" : host) + ":" + std::to_string(bound.port);
    auto own = std::make_shared<Sockets>();
    own->push_back(std::move(socket));
    return std::make_unique<Publisher>(std::move(own), std::move(channel), std::move(address));
  }
  [[nodiscard]] std::size_t payload_bytes_max() const override { return kZmqPayloadBytesMax; }
  [[nodiscard]] EventTransport::Kind kind() const override { return EventTransport::Kind::kZmq; }

 private:
  Result<std::shared_ptr<Sockets>> SocketsToBrokers() {
    if (to_brokers_ == nullptr) {
      auto sockets = std::make_shared<Sockets>();
      ZmqLimits limits;
      limits.unsent_bytes_max = options_.broker_unsent_bytes_max;
      for (const std::string& broker : options_.brokers) {
        UNDERSTUDY_TRY(auto socket, ZmqPublisher::NewConnecting(loop_, context_, limits));
        UNDERSTUDY_TRY_STATUS(socket->Connect(broker));
        sockets->push_back(std::move(socket));
      }
      to_brokers_ = std::move(sockets);
    }
    return to_brokers_;
  }

  Loop& loop_;
  std::shared_ptr<ZmqContext> context_;
  ZmqEventPlaneOptions options_;
  std::shared_ptr<Sockets> to_brokers_;
};

}  // namespace

Result<ZmqEventFrames> ParseZmqEvent(std::span<const std::string_view> frames) {
  constexpr const char* kWhat = "event message: ";
  if (frames.size() != 4) {
    return Fail(Errc::kMalformed, kWhat + std::to_string(frames.size()) + " frames, not 4");
  }
  if (frames[1].size() != 8 || frames[2].size() != 8) {
    return Fail(Errc::kMalformed, std::string(kWhat) + "publisher and sequence are not 8 bytes");
  }
  const std::string_view frame = frames[3];
  if (frame.size() < kFrameHeadBytes || frame[0] != kFrameVersion ||
      LoadLength(frame) != frame.size() - kFrameHeadBytes) {
    return Fail(Errc::kMalformed,
                std::string(kWhat) + "the envelope's head does not fit its " +
                    std::to_string(frame.size()) + " bytes");
  }
  return ZmqEventFrames{LoadU64(frames[1].data()),
                        LoadU64(frames[2].data()),
                        frames[0],
                        frame.substr(kFrameHeadBytes)};
}

std::unique_ptr<EventPlane> NewZmqEventPlane(Loop& loop,
                                             std::shared_ptr<ZmqContext> context,
                                             ZmqEventPlaneOptions options) {
  return std::make_unique<Plane>(loop, std::move(context), std::move(options));
}

}  // namespace understudy::transport
