#include "tests/fuzz/fuzz.h"
#include "understudy/transport/router_event.h"

using namespace understudy;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto events = transport::DecodeRouterEvents(fuzz::View(data, size));
  if (!events) {
    return 0;
  }
  const auto again = transport::DecodeRouterEvents(
      transport::EncodeRouterEvents(*events, transport::kRouterEventForm16));
  UNDERSTUDY_ASSERT(again.has_value() && *again == *events);
  for (const auto& event : *events) {
    std::string json;
    transport::AppendRouterEventJson(json, event, transport::kRouterEventForm13);
    UNDERSTUDY_ASSERT(!json.empty());
  }
  return 0;
}
