// The SGLang-style rank of release 1.3.
#pragma once

#include "plugin/mocker/sglang/sglang_scheduler.h"

#include <cstdint>
#include <optional>

namespace understudy::mocker {

/// A pass computes prompts and gives every running request a token. The pool is one of tokens; a
/// prompt is charged whole, cached or not, and makes room before it looks into the cache; retracted
/// requests go to the front. Source: dynamo-mocker 1.3.0 scheduler/sglang (engine.md 4); golden
/// vectors pass_sglang_*.json and replay_*_sglang_*.json.
class MixedPasses final : public SglangScheduler {
 public:
  MixedPasses(const SchedulerConfig& config, RankIndex rank)
      : SglangScheduler(config, rank, /*paged=*/false) {}

 private:
  void Compute() override;
  void Requeue() override;
  [[nodiscard]] std::uint64_t Reusable(SglangRequest& /*request*/) const override { return 0; }
  [[nodiscard]] std::optional<std::uint64_t> Chunk(std::uint64_t missing,
                                                   const Budget& budget) const override;
  bool Materialize(SglangRequest& request, Part& part) override;
};

}  // namespace understudy::mocker
