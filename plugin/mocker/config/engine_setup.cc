#include "plugin/mocker/config/engine_setup.h"

#include "plugin/mocker/config/options.h"
#include "plugin/mocker/perf_model/load.h"
#include "plugin/mocker/policy/trtllm_policy.h"
#include "plugin/mocker/policy/vllm_policy.h"

#include <utility>

namespace understudy::mocker {

namespace {

std::unique_ptr<SchedulingPolicy> NewPolicy(EngineType type) {
  if (type == EngineType::kTrtllm) {
    return std::make_unique<TrtllmPolicy>();
  }
  return std::make_unique<VllmPolicy>();
}

}  // namespace

Result<std::unique_ptr<EngineSetup>> EngineSetup::New(const MockerOptions& options) {
  UNDERSTUDY_TRY_STATUS(ValidateOptions(options));
  std::unique_ptr<EngineSetup> setup(new EngineSetup());
  setup->policy_ = NewPolicy(options.engine_type);
  UNDERSTUDY_TRY(LoadedPerfModel loaded, LoadPerfModel(options));
  setup->perf_model_ = std::move(loaded.model);
  setup->warnings_ = std::move(loaded.warnings);
  setup->config_ = MakeSchedulerConfig(options);
  setup->config_.policy = setup->policy_.get();
  setup->config_.perf_model = setup->perf_model_.get();
  return setup;
}

}  // namespace understudy::mocker
