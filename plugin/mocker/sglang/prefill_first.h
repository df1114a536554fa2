// The SGLang-style rank of release 1.6.
#pragma once

#include "plugin/mocker/sglang/sglang_scheduler.h"

#include <cstdint>
#include <optional>

namespace understudy::mocker {

/// A pass computes prompts if it can, and their first tokens come with it; else every running
/// request gets a token. The pool is one of pages; what is cached is not charged; the last token of
/// a request whose first one it is takes no place; retracted requests go to the back. Source:
/// aisimulate-core 0.13.0 scheduler/sglang (engine-1.6.md 4); golden vectors
/// engine-1.6/pass_sglang_*.json.
class PrefillFirst final : public SglangScheduler {
 public:
  PrefillFirst(const SchedulerConfig& config, RankIndex rank)
      : SglangScheduler(config, rank, /*paged=*/true) {}

  void SettlePass(const SharedPass& pass) override;

 private:
  void Compute() override;
  void Requeue() override;
  [[nodiscard]] std::uint64_t Reusable(SglangRequest& request) const override;
  [[nodiscard]] std::optional<std::uint64_t> Chunk(std::uint64_t missing,
                                                   const Budget& budget) const override;
  bool Materialize(SglangRequest& request, Part& part) override;
  void RejectTooLong();
  void EndOutputless(std::size_t from);
  void EmitFirstTokens(std::size_t from);
  void OnRetracted() override;

  std::uint32_t prompts_in_ = 0;  ///< passes until prompts may be computed again
  // Of the running pass.
  bool waits_for_prompts_ = false;  ///< nothing to do because of prompts_in_
  double ratio_estimate_ = 0.0;     ///< of output that those who stay will need
};

}  // namespace understudy::mocker
