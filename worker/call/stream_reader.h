// The frontend's reading side of one response connection: bytes in any cut -> frames in the order
// that the protocol allows.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/codec.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace understudy::worker {

/// Pure. Order: handshake, prologue (or error prologue, then nothing), items, complete_final,
/// sentinel, nothing. Source: wire.md 6.2.
class StreamReader {
 public:
  static constexpr std::size_t kFrameBodyBytesMax = 16U << 20;

  using OnFrame = std::function<void(const transport::ResponseFrame&)>;

  /// Calls `on_frame` for every whole frame, in order. After an error (kMalformed: what was wrong
  /// where) the reader is dead. `on_frame` of the handshake may call set_codec.
  [[nodiscard]] Status Feed(std::string_view bytes, const OnFrame& on_frame);

  /// Codec of the frames with a body; JSON until set.
  void set_codec(transport::PayloadCodec codec) { codec_ = codec; }

  /// complete_final and the sentinel (or the error prologue) were read.
  [[nodiscard]] bool complete() const { return state_ == State::kDone; }
  [[nodiscard]] std::string WaitsFor() const;

 private:
  enum class State : std::uint8_t { kHandshake, kPrologue, kItems, kSentinel, kDone };
  [[nodiscard]] Status Advance(const transport::ResponseFrame& frame);

  State state_ = State::kHandshake;
  transport::PayloadCodec codec_ = transport::PayloadCodec::kJson;
  std::string pending_;
};

}  // namespace understudy::worker
