#include "tests/fuzz/fuzz.h"
#include "understudy/transport/bootstrap_frame.h"

#include <string>

using namespace understudy;

/// A connection's bytes: an optional header, then frames until one is wrong or cut off.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view bytes = fuzz::View(data, size);
  if (transport::CheckBootstrapHeader(bytes)) {
    bytes.remove_prefix(transport::kBootstrapHeaderBytes);
  }
  while (true) {
    const auto body = transport::SplitBootstrapFrame(bytes);
    if (!body) {
      return 0;
    }
    UNDERSTUDY_ASSERT(body->frame_bytes <= bytes.size());
    bytes.remove_prefix(body->frame_bytes);
    const auto frame = transport::DecodeBootstrapBody(body->json);
    if (!frame) {
      UNDERSTUDY_ASSERT(!frame.error().message.empty());
      continue;
    }
    UNDERSTUDY_ASSERT(!DebugText(frame->message).empty());
    std::string again;
    if (!transport::AppendBootstrapFrame(again, *frame)) {
      continue;  // it was shorter without our escapes
    }
    const auto body_again = transport::SplitBootstrapFrame(again);
    UNDERSTUDY_ASSERT(body_again);
    const auto frame_again = transport::DecodeBootstrapBody(body_again->json);
    UNDERSTUDY_ASSERT(frame_again && *frame_again == *frame);
  }
}
