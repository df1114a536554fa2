#include "tests/fuzz/fuzz.h"
#include "understudy/transport/codec.h"

using namespace understudy;
using Kind = transport::ResponseFrame::Kind;

// The input is a whole frame; each codec reads it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto view =
      transport::ParseTwoPart(fuzz::View(data, size), transport::DecodeLimits{}.body_bytes_max);
  if (!view) {
    return 0;
  }
  for (const auto codec : {transport::PayloadCodec::kJson, transport::PayloadCodec::kMsgpack}) {
    const auto frame = transport::DecodeResponseFrame(codec, *view);
    if (!frame) {
      UNDERSTUDY_ASSERT(!frame.error().message.empty());
      continue;
    }
    UNDERSTUDY_ASSERT(frame->token_ids.size() <= size);
    const bool data_frame = frame->kind == Kind::kItem || frame->kind == Kind::kErrorItem ||
                            frame->kind == Kind::kCompleteFinal;
    UNDERSTUDY_ASSERT(data_frame == view->header.empty());
  }
  return 0;
}
