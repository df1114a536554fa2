// Metrics under the names that the simulated engine itself has, for dashboards made for it.
// Source: events.md 5; mission.md A.7.
#pragma once

#include "understudy/engine/types.h"
#include "understudy/mocker/mocker_options.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace understudy::worker {

/// Nothing is shown before the first request: its model's name labels everything from then on. A
/// prefill worker never shows anything. Of several workers in a process, ranks of one number are
/// shown together. On the loop's thread.
class NativeMetrics {
 public:
  struct Options {
    mocker::EngineType engine = mocker::EngineType::kVllm;
    std::uint32_t dp_size = 1;
    std::uint32_t rank_count = 1;  ///< over all workers; RankIndex modulo dp_size is the dp rank
    bool prefill = false;
  };
  [[nodiscard]] static std::unique_ptr<NativeMetrics> New(const Options& options);
  virtual ~NativeMetrics() = default;

  /// A request for `model`. True: its times count; false: it has no name, or this is a prefill
  /// worker. Another name than the first is warned of once.
  virtual bool Bind(std::string_view model) = 0;

  virtual void OnLoad(const engine::Load& load) = 0;

  // Of requests for which Bind was true.
  virtual void FirstToken(RankIndex rank, double since_start_s) = 0;
  /// `count` tokens since the last ones, `gap_s` each.
  virtual void NextTokens(RankIndex rank, std::uint32_t count, double gap_s) = 0;
  virtual void Completed(RankIndex rank, double since_start_s) = 0;

  /// Prometheus text format.
  [[nodiscard]] virtual std::string Scrape() = 0;
};

}  // namespace understudy::worker
