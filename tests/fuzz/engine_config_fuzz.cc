#include "tests/fuzz/args_check.h"
#include "understudy/mocker/engine_config.h"

using namespace understudy;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto json = fuzz::View(data, size);
  const auto args = mocker::ParseEngineConfig(json);
  if (!fuzz::CheckArgs(args)) {
    return 0;
  }
  const auto& engine = args->engine;
  UNDERSTUDY_ASSERT(engine.prefill_schedule_interval >= 1);
  UNDERSTUDY_ASSERT(!engine.host_offload || engine.kv_cache_bytes_per_token.value_or(0) >= 1);
  // What is normalized stays as it is.
  const auto config = mocker::NormalizeEngineConfig(mocker::ReadEngineConfig(json).value());
  UNDERSTUDY_ASSERT(config);
  const auto again = mocker::NormalizeEngineConfig(*config);
  UNDERSTUDY_ASSERT(again &&
                    again->engine.aic_nextn_accept_rates == config->engine.aic_nextn_accept_rates &&
                    again->engine.block_size == config->engine.block_size);
  return 0;
}
