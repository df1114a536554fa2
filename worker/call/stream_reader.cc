#include "worker/call/stream_reader.h"

namespace understudy::worker {
namespace {

using Kind = transport::ResponseFrame::Kind;

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kHandshake:
      return "a handshake";
    case Kind::kPrologue:
      return "a prologue";
    case Kind::kErrorPrologue:
      return "an error prologue";
    case Kind::kItem:
      return "a data frame";
    case Kind::kErrorItem:
      return "an error item";
    case Kind::kCompleteFinal:
      return "complete_final";
    case Kind::kSentinel:
      return "the sentinel";
  }
  return "an unknown frame";
}

}  // namespace

Status StreamReader::Feed(std::string_view bytes, const OnFrame& on_frame) {
  pending_.append(bytes);
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const auto frame = transport::ParseTwoPart(rest, kFrameBodyBytesMax);
    if (!frame) {
      if (frame.error().code == Errc::kTruncated) {
        break;
      }
      return tl::make_unexpected(frame.error());
    }
    const auto decoded = transport::DecodeResponseFrame(codec_, *frame);
    if (!decoded) {
      return tl::make_unexpected(decoded.error());
    }
    UNDERSTUDY_TRY_STATUS(Advance(*decoded));
    rest.remove_prefix(frame->frame_bytes);
    on_frame(*decoded);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return {};
}

Status StreamReader::Advance(const transport::ResponseFrame& frame) {
  const auto kind = frame.kind;
  const bool item = kind == Kind::kItem || kind == Kind::kErrorItem;
  if (state_ == State::kHandshake && kind == Kind::kHandshake) {
    state_ = State::kPrologue;
  } else if (state_ == State::kPrologue && kind == Kind::kPrologue) {
    state_ = State::kItems;
  } else if (state_ == State::kPrologue && kind == Kind::kErrorPrologue) {
    state_ = State::kDone;
  } else if (state_ == State::kItems && kind == Kind::kCompleteFinal) {
    state_ = State::kSentinel;
  } else if (state_ == State::kSentinel && kind == Kind::kSentinel) {
    state_ = State::kDone;
  } else if (!(state_ == State::kItems && item)) {
    return Fail(Errc::kMalformed,
                std::string("the worker broke the order of a response: ") + NameOf(kind) +
                    " where " + WaitsFor() + " is due");
  }
  return {};
}

std::string StreamReader::WaitsFor() const {
  switch (state_) {
    case State::kHandshake:
      return "the handshake";
    case State::kPrologue:
      return "the prologue";
    case State::kItems:
      return "a data frame or complete_final";
    case State::kSentinel:
      return "the sentinel";
    case State::kDone:
      return "nothing more";
  }
  return "";
}

}  // namespace understudy::worker
