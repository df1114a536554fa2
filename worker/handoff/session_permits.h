// How many hand-offs a rank may take part in at a time.
#pragma once

#include "understudy/base/result.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace understudy::worker {

/// Given back when it is destroyed.
class SessionPermit {
 public:
  SessionPermit() = default;
  explicit SessionPermit(std::shared_ptr<std::uint64_t> taken) : taken_(std::move(taken)) {
    ++*taken_;
  }
  ~SessionPermit() { GiveBack(); }
  SessionPermit(SessionPermit&& other) noexcept : taken_(std::move(other.taken_)) {}
  SessionPermit& operator=(SessionPermit&& other) noexcept {
    GiveBack();
    taken_ = std::move(other.taken_);
    return *this;
  }

 private:
  void GiveBack() {
    if (taken_) {
      --*taken_;
      taken_.reset();
    }
  }
  std::shared_ptr<std::uint64_t> taken_;  ///< shared: a session may outlive the table
};

/// One thread.
class SessionPermits {
 public:
  SessionPermits(std::uint32_t dp_size, std::uint64_t per_rank) : per_rank_(per_rank) {
    for (std::uint32_t rank = 0; rank < dp_size; ++rank) {
      taken_.push_back(std::make_shared<std::uint64_t>(0));
    }
  }

  /// Does not wait. kOverloaded: `mocker handoff session limit reached for DP rank {r}`.
  [[nodiscard]] Result<SessionPermit> Take(std::uint32_t dp_rank) {
    if (*taken_[dp_rank] >= per_rank_) {
      ++refused_total_;
      return Fail(Errc::kOverloaded,
                  "mocker handoff session limit reached for DP rank " + std::to_string(dp_rank));
    }
    return SessionPermit(taken_[dp_rank]);
  }
  [[nodiscard]] std::uint64_t taken(std::uint32_t dp_rank) const { return *taken_[dp_rank]; }
  [[nodiscard]] std::uint64_t refused_total() const { return refused_total_; }

 private:
  const std::uint64_t per_rank_;
  std::uint64_t refused_total_ = 0;
  std::vector<std::shared_ptr<std::uint64_t>> taken_;
};

}  // namespace understudy::worker
