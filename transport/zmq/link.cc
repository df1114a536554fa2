#include "transport/zmq/link.h"

#include "understudy/base/assert.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <utility>

#include <asio/error.hpp>
#include <asio/post.hpp>

namespace understudy::transport {
namespace {

constexpr int kSocketsMax = 16384;      // of a context; only a table of pointers is made for them
constexpr std::size_t kCopiedMax = 64;  // smaller frames are not worth the account
constexpr int kKeepaliveIdleSeconds = 30;  // a peer that is gone shows after a minute
constexpr int kKeepaliveIntervalSeconds = 10;
constexpr int kKeepaliveProbes = 3;
constexpr int kLingerMs = 100;
constexpr int kHandshakeMs = 5000;  // a peer that says nothing is left; libzmq's own 30 s are long
constexpr std::size_t kEndpointBytesMax = 1024;

Status EndpointError(const std::string& endpoint) {
  return Fail(Errc::kInvalidConfig, endpoint + " failed: " + zmq_strerror(zmq_errno()));
}

/// A frame on the heap that gives its size back when libzmq is done with it.
struct CountedFrame {
  UnsentBytes unsent;
  std::size_t size;
};

void FreeCounted(void* /*data*/, void* hint) noexcept {
  auto* frame = static_cast<CountedFrame*>(hint);
  frame->unsent->fetch_sub(frame->size);
  frame->~CountedFrame();
  ::operator delete(frame);
}

void InitFrame(zmq_msg_t& message, std::string_view bytes, const UnsentBytes& unsent) {
  if (bytes.size() <= kCopiedMax) {
    UNDERSTUDY_ASSERT(zmq_msg_init_size(&message, bytes.size()) == 0);
    if (!bytes.empty()) {
      std::memcpy(zmq_msg_data(&message), bytes.data(), bytes.size());
    }
    return;
  }
  void* memory = ::operator new(sizeof(CountedFrame) + bytes.size());
  auto* frame = new (memory) CountedFrame{unsent, bytes.size()};
  void* data = frame + 1;
  std::memcpy(data, bytes.data(), bytes.size());
  unsent->fetch_add(bytes.size());
  UNDERSTUDY_ASSERT(zmq_msg_init_data(&message, data, bytes.size(), FreeCounted, frame) == 0);
}

}  // namespace

ZmqContextImpl::ZmqContextImpl() : context_(zmq_ctx_new()) {
  UNDERSTUDY_ASSERT(context_ != nullptr);
  zmq_ctx_set(context_, ZMQ_MAX_SOCKETS, kSocketsMax);
}

ZmqContextImpl::~ZmqContextImpl() {
  while (zmq_ctx_term(context_) != 0 && zmq_errno() == EINTR) {
  }
}

std::shared_ptr<ZmqContext> ZmqContext::New() {
  return std::make_shared<ZmqContextImpl>();
}

Result<std::shared_ptr<ZmqLink>> ZmqLink::Open(std::shared_ptr<ZmqContextImpl> context,
                                               Setup setup) {
  void* socket = zmq_socket(context->get(), setup.type);
  if (socket == nullptr) {
    return Fail(Errc::kUnavailable, std::string("zmq socket: ") + zmq_strerror(zmq_errno()));
  }
  std::shared_ptr<ZmqLink> link(new ZmqLink(std::move(context), socket, std::move(setup)));
  UNDERSTUDY_TRY_STATUS(link->StartToReceive());
  return link;
}

ZmqLink::ZmqLink(std::shared_ptr<ZmqContextImpl> context, void* socket, Setup setup)
    : context_(std::move(context)), socket_(socket), setup_(std::move(setup)) {
  Configure(setup_.limits);
}

void ZmqLink::Set(int option, int value) {
  UNDERSTUDY_ASSERT(zmq_setsockopt(socket_, option, &value, sizeof(value)) == 0);
}

void ZmqLink::Configure(const ZmqLimits& limits) {
  Set(ZMQ_LINGER, kLingerMs);
  Set(ZMQ_SNDHWM, limits.high_water_mark);
  Set(ZMQ_RCVHWM, limits.high_water_mark);
  Set(ZMQ_RECONNECT_IVL, static_cast<int>(limits.reconnect_first.count()));
  Set(ZMQ_RECONNECT_IVL_MAX, static_cast<int>(limits.reconnect_last.count()));
  Set(ZMQ_HANDSHAKE_IVL, kHandshakeMs);
  Set(ZMQ_TCP_KEEPALIVE, 1);
  Set(ZMQ_TCP_KEEPALIVE_IDLE, kKeepaliveIdleSeconds);
  Set(ZMQ_TCP_KEEPALIVE_INTVL, kKeepaliveIntervalSeconds);
  Set(ZMQ_TCP_KEEPALIVE_CNT, kKeepaliveProbes);
  const auto message_bytes_max = static_cast<std::int64_t>(limits.message_bytes_max);
  UNDERSTUDY_ASSERT(
      zmq_setsockopt(socket_, ZMQ_MAXMSGSIZE, &message_bytes_max, sizeof(message_bytes_max)) == 0);
  if (setup_.type == ZMQ_ROUTER) {
    Set(ZMQ_ROUTER_MANDATORY, 1);  // else what a peer has no room for is dropped in silence
  }
}

Status ZmqLink::StartToReceive() {
  if (setup_.loop == nullptr) {
    return {};
  }
  int descriptor = -1;
  std::size_t size = sizeof(descriptor);
  UNDERSTUDY_ASSERT(zmq_getsockopt(socket_, ZMQ_FD, &descriptor, &size) == 0);
  const int duplicate = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
  if (duplicate < 0) {
    return Fail(Errc::kUnavailable, std::string("zmq socket: ") + std::strerror(errno));
  }
  wake_.emplace(*setup_.loop, duplicate);
  Arm();
  LookSoon();  // an edge from before Arm is lost
  return {};
}

void ZmqLink::Close() {
  if (socket_ == nullptr) {
    return;
  }
  if (wake_) {
    asio::error_code ignored;
    wake_->close(ignored);
  }
  zmq_close(std::exchange(socket_, nullptr));
  context_.reset();
}

Status ZmqLink::Bind(const std::string& endpoint) {
  Set(ZMQ_IPV6, endpoint.find('[') != std::string::npos ? 1 : 0);
  if (zmq_bind(socket_, endpoint.c_str()) != 0) {
    return EndpointError(endpoint);
  }
  std::array<char, kEndpointBytesMax> text{};
  std::size_t size = text.size();
  if (zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, text.data(), &size) == 0) {
    bound_endpoint_ = text.data();
  }
  return {};
}

Status ZmqLink::Connect(const std::string& endpoint) {
  Set(ZMQ_IPV6, 1);  // names may stand for addresses of either kind
  return zmq_connect(socket_, endpoint.c_str()) == 0 ? Status() : EndpointError(endpoint);
}

void ZmqLink::Disconnect(const std::string& endpoint) {
  zmq_disconnect(socket_, endpoint.c_str());
  LookSoon();
}

void ZmqLink::Subscribe(const std::string& topic) {
  UNDERSTUDY_ASSERT(zmq_setsockopt(socket_, ZMQ_SUBSCRIBE, topic.data(), topic.size()) == 0);
}

ZmqSend ZmqLink::Send(ZmqFrames frames) {
  if (unsent_->load() > setup_.limits.unsent_bytes_max) {
    return ZmqSend::kFull;
  }
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const bool last = i + 1 == frames.size();
    zmq_msg_t message;
    InitFrame(message, frames[i], unsent_);
    int sent = -1;
    do {
      sent = zmq_msg_send(&message, socket_, ZMQ_DONTWAIT | (last ? 0 : ZMQ_SNDMORE));
    } while (sent < 0 && zmq_errno() == EINTR);
    if (sent < 0) {
      // Only the first frame can be refused: later ones belong to a message already admitted.
      const int why = zmq_errno();
      zmq_msg_close(&message);
      LookSoon();
      return why == EHOSTUNREACH ? ZmqSend::kNoPeer : ZmqSend::kFull;
    }
  }
  LookSoon();
  return ZmqSend::kSent;
}

void ZmqLink::Arm() {
  wake_->async_wait(asio::posix::stream_descriptor::wait_read,
                    [self = shared_from_this()](asio::error_code error) {
                      if (error || self->socket_ == nullptr) {
                        return;
                      }
                      self->Look();
                      if (self->socket_ != nullptr) {
                        self->Arm();  // what came meanwhile is an edge to it
                      }
                    });
}

void ZmqLink::LookSoon() {
  if (wake_ && !std::exchange(look_posted_, true)) {  // many sends in one turn cost one look
    asio::post(*setup_.loop, [self = shared_from_this()] {
      self->look_posted_ = false;
      self->Look();
    });
  }
}

void ZmqLink::Look() {
  const auto self = shared_from_this();  // the handler may drop the last owner
  std::array<std::string_view, kZmqFramesMax> views;
  for (int n = 0; n < kDrainMax && socket_ != nullptr; ++n) {
    const std::size_t frames = Receive();
    if (frames == 0) {
      return;
    }
    for (std::size_t i = 0; i < frames; ++i) {
      views[i] = {static_cast<const char*>(zmq_msg_data(&frames_[i])), zmq_msg_size(&frames_[i])};
    }
    setup_.handler(ZmqFrames(views.data(), frames));
    for (std::size_t i = 0; i < frames; ++i) {
      zmq_msg_close(&frames_[i]);
    }
  }
  if (socket_ != nullptr) {
    LookSoon();
  }
}

std::size_t ZmqLink::Receive() {
  std::size_t frames = 0;
  bool more = true;
  while (more) {  // frames of one message always arrive together
    zmq_msg_t surplus;
    zmq_msg_t& frame = frames < frames_.size() ? frames_[frames] : surplus;
    zmq_msg_init(&frame);
    if (!ReceiveFrame(frame)) {
      zmq_msg_close(&frame);
      break;
    }
    more = zmq_msg_more(&frame) != 0;
    if (frames < frames_.size()) {
      ++frames;
    } else {
      zmq_msg_close(&frame);
    }
  }
  return frames;
}

bool ZmqLink::ReceiveFrame(zmq_msg_t& into) {
  int got = -1;
  do {
    got = zmq_msg_recv(&into, socket_, ZMQ_DONTWAIT);
  } while (got < 0 && zmq_errno() == EINTR);
  return got >= 0;
}

}  // namespace understudy::transport
