#include "tests/fuzz/fuzz.h"
#include "understudy/transport/codec.h"

using namespace understudy;

namespace {

void CheckLoad(std::string_view bytes) {
  const auto load = transport::DecodeActiveLoad(bytes);
  if (load) {
    const auto again = transport::DecodeActiveLoad(transport::EncodeActiveLoad(*load));
    UNDERSTUDY_ASSERT(again.has_value() && again->worker_id == load->worker_id);
    UNDERSTUDY_ASSERT(again->dp_rank == load->dp_rank &&
                      again->kv_used_blocks == load->kv_used_blocks);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = fuzz::View(data, size);
  CheckLoad(bytes);
  const auto envelope = transport::DecodeEnvelope(bytes);
  if (!envelope) {
    return 0;
  }
  CheckLoad(envelope->payload);
  const auto again = transport::DecodeEnvelope(transport::EncodeEnvelope(*envelope));
  UNDERSTUDY_ASSERT(again.has_value() && again->publisher_id == envelope->publisher_id);
  UNDERSTUDY_ASSERT(again->sequence == envelope->sequence && again->topic == envelope->topic);
  UNDERSTUDY_ASSERT(again->payload == envelope->payload);
  return 0;
}
