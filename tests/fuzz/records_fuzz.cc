#include "tests/fuzz/fuzz.h"
#include "understudy/transport/records.h"

using namespace understudy;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto instance = transport::DecodeInstance(fuzz::View(data, size));
  if (!instance) {
    UNDERSTUDY_ASSERT(!instance.error().message.empty());
    return 0;
  }
  const auto again = transport::DecodeInstance(transport::EncodeInstance(*instance).value);
  UNDERSTUDY_ASSERT(again.has_value() && again->instance_id == instance->instance_id);
  UNDERSTUDY_ASSERT(again->name.Dotted() == instance->name.Dotted());
  UNDERSTUDY_ASSERT(again->transport_kind == instance->transport_kind);
  UNDERSTUDY_ASSERT(again->transport_value == instance->transport_value);
  UNDERSTUDY_ASSERT(again->device_type == instance->device_type);
  UNDERSTUDY_ASSERT(again->request_plane_codec == instance->request_plane_codec);
  return 0;
}
