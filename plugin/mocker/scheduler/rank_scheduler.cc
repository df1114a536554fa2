#include "plugin/mocker/scheduler/rank_scheduler.h"

#include "plugin/mocker/scheduler/scheduler.h"
#include "plugin/mocker/sglang/sglang_scheduler.h"

namespace understudy::mocker {

std::unique_ptr<RankScheduler> NewRankScheduler(const SchedulerConfig& config, RankIndex rank) {
  if (config.engine_type == EngineType::kSglang) {
    return std::make_unique<SglangScheduler>(config, rank);
  }
  return std::make_unique<Scheduler>(config, rank);
}

}  // namespace understudy::mocker
