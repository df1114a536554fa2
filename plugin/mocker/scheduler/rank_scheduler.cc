#include "plugin/mocker/scheduler/rank_scheduler.h"

#include "plugin/mocker/scheduler/scheduler.h"
#include "plugin/mocker/sglang/mixed_passes.h"
#include "plugin/mocker/sglang/prefill_first.h"

namespace understudy::mocker {

void RankScheduler::RunPass(PassOutput& output) {
  ComputePass({.at = end_}, output);
  SettlePass(output.shared());
  end_ += output.duration();
}

std::unique_ptr<RankScheduler> NewRankScheduler(const SchedulerConfig& config, RankIndex rank) {
  if (config.engine_type == EngineType::kSglang) {
    if (config.semantics.prefill_first) {
      return std::make_unique<PrefillFirst>(config, rank);
    }
    return std::make_unique<MixedPasses>(config, rank);
  }
  return std::make_unique<Scheduler>(config, rank);
}

}  // namespace understudy::mocker
