#include "transport/etcd/http_connection.h"

#include "understudy/base/assert.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include <asio/buffer.hpp>
#include <asio/ip/address.hpp>
#include <asio/post.hpp>
#include <asio/write.hpp>

namespace understudy::transport::etcd {
namespace {

constexpr std::size_t kAddressesMax = 16;  // of one name

TimePoint Now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

void HttpConnection::Exchange(const HttpUrl& url,
                              std::shared_ptr<const Request> request,
                              TimePoint deadline,
                              Done done) {
  UNDERSTUDY_ASSERT(state_ == State::kNew || state_ == State::kIdle);
  request_ = std::move(request);
  deadline_ = deadline;
  done_ = std::move(done);
  parser_ = ResponseParser();
  answer_begun_ = false;
  used_before_ = state_ == State::kIdle;
  ArmTimer(deadline_, &HttpConnection::OnDeadline);
  if (used_before_) {
    asio::error_code ignored;
    socket_.cancel(ignored);  // the wait of WatchIdle
    OnConnected();
  } else {
    state_ = State::kConnecting;
    Resolve(url);
  }
}

void HttpConnection::Close() {
  ++turn_;
  state_ = State::kClosed;
  done_ = nullptr;
  timer_.cancel();
  resolver_.cancel();
  asio::error_code ignored;
  socket_.close(ignored);
}

void HttpConnection::Resolve(const HttpUrl& url) {
  asio::error_code error;
  const auto literal = asio::ip::make_address(url.host, error);
  if (!error) {
    addresses_.emplace_back(literal, url.port);
  } else if (url.host == "localhost") {
    // Always the loopback (RFC 6761 6.3); spares the resolver's thread, which costs memory.
    addresses_.emplace_back(asio::ip::address_v6::loopback(), url.port);
    addresses_.emplace_back(asio::ip::address_v4::loopback(), url.port);
  }
  if (!addresses_.empty()) {
    asio::post(socket_.get_executor(), [self = shared_from_this(), turn = turn_] {
      if (turn == self->turn_) {
        self->ConnectNext({});
      }
    });
    return;
  }
  try {
    resolver_.async_resolve(
        url.host,
        std::to_string(url.port),
        Tcp::resolver::numeric_service,
        [self = shared_from_this(), turn = turn_](asio::error_code failure,
                                                  const Tcp::resolver::results_type& results) {
          if (turn == self->turn_) {
            self->OnResolved(failure, results);
          }
        });
  } catch (const std::system_error& no_thread) {  // asio starts its resolver thread at first use
    asio::post(socket_.get_executor(),
               [self = shared_from_this(), turn = turn_, text = std::string(no_thread.what())] {
                 if (turn == self->turn_) {
                   self->EndWith(Errc::kUnavailable, "resolve: " + text);
                 }
               });
  }
}

void HttpConnection::OnResolved(asio::error_code error,
                                const Tcp::resolver::results_type& results) {
  if (error) {
    EndWith(Errc::kUnavailable, "resolve: " + error.message());
    return;
  }
  for (const auto& result : results) {
    if (addresses_.size() < kAddressesMax) {
      addresses_.push_back(result.endpoint());
    }
  }
  ConnectNext("the name has no address");
}

/// A name may have several addresses ("localhost": ::1 and 127.0.0.1), of which the server listens
/// on one. Each gets its share of the time left, so that a silent one hands over to the next.
void HttpConnection::ConnectNext(const std::string& last_error) {
  ++turn_;
  asio::error_code error;
  socket_.close(error);
  if (addresses_.empty()) {
    EndWith(Errc::kUnavailable, "connect: " + last_error);
    return;
  }
  const auto now = Now();
  const auto share = (deadline_ - now) / static_cast<Nanoseconds::rep>(addresses_.size());
  const auto address = addresses_.front();
  addresses_.pop_front();
  if (addresses_.empty()) {
    ArmTimer(deadline_, &HttpConnection::OnDeadline);
  } else {
    ArmTimer(now + share, &HttpConnection::OnConnectShareOver);
  }
  socket_.open(address.protocol(), error);
  if (error) {
    ConnectNext(error.message());  // at most kAddressesMax deep
    return;
  }
  socket_.set_option(Tcp::no_delay(true), error);
  socket_.async_connect(address,
                        [self = shared_from_this(), turn = turn_](asio::error_code failure) {
                          if (turn != self->turn_) {
                            return;
                          }
                          if (failure) {
                            self->ConnectNext(failure.message());
                            return;
                          }
                          self->addresses_.clear();
                          self->ArmTimer(self->deadline_, &HttpConnection::OnDeadline);
                          self->OnConnected();
                        });
}

void HttpConnection::OnConnected() {
  state_ = State::kBusy;
  Send();
  Receive();  // at once: a server may refuse a long request before it has read all of it
}

void HttpConnection::Send() {
  sending_ = true;
  const std::array<asio::const_buffer, 2> parts = {asio::buffer(request_->head),
                                                   asio::buffer(request_->body)};
  asio::async_write(
      socket_,
      parts,
      [self = shared_from_this(), turn = turn_, request = request_](asio::error_code, std::size_t) {
        // An error shows at the reading side as well, behind an answer that may still be there.
        if (turn == self->turn_) {
          self->sending_ = false;
        }
      });
}

void HttpConnection::Receive() {
  socket_.async_read_some(
      asio::buffer(input_),
      [self = shared_from_this(), turn = turn_](asio::error_code error, std::size_t bytes) {
        if (turn == self->turn_) {
          self->OnReceived(error, bytes);
        }
      });
}

void HttpConnection::OnReceived(asio::error_code error, std::size_t bytes) {
  if (error) {
    if (!answer_begun_) {
      End(Fail(Errc::kUnavailable, "closed without an answer: " + error.message()), used_before_);
      return;
    }
    // Only an orderly end completes an answer without a length.
    if (error != asio::error::eof || parser_.FeedEnd() != ResponseParser::State::kDone) {
      EndWith(Errc::kUnavailable, "the answer was cut off: " + error.message());
      return;
    }
  } else {
    answer_begun_ = true;
    parser_.Feed({input_.data(), bytes});
  }
  switch (parser_.state()) {
    case ResponseParser::State::kMore:
      Receive();
      break;
    case ResponseParser::State::kDone:
      End(parser_.TakeReply());
      break;
    case ResponseParser::State::kBad:
      EndWith(parser_.too_long() ? Errc::kMalformed : Errc::kUnavailable, parser_.reason());
      break;
  }
}

/// Notices that the server closes a kept connection, so that few calls meet a dead one.
void HttpConnection::WatchIdle() {
  socket_.async_wait(Tcp::socket::wait_read,
                     [self = shared_from_this(), turn = turn_](asio::error_code) {
                       if (turn == self->turn_ && self->state_ == State::kIdle) {
                         self->Close();  // the end, or bytes that nobody asked for
                       }
                     });
}

void HttpConnection::ArmTimer(TimePoint at, void (HttpConnection::*action)()) {
  timer_.expires_at(at);  // drops the wait before
  timer_.async_wait([weak = weak_from_this(), turn = turn_, at, action](asio::error_code error) {
    const auto self = weak.lock();
    // A wait that was due already when it was dropped still comes without an error.
    if (!error && self != nullptr && turn == self->turn_ && self->timer_.expiry() == at) {
      ((*self).*action)();
    }
  });
}

void HttpConnection::OnDeadline() {
  EndWith(Errc::kTimeout,
          state_ == State::kConnecting ? "not connected in time" : "no answer in time");
}

void HttpConnection::OnConnectShareOver() {
  ConnectNext("no answer in time");
}

void HttpConnection::EndWith(Errc code, std::string message) {
  End(Fail(code, std::move(message)));
}

void HttpConnection::End(Result<HttpReply> result, bool stale) {
  auto done = std::exchange(done_, nullptr);
  if (result && parser_.keep_alive() && !sending_) {
    ++turn_;
    timer_.cancel();
    request_.reset();
    state_ = State::kIdle;
    WatchIdle();
  } else {
    Close();
  }
  done(std::move(result), stale);
}

}  // namespace understudy::transport::etcd
