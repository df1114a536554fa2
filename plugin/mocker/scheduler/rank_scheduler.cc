#include "plugin/mocker/scheduler/rank_scheduler.h"

#include "plugin/mocker/scheduler/scheduler.h"

namespace understudy::mocker {

std::unique_ptr<RankScheduler> NewRankScheduler(const SchedulerConfig& config, RankIndex rank) {
  return std::make_unique<Scheduler>(config, rank);
}

}  // namespace understudy::mocker
