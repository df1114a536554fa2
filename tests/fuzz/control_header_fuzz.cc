#include "tests/fuzz/fuzz.h"
#include "understudy/transport/codec.h"

using namespace understudy;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto control = transport::ParseRequestControl(fuzz::View(data, size));
  if (!control) {
    UNDERSTUDY_ASSERT(!control.error().message.empty());
    return 0;
  }
  if (control->transport == "tcp_server") {
    const auto again = transport::ParseRequestControl(transport::EncodeRequestControl(*control));
    // Escaping can make a header near the limit longer than it.
    UNDERSTUDY_ASSERT(again.has_value() || size > transport::kControlHeaderBytesMax / 12);
    if (again) {
      UNDERSTUDY_ASSERT(again->id == control->id && again->subject == control->subject);
      UNDERSTUDY_ASSERT(again->address == control->address && again->codec == control->codec);
      UNDERSTUDY_ASSERT(again->unknown_codec == control->unknown_codec);
    }
  }
  return 0;
}
