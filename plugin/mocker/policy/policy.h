// What engines of one family decide differently: who may be admitted and whether somebody must make
// room.
#pragma once

#include <cstdint>
#include <optional>

namespace understudy::mocker {

/// A request as admission sees it, in tokens and blocks.
struct Candidate {
  std::uint64_t length = 0;  ///< prompt and outputs so far
  std::uint64_t prompt = 0;
  std::uint64_t output_max = 0;
  std::uint64_t allocated = 0;      ///< tokens it holds blocks for
  std::uint64_t active_cached = 0;  ///< leading prompt tokens whose blocks other requests hold
};

/// The rest of the rank as admission sees it.
struct PoolView {
  std::uint64_t blocks_total = 0;
  std::uint64_t blocks_active = 0;
  /// Blocks that the running requests will still take; only if the policy asks for it.
  std::uint64_t running_to_finish = 0;
};

/// Stateless; one object serves every rank. Numbers of blocks throughout.
class SchedulingPolicy {
 public:
  virtual ~SchedulingPolicy() = default;

  /// A new request whose footprint exceeds the whole pool is rejected.
  [[nodiscard]] virtual std::uint64_t Footprint(const Candidate& candidate,
                                                std::uint32_t block_size) const = 0;
  /// The head of the queue is admitted when Needed <= Available.
  [[nodiscard]] virtual std::uint64_t Needed(const Candidate& candidate,
                                             std::uint32_t block_size) const = 0;
  [[nodiscard]] virtual std::uint64_t Available(const PoolView& view) const = 0;
  /// Whether PoolView::running_to_finish must be filled in.
  [[nodiscard]] virtual bool CountsRunningToFinish() const = 0;
  /// Whether a request that finds no block may push another one out.
  [[nodiscard]] virtual bool MayPreempt() const = 0;
  /// Outputs the request may have at most, told when it is submitted.
  [[nodiscard]] virtual std::uint64_t OutputLimit(const Candidate& candidate,
                                                  std::uint64_t blocks_total,
                                                  std::uint32_t block_size) const = 0;
};

}  // namespace understudy::mocker
