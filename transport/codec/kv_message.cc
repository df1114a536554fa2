// Frames of an engine's PUB and replay sockets. Source: events.md 1.1, 1.8;
// vectors/events/zmq_replay.json.
#include "transport/codec/big_endian.h"
#include "understudy/transport/kv_batch.h"

#include <algorithm>

namespace understudy::transport {
namespace {

constexpr std::size_t kSequenceBytes = 8;

Status BadFrames(const char* what, std::size_t count, const char* allowed) {
  return Fail(
      Errc::kMalformed,
      std::string(what) + ": " + std::to_string(count) + " frames (allowed: " + allowed + ")");
}

Result<std::uint64_t> ReadSequence(const char* what, std::string_view frame) {
  auto sequence = ParseSequenceFrame(frame);
  return sequence ? sequence : FailWith(what, sequence.error());
}

}  // namespace

Result<std::uint64_t> ParseSequenceFrame(std::string_view frame) {
  if (frame.size() != kSequenceBytes) {
    return Fail(Errc::kMalformed,
                "a sequence of " + std::to_string(frame.size()) + " bytes (allowed: 8)");
  }
  return LoadU64(frame.data());
}

Result<EngineMessage> ParseEngineMessage(std::span<const std::string_view> frames) {
  constexpr const char* kWhat = "kv event message";
  if (frames.size() != 3) {
    return tl::make_unexpected(BadFrames(kWhat, frames.size(), "3").error());
  }
  UNDERSTUDY_TRY(const std::uint64_t sequence, ReadSequence(kWhat, frames[1]));
  return EngineMessage{frames[0], sequence, frames[2]};
}

Result<ReplayReply> ParseReplayReply(std::span<const std::string_view> frames) {
  constexpr const char* kWhat = "replay reply";
  if (frames.size() != 3 && frames.size() != 4) {
    return tl::make_unexpected(BadFrames(kWhat, frames.size(), "3 or 4").error());
  }
  UNDERSTUDY_TRY(const std::uint64_t sequence, ReadSequence(kWhat, frames[frames.size() - 2]));
  const std::string_view payload = frames.back();
  return ReplayReply{sequence, payload, sequence == kReplayEndSequence || payload.empty()};
}

std::string SequenceFrame(std::uint64_t sequence) {
  std::string frame(kSequenceBytes, '\0');
  StoreU64(frame.data(), sequence);
  return frame;
}

}  // namespace understudy::transport
