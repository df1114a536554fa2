#include "tests/fuzz/fuzz.h"
#include "understudy/transport/records.h"

using namespace understudy;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::View(data, size);
  const auto name = transport::ParseEndpointName(text);
  if (name) {
    const auto again = transport::ParseEndpointName(name->Dotted());
    UNDERSTUDY_ASSERT(again.has_value() && again->Dotted() == name->Dotted());
  }
  const std::string slug = transport::Slugify(text);
  UNDERSTUDY_ASSERT(transport::Slugify(slug) == slug && slug.size() <= size);
  return 0;
}
