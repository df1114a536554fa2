#include "tests/fuzz/fuzz.h"
#include "understudy/transport/codec.h"

#include <string>

using namespace understudy;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = fuzz::View(data, size);
  for (const std::size_t limit : {std::size_t{1000}, ~std::size_t{0}}) {
    const auto frame = transport::ParseTwoPart(bytes, limit);
    if (!frame) {
      continue;
    }
    UNDERSTUDY_ASSERT(frame->frame_bytes <= size);
    UNDERSTUDY_ASSERT(frame->body.size() <= limit);
    UNDERSTUDY_ASSERT(frame->header.size() <= transport::kControlHeaderBytesMax);
    std::string again;
    transport::AppendTwoPart(again, frame->header, frame->body);
    // The checksum is the only thing that is not kept.
    UNDERSTUDY_ASSERT(again.substr(0, 16) == bytes.substr(0, 16));
    UNDERSTUDY_ASSERT(again.substr(24) == bytes.substr(24, frame->frame_bytes - 24));
  }
  return 0;
}
