#include "transport/zmq/reviver.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace understudy::transport {
namespace {

constexpr int kEnds = ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                      ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
constexpr int kGoesOn = ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_CONNECT_DELAYED | ZMQ_EVENT_CONNECTED;

}  // namespace

Result<std::unique_ptr<ZmqReviver>> ZmqReviver::New(asio::io_context& loop,
                                                    const std::shared_ptr<ZmqContextImpl>& context,
                                                    std::shared_ptr<ZmqLink> link,
                                                    const ZmqLimits& limits) {
  std::unique_ptr<ZmqReviver> self(new ZmqReviver(loop, std::move(link), limits));
  // Unique while the socket lives, which is as long as the monitor.
  const std::string address =
      "inproc://monitor-" + std::to_string(reinterpret_cast<std::uintptr_t>(self->link_->native()));
  if (zmq_socket_monitor(self->link_->native(), address.c_str(), kEnds | kGoesOn) != 0) {
    return Fail(Errc::kUnavailable, std::string("zmq monitor: ") + zmq_strerror(zmq_errno()));
  }
  UNDERSTUDY_TRY(self->monitor_,
                 ZmqLink::Open(context, {ZMQ_PAIR, &loop, {}, [raw = self.get()](ZmqFrames frames) {
                                           raw->OnEvent(frames);
                                         }}));
  UNDERSTUDY_TRY_STATUS(self->monitor_->Connect(address));
  return self;
}

ZmqReviver::~ZmqReviver() {
  zmq_socket_monitor(link_->native(), nullptr, 0);
  if (monitor_ != nullptr) {
    monitor_->Close();
  }
}

void ZmqReviver::Watch(const std::string& endpoint) {
  watched_.push_back({endpoint, false});
}

void ZmqReviver::Forget(const std::string& endpoint) {
  std::erase_if(watched_, [&](const Watched& one) { return one.endpoint == endpoint; });
}

ZmqReviver::Watched* ZmqReviver::Find(std::string_view address) {
  const auto found = std::find_if(watched_.begin(), watched_.end(), [&](const Watched& one) {
    return one.endpoint == address;
  });
  if (found != watched_.end()) {
    return &*found;
  }
  return watched_.size() == 1 ? &watched_.front() : nullptr;
}

void ZmqReviver::OnEvent(ZmqFrames frames) {
  std::uint16_t event = 0;
  if (frames.size() != 2 || frames[0].size() < sizeof(event)) {
    return;
  }
  std::memcpy(&event, frames[0].data(), sizeof(event));
  Watched* watched = Find(frames[1]);
  if (watched == nullptr) {
    return;
  }
  watched->is_lost = (event & kEnds) != 0;
  if (watched->is_lost) {
    ReviveSoon();
  }
}

void ZmqReviver::ReviveSoon() {
  if (std::exchange(is_waiting_, true)) {
    return;
  }
  timer_.expires_after(delay_);
  timer_.async_wait([this, alive = std::weak_ptr<const bool>(alive_)](asio::error_code error) {
    if (!error && !alive.expired()) {
      Revive();
    }
  });
}

void ZmqReviver::Revive() {
  is_waiting_ = false;
  for (Watched& watched : watched_) {
    if (std::exchange(watched.is_lost, false)) {
      link_->Disconnect(watched.endpoint);
      (void)link_->Connect(watched.endpoint);  // it was fine the first time
    }
  }
}

}  // namespace understudy::transport
