#include "transport/http/connection.h"

#include <utility>

#include <asio/buffer.hpp>
#include <asio/write.hpp>

namespace understudy::transport::http {
namespace {

const char* Reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    default:
      return "Status";
  }
}

}  // namespace

std::string Render(const HttpResponse& response, bool with_body, bool keep_alive) {
  std::string text = "HTTP/1.1 " + std::to_string(response.status) + " " + Reason(response.status);
  if (response.status != 204) {
    text += "\r\nContent-Type: " + response.content_type +
            "\r\nContent-Length: " + std::to_string(response.body.size());
  }
  text += keep_alive ? "\r\nConnection: keep-alive\r\n\r\n" : "\r\nConnection: close\r\n\r\n";
  if (with_body && response.status != 204) {
    text += response.body;
  }
  return text;
}

Connection::Connection(Loop& loop, asio::ip::tcp::socket socket, Owner owner)
    : socket_(std::move(socket)), timer_(loop.NewTimer()), owner_(std::move(owner)) {
  asio::error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
}

void Connection::Reject(const HttpResponse& response) {
  last_ = true;
  output_ = Render(response, true, false);
  Write();
}

void Connection::Close() {
  if (state_ == State::kClosed) {
    return;
  }
  state_ = State::kClosed;
  timer_->Cancel();
  asio::error_code ignored;
  socket_.close(ignored);
}

void Connection::Finish() {
  if (state_ == State::kClosed) {
    return;
  }
  const auto self = shared_from_this();
  Close();
  owner_.closed(this);
}

void Connection::ArmIdle(Nanoseconds limit) {
  // The owner or a pending read holds the connection; a weak pointer lets the timer not prolong its
  // life.
  timer_->After(limit, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->Finish();
    }
  });
}

/// Answers what has arrived; then writes, or reads on.
void Connection::Process() {
  state_ = State::kReading;
  while (!last_ && output_.size() < kOutputBytesMax) {
    const auto next = parser_.Next();
    if (next == RequestParser::State::kMore) {
      break;
    }
    if (next == RequestParser::State::kBad) {
      HttpResponse response;
      response.status = parser_.status();
      response.body = Reason(response.status);
      last_ = true;
      output_ += Render(response, true, false);
      break;
    }
    Answer();
    if (state_ == State::kClosed) {
      return;
    }
  }
  if (parser_.TakeExpectation()) {
    output_ += "HTTP/1.1 100 Continue\r\n\r\n";
  }
  if (!output_.empty()) {
    Write();
    return;
  }
  if (!waiting_) {
    // Not per byte: a client that sends a byte now and then would stay for ever.
    waiting_ = true;
    ArmIdle(owner_.limits.idle);
  }
  Read();
}

void Connection::Answer() {
  HttpRequest request = parser_.request();
  const bool head = request.method == "HEAD";
  if (head) {
    request.method = "GET";  // a handler answers both alike; the body stays here
  }
  last_ = !parser_.keep_alive();
  waiting_ = false;
  output_ += Render(owner_.handler(request), !head, !last_);
}

void Connection::Read() {
  socket_.async_read_some(asio::buffer(input_),
                          [self = shared_from_this()](asio::error_code error, std::size_t size) {
                            if (self->state_ != State::kReading) {
                              return;
                            }
                            if (error) {
                              self->Finish();
                            } else {
                              self->OnRead(size);
                            }
                          });
}

void Connection::OnRead(std::size_t size) {
  parser_.Feed({input_.data(), size});
  Process();
}

void Connection::Write() {
  state_ = State::kWriting;
  if (!waiting_) {
    ArmIdle(owner_.limits.idle);
  }
  asio::async_write(socket_,
                    asio::buffer(output_),
                    [self = shared_from_this()](asio::error_code error, std::size_t) {
                      if (self->state_ != State::kWriting) {
                        return;
                      }
                      if (error) {
                        self->Finish();
                      } else {
                        self->OnWritten();
                      }
                    });
}

void Connection::OnWritten() {
  output_.clear();
  if (last_) {
    // Closing with unread input would reset the connection, and the client might lose our answer:
    // send the end of our stream, then take what still comes, within bounds.
    asio::error_code ignored;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    state_ = State::kDraining;
    ArmIdle(kDrainLimit);
    Drain();
    return;
  }
  Process();
}

void Connection::Drain() {
  socket_.async_read_some(asio::buffer(input_),
                          [self = shared_from_this()](asio::error_code error, std::size_t size) {
                            if (self->state_ != State::kDraining) {
                              return;
                            }
                            if (error) {
                              self->Finish();
                            } else {
                              self->OnDrained(size);
                            }
                          });
}

void Connection::OnDrained(std::size_t size) {
  drained_ += size;
  if (drained_ > kDrainBytesMax) {
    Finish();
    return;
  }
  Drain();
}

}  // namespace understudy::transport::http
