// The ranks that share a pass.
#pragma once

#include "plugin/mocker/scheduler/rank_scheduler.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace understudy::mocker {

/// Data-parallel ranks of one worker (1.6), or a single rank. All that have work start a pass
/// together; it is over for everybody when the slowest is. Not thread safe. Source: aisimulate-core
/// 0.13.0 generalized/engine.rs (engine-1.6.md 5.6).
class RankGroup {
 public:
  using Ranks = std::vector<std::unique_ptr<RankScheduler>>;

  /// Numbers `first` to `first + count`, as `config` says; it outlives the group.
  RankGroup(const SchedulerConfig& config, std::uint32_t first, std::uint32_t count);

  [[nodiscard]] const Ranks& ranks() const { return ranks_; }
  [[nodiscard]] bool HasWork() const;

  /// `outputs[i]` is filled for rank i; that of a rank without work says nothing but how long the
  /// pass is. Returns whether anybody progressed.
  bool RunPass(Nanoseconds at, const std::vector<PassOutput*>& outputs);

  /// The earliest of its ranks'.
  [[nodiscard]] std::optional<Nanoseconds> NextTransfer() const;

 private:
  [[nodiscard]] bool IsDrained() const;

  const std::uint32_t prompt_interval_;
  Ranks ranks_;
  std::uint64_t passes_ = 0;  ///< since somebody came to an empty group
};

}  // namespace understudy::mocker
