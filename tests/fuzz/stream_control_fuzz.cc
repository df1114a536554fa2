#include "tests/fuzz/fuzz.h"
#include "understudy/transport/codec.h"

#include <string>

using namespace understudy;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto frame = transport::ParseTwoPart(fuzz::View(data, size), 1000);
  if (!frame) {
    return 0;
  }
  const auto control = transport::ParseStreamControl(*frame);
  if (control) {
    std::string again;
    transport::AppendStreamControl(again, *control);
    UNDERSTUDY_ASSERT(transport::ParseStreamControl(*transport::ParseTwoPart(again, 0)) ==
                      *control);
  }
  return 0;
}
