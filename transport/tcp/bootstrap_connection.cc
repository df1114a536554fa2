#include "transport/tcp/bootstrap_connection.h"

#include <utility>

namespace understudy::transport {
namespace {

/// Shared with the handlers of the socket: a message may destroy the connection that reads it.
struct Reader {
  BootstrapIdentity identity;
  BootstrapConnection::Handlers handlers;
  bool stopped = false;

  /// The messages in `in`; whole frames only.
  Status Take(std::string& in) {
    std::size_t at = 0;
    Status status;
    while (status && !stopped) {
      const auto body = SplitBootstrapFrame(std::string_view(in).substr(at));
      if (!body) {
        if (body.error().code != Errc::kTruncated) {
          status = tl::make_unexpected(body.error());
        }
        break;
      }
      at += body->frame_bytes;
      status = TakeBody(body->json);
    }
    if (!stopped) {
      in.erase(0, at);
    }
    return status;
  }

 private:
  Status TakeBody(std::string_view json) {
    if (json.empty()) {
      return Fail(Errc::kMalformed, "bootstrap received an empty frame");
    }
    auto frame = DecodeBootstrapBody(json);
    if (!frame) {
      return Fail(Errc::kMalformed, "bootstrap frame contains malformed JSON");
    }
    if (frame->identity != identity) {
      return Fail(Errc::kMalformed, "bootstrap frame changed session identity");
    }
    handlers.on_message(std::move(frame->message));
    return {};
  }
};

class Connection final : public BootstrapConnection {
 public:
  Connection(std::shared_ptr<BootstrapSocket> socket, const BootstrapIdentity& identity)
      : socket_(std::move(socket)), reader_(std::make_shared<Reader>()) {
    reader_->identity = identity;
  }
  ~Connection() override {
    reader_->stopped = true;
    socket_->Close();
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] const BootstrapIdentity& identity() const override { return reader_->identity; }

  void Start(Handlers handlers) override {
    reader_->handlers = std::move(handlers);
    socket_->Read({[reader = reader_](std::string& in) { return reader->Take(in); },
                   [reader = reader_](Status why) {
                     if (!reader->stopped) {
                       reader->handlers.on_end(std::move(why));
                     }
                   }});
  }

  [[nodiscard]] Status Send(const BootstrapMessage& message, Task written) override {
    std::string bytes;
    UNDERSTUDY_TRY_STATUS(AppendBootstrapFrame(bytes, {reader_->identity, message}));
    return socket_->Write(std::move(bytes), std::move(written));
  }

  [[nodiscard]] bool PeerClosed() override { return socket_->PeerClosed(); }

 private:
  std::shared_ptr<BootstrapSocket> socket_;
  std::shared_ptr<Reader> reader_;
};

}  // namespace

std::unique_ptr<BootstrapConnection> NewBootstrapConnection(std::shared_ptr<BootstrapSocket> socket,
                                                            const BootstrapIdentity& identity) {
  return std::make_unique<Connection>(std::move(socket), identity);
}

}  // namespace understudy::transport
