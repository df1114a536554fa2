// A broker of a ZMQ event plane: what publishers say to one of its ports, subscribers hear at the
// other.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <thread>

#include <zmq.h>

namespace understudy::transport {

class ZmqBroker {
 public:
  explicit ZmqBroker(const std::string& at = "tcp://127.0.0.1:*") : context_(zmq_ctx_new()) {
    void* in = Bound(ZMQ_XSUB, at, xsub_);
    void* out = Bound(ZMQ_XPUB, "tcp://127.0.0.1:*", xpub_);
    thread_ = std::thread([in, out] {
      zmq_proxy(in, out, nullptr);  // until the context ends
      zmq_close(in);
      zmq_close(out);
    });
  }
  ~ZmqBroker() {
    zmq_ctx_shutdown(context_);
    thread_.join();
    zmq_ctx_term(context_);
  }
  ZmqBroker(const ZmqBroker&) = delete;
  ZmqBroker& operator=(const ZmqBroker&) = delete;

  [[nodiscard]] const std::string& xsub() const { return xsub_; }
  [[nodiscard]] const std::string& xpub() const { return xpub_; }

 private:
  void* Bound(int type, const std::string& at, std::string& endpoint) {
    void* socket = zmq_socket(context_, type);
    const int linger = 100;
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof(linger));
    // A port that was given back is free a moment later.
    while (zmq_bind(socket, at.c_str()) != 0) {
      std::this_thread::yield();
    }
    std::array<char, 128> text{};
    std::size_t size = text.size();
    zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, text.data(), &size);
    endpoint = text.data();
    return socket;
  }

  void* context_;
  std::string xsub_, xpub_;
  std::thread thread_;
};

}  // namespace understudy::transport
