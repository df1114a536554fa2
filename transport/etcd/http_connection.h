// One connection to an HTTP server that carries one call at a time. Inner header: includes asio.
#pragma once

#include "transport/etcd/http_request.h"
#include "transport/etcd/http_response.h"
#include "understudy/base/clock.h"
#include "understudy/base/result.h"

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

namespace understudy::transport::etcd {

/// Shared with the asio handlers under way, which outlive the owner by a loop turn. All members on
/// the loop's thread.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  struct Request {
    std::string head;
    std::string body;
  };
  /// `stale`: the connection had been kept, and the server closed it without a byte of an answer.
  /// It did so most likely before it saw the request, which may be sent again.
  using Done = std::function<void(Result<HttpReply>, bool stale)>;

  explicit HttpConnection(asio::io_context& context)
      : socket_(context), timer_(context), resolver_(context) {}

  /// Connects to `url` if need be (later calls must be for the same host and port), sends and waits
  /// for the answer. `done` comes later, never inside the call, on the loop. Errors: kTimeout,
  /// kUnavailable, kMalformed (too long an answer). `request` is shared with a repetition.
  void Exchange(const HttpUrl& url,
                std::shared_ptr<const Request> request,
                TimePoint deadline,
                Done done);
  /// Drops the call under way without calling back.
  void Close();
  /// Open, without a call, and not closed by the server as far as is known.
  [[nodiscard]] bool idle() const { return state_ == State::kIdle; }

 private:
  enum class State : std::uint8_t { kNew, kConnecting, kBusy, kIdle, kClosed };
  using Tcp = asio::ip::tcp;

  void Resolve(const HttpUrl& url);
  void OnResolved(asio::error_code error, const Tcp::resolver::results_type& results);
  void ConnectNext(const std::string& last_error);
  void OnConnected();
  void Send();
  void Receive();
  void OnReceived(asio::error_code error, std::size_t bytes);
  void WatchIdle();
  void ArmTimer(TimePoint at, void (HttpConnection::*action)());
  void OnDeadline();
  void OnConnectShareOver();
  void End(Result<HttpReply> result, bool stale = false);
  void EndWith(Errc code, std::string message);

  State state_ = State::kNew;
  Tcp::socket socket_;
  asio::steady_timer timer_;
  Tcp::resolver resolver_;
  std::deque<Tcp::endpoint> addresses_;  ///< not tried yet
  std::uint64_t turn_ = 0;               ///< tells handlers of something given up
  std::array<char, 16U << 10> input_;    // NOLINT: filled before it is read
  ResponseParser parser_;
  std::shared_ptr<const Request> request_;
  TimePoint deadline_;
  Done done_;
  bool used_before_ = false;
  bool answer_begun_ = false;
  bool sending_ = false;
};

}  // namespace understudy::transport::etcd
