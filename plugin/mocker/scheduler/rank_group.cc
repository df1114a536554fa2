#include "plugin/mocker/scheduler/rank_group.h"

#include <algorithm>

namespace understudy::mocker {

RankGroup::RankGroup(const SchedulerConfig& config, std::uint32_t first, std::uint32_t count)
    : prompt_interval_(count > 1 ? config.prefill_schedule_interval : 1) {
  ranks_.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    ranks_.push_back(NewRankScheduler(config, RankIndex{first + i}));
  }
}

bool RankGroup::HasWork() const {
  return std::any_of(
      ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank->HasWork(); });
}

std::optional<Nanoseconds> RankGroup::NextTransfer() const {
  std::optional<Nanoseconds> next;
  for (const auto& rank : ranks_) {
    const std::optional<Nanoseconds> own = rank->NextTransfer();
    if (own && (!next || *own < *next)) {
      next = own;
    }
  }
  return next;
}

bool RankGroup::IsDrained() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const auto& rank) {
    return !rank->HasWork() && rank->blocks().used == 0 && rank->unadmitted() == 0;
  });
}

bool RankGroup::RunPass(Nanoseconds at, const std::vector<PassOutput*>& outputs) {
  const PassStart start{.at = at, .defers_prompts = passes_ % prompt_interval_ != 0};
  SharedPass shared;
  bool progressed = false;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    PassOutput& output = *outputs[i];
    if (!ranks_[i]->HasWork()) {
      output.Clear();
      continue;
    }
    ranks_[i]->ComputePass(start, output);
    progressed = progressed || output.progressed;
    shared.duration = std::max(shared.duration, output.duration());
    shared.prefilled = shared.prefilled || output.prefilled;
    shared.ran_model = shared.ran_model || output.ran_model;
  }
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    outputs[i]->barrier = shared.duration - outputs[i]->duration();
    ranks_[i]->SettlePass(shared);
  }
  ++passes_;
  if (prompt_interval_ > 1 && IsDrained()) {
    passes_ = 0;
  }
  return progressed;
}

}  // namespace understudy::mocker
