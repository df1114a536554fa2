// A workload made of numbers.
#pragma once

#include "plugin/mocker/speculative/accept_stream.h"
#include "understudy/mocker/replay.h"

namespace understudy::mocker {

/// Holds nothing but counters: rows are made when they are asked for, so a workload may be of any
/// length. Source: dynamo-mocker 1.3.0 synthetic traces (seed, order of ids).
class SyntheticSource final : public ReplaySource {
 public:
  explicit SyntheticSource(const SyntheticOptions& options)
      : options_(options), random_({}, options.seed) {}

  [[nodiscard]] Status Open(ReplayOrder order) override;
  [[nodiscard]] Result<bool> Next(ReplayRow& row) override;
  [[nodiscard]] Status ReadTurn(TurnToken token, ReplayRow& row) override;
  [[nodiscard]] std::uint32_t block_size() const override { return options_.block_size; }
  [[nodiscard]] bool has_sessions() const override { return options_.turns_per_session > 1; }
  [[nodiscard]] std::uint64_t rows_total() const override {
    return options_.request_count * options_.turns_per_session;
  }
  [[nodiscard]] std::uint64_t rows_held() const override { return 0; }

 private:
  void Fill(std::uint64_t number, ReplayRow& row) const;
  [[nodiscard]] std::uint64_t GroupOf(std::uint64_t session) const;

  SyntheticOptions options_;
  AcceptStream random_;  ///< of arrivals: the original's numbers
  std::uint64_t sessions_given_ = 0;
  double next_arrival_ms_ = 0.0;
  std::uint64_t blocks_ = 0;         ///< of a prompt
  std::uint64_t prefix_blocks_ = 0;  ///< of them, from the group
  std::uint64_t own_blocks_ = 0;
};

}  // namespace understudy::mocker
