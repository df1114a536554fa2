// Bytes of a connection -> HTTP/1.1 requests. Pure: no socket, no clock.
#pragma once

#include "understudy/transport/http_server.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace understudy::transport::http {

/// Undoes %XX. False for a broken escape or one that stands for NUL.
[[nodiscard]] bool PercentDecode(std::string_view text, std::string& out);

/// Feed bytes in pieces of any size; the same requests come out however the stream is cut.
class RequestParser {
 public:
  enum class State : std::uint8_t {
    kMore,     ///< nothing complete: feed more
    kRequest,  ///< request() is valid until the next call of Next
    kBad,      ///< status() says why; the connection cannot go on
  };

  void Feed(std::string_view bytes) { buffer_.append(bytes); }
  [[nodiscard]] State Next();

  [[nodiscard]] const HttpRequest& request() const { return request_; }
  /// For the request just parsed: whether the connection may stay open behind it, and whether the
  /// client is HTTP/1.0.
  [[nodiscard]] bool keep_alive() const { return keep_alive_; }
  [[nodiscard]] bool http_1_0() const { return minor_version_ == 0; }
  /// 400, 413 or 431 after kBad.
  [[nodiscard]] int status() const { return status_; }
  /// True between requests: no byte of a next one is there.
  [[nodiscard]] bool idle() const { return phase_ == Phase::kHead && buffer_.empty(); }
  /// True once for a request that waits for `100 Continue` before it sends its body.
  [[nodiscard]] bool TakeExpectation();

 private:
  enum class Phase : std::uint8_t { kHead, kBody, kChunkSize, kChunkData, kTrailer, kBad };
  enum class Step : std::uint8_t { kMore, kGo, kDone };

  [[nodiscard]] Step StepHead();
  [[nodiscard]] Step StepBody();
  [[nodiscard]] Step StepChunkSize();
  [[nodiscard]] Step StepChunkData();
  [[nodiscard]] Step StepTrailer();
  [[nodiscard]] Step Bad(int status);
  [[nodiscard]] bool TakeLine(std::string_view& line);
  [[nodiscard]] int ParseHead(std::string_view head);
  [[nodiscard]] bool ParseRequestLine(std::string_view line);
  [[nodiscard]] bool ParseTarget(std::string_view target);
  [[nodiscard]] int ParseField(std::string_view line);
  [[nodiscard]] int ParseLength(std::string_view value);

  std::string buffer_;  ///< bounded: head, or body, or one line, plus what one Feed brought
  Phase phase_ = Phase::kHead;
  HttpRequest request_;
  int status_ = 0;
  int minor_version_ = 1;
  bool keep_alive_ = true;
  bool chunked_ = false;
  bool has_length_ = false;
  bool expects_ = false;
  std::size_t body_left_ = 0;    ///< bytes of the body or the chunk still to come
  std::size_t extra_bytes_ = 0;  ///< chunk extensions and trailers, bounded like a head
};

}  // namespace understudy::transport::http
