#include "tests/fuzz/args_check.h"
#include "understudy/mocker/engine_args.h"

using namespace understudy;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto json = fuzz::View(data, size);
  const auto args = mocker::ParseEngineArgs(json);
  if (!fuzz::CheckArgs(args)) {
    return 0;
  }
  // What was accepted is read the same way again.
  const auto& engine = args->engine;
  UNDERSTUDY_ASSERT(!engine.speculative || !engine.speculative->accept_rates.empty());
  const auto arguments = mocker::ReadEngineArguments(json);
  UNDERSTUDY_ASSERT(arguments);
  const auto again = mocker::ValidateEngineArgs(*arguments);
  UNDERSTUDY_ASSERT(again && again->engine.block_size == engine.block_size &&
                    again->warnings == args->warnings);
  return 0;
}
