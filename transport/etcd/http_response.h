// Bytes of a connection -> one HTTP/1.1 answer. Pure: no socket, no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace understudy::transport::etcd {

struct HttpReply {
  int status = 0;
  std::string body;
};

/// Feed bytes in pieces of any size: the same answer comes out however the stream is cut. Interim
/// answers (1xx) are skipped, trailers and chunk extensions are read and forgotten.
class ResponseParser {
 public:
  static constexpr std::size_t kBodyBytesMax = 64U << 20;
  /// For all header lines of the answer and of the interim ones before it; once more for the lines
  /// of the chunked form.
  static constexpr std::size_t kHeadBytesMax = 64U << 10;

  enum class State : std::uint8_t {
    kMore,  ///< not complete: feed more
    kDone,  ///< TakeReply may be called, once
    kBad,   ///< reason() says why; the connection cannot go on
  };

  /// A body longer than `body_bytes_max` is refused.
  explicit ResponseParser(std::size_t body_bytes_max = kBodyBytesMax)
      : body_bytes_max_(body_bytes_max) {}

  /// Bytes beyond the end of the answer only make keep_alive() false.
  State Feed(std::string_view bytes);
  /// The peer closed: the end of an answer without a length, kBad within one with a length.
  State FeedEnd();

  [[nodiscard]] State state() const;
  [[nodiscard]] HttpReply TakeReply() { return std::move(reply_); }
  /// After kDone: whether the connection may carry another call.
  [[nodiscard]] bool keep_alive() const { return keep_alive_; }
  /// After kBad: in words, and whether it was the length of the body.
  [[nodiscard]] const std::string& reason() const { return reason_; }
  [[nodiscard]] bool too_long() const { return too_long_; }

 private:
  enum class Phase : std::uint8_t {
    kStatusLine,
    kField,
    kBody,
    kBodyUntilEnd,
    kChunkSize,
    kChunkData,
    kChunkEnd,
    kTrailer,
    kDone,
    kBad,
  };

  void Step(std::string_view& bytes);
  void OnLine();
  void OnStatusLine();
  void OnField();
  void OnHeadEnd();
  void OnChunkSize();
  void OnLength(std::string_view value);
  [[nodiscard]] bool TakeLine(std::string_view& bytes);
  void TakeBody(std::string_view& bytes);
  void TakeChunkEnd(std::string_view& bytes);
  void Bad(std::string reason);
  void TooLong();

  std::size_t body_bytes_max_;
  Phase phase_ = Phase::kStatusLine;
  HttpReply reply_;
  std::string line_;             ///< the part of a line that is there, at most kHeadBytesMax
  std::size_t head_bytes_ = 0;   ///< never set back by an interim answer
  std::size_t extra_bytes_ = 0;  ///< lines of the chunked form
  std::size_t body_left_ = 0;    ///< bytes of the body or the chunk still to come
  std::size_t chunk_bytes_ = 0;  ///< size of the chunk under way
  int minor_version_ = 1;
  bool keep_alive_ = true;
  bool has_length_ = false;
  bool chunked_ = false;
  bool too_long_ = false;
  std::string reason_;
};

}  // namespace understudy::transport::etcd
