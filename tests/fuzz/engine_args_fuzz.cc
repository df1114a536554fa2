#include "tests/fuzz/fuzz.h"
#include "understudy/mocker/engine_args.h"

#include <string>

using namespace understudy;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto json = fuzz::View(data, size);
  const auto args = mocker::ParseEngineArgs(json);
  if (!args) {
    UNDERSTUDY_ASSERT(args.error().code == Errc::kInvalidConfig);
    UNDERSTUDY_ASSERT(!args.error().message.empty());
    UNDERSTUDY_ASSERT(args.error().message.find('\n') == std::string::npos);
    return 0;
  }
  // What was accepted can be simulated, and is read the same way again.
  const auto& engine = args->engine;
  UNDERSTUDY_ASSERT(engine.block_size >= 1 && engine.num_gpu_blocks >= 1 && engine.rank_count >= 1);
  UNDERSTUDY_ASSERT(engine.speedup_ratio >= 0.0 && engine.startup_time.count() >= 0.0);
  UNDERSTUDY_ASSERT(!engine.speculative || !engine.speculative->accept_rates.empty());
  const auto arguments = mocker::ReadEngineArguments(json);
  UNDERSTUDY_ASSERT(arguments);
  const auto again = mocker::ValidateEngineArgs(*arguments);
  UNDERSTUDY_ASSERT(again && again->engine.block_size == engine.block_size &&
                    again->warnings == args->warnings);
  return 0;
}
