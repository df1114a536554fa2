#include "tests/fuzz/fuzz.h"
#include "understudy/transport/response_stream.h"

#include <string>

using namespace understudy;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parsed = transport::ParseHostPort(fuzz::View(data, size));
  if (!parsed) {
    UNDERSTUDY_ASSERT(parsed.error().code == Errc::kMalformed);
    return 0;
  }
  UNDERSTUDY_ASSERT(!parsed->host.empty() && parsed->port != 0);
  // Both ways of writing an address with colons mean the same.
  const auto port = ":" + std::to_string(parsed->port);
  for (const auto& text : {parsed->host + port, "[" + parsed->host + "]" + port}) {
    const auto again = transport::ParseHostPort(text);
    UNDERSTUDY_ASSERT(again && again->host == parsed->host && again->port == parsed->port);
  }
  return 0;
}
