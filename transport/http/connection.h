// One client of the server. States: reading -> writing -> reading ... -> draining -> closed.
#pragma once

#include "transport/http/request_parser.h"
#include "transport/http/server.h"

#include <array>
#include <functional>
#include <memory>
#include <string>

#include <asio/ip/tcp.hpp>

namespace understudy::transport::http {

/// The bytes of an answer. `with_body` false: HEAD.
[[nodiscard]] std::string Render(const HttpResponse& response, bool with_body, bool keep_alive);

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Handler = std::function<HttpResponse(const HttpRequest&)>;

  struct Owner {
    const Handler& handler;
    Limits limits;
    std::function<void(Connection*)> closed;  ///< called once, unless Close was called by the owner
  };

  Connection(Loop& loop, asio::ip::tcp::socket socket, Owner owner);

  void Start() { Process(); }
  /// Answers `response` and closes, whatever the client sends.
  void Reject(const HttpResponse& response);
  /// Closes without telling the owner.
  void Close();
  /// No request is under way: may be closed to make room.
  [[nodiscard]] bool idle() const { return state_ == State::kReading && parser_.idle(); }

 private:
  enum class State : std::uint8_t { kReading, kWriting, kDraining, kClosed };

  static constexpr std::size_t kReadBytes = 8U << 10;
  /// Answers to pipelined requests collected before they are written.
  static constexpr std::size_t kOutputBytesMax = 1U << 20;
  static constexpr std::size_t kDrainBytesMax = 4U << 20;
  static constexpr Nanoseconds kDrainLimit = std::chrono::seconds(2);

  void Process();
  void Answer();
  void Read();
  void OnRead(std::size_t size);
  void Write();
  void OnWritten();
  void Drain();
  void OnDrained(std::size_t size);
  void ArmIdle(Nanoseconds limit);
  void Finish();

  asio::ip::tcp::socket socket_;
  std::unique_ptr<Timer> timer_;
  Owner owner_;
  RequestParser parser_;
  State state_ = State::kReading;
  bool waiting_ = false;  ///< the idle limit runs since the last answer
  bool last_ = false;     ///< the connection ends behind the answer under way
  std::string output_;
  std::size_t drained_ = 0;
  std::array<char, kReadBytes> input_{};
};

}  // namespace understudy::transport::http
