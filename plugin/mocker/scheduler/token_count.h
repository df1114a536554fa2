// Tokens of a pass, and the modelled times between the tokens of a request.
#pragma once

#include "understudy/base/clock.h"

#include <cstdint>

namespace understudy::mocker {

class TokenCount {
 public:
  void BeginPass() { pass_gaps_ = tokens_ = requests_ = 0; }

  /// One more token, in pass number `pass`. `latest` is the number of the pass of the request's
  /// token before it (0 = none) and becomes `pass`.
  void Add(std::uint64_t& latest, std::uint64_t pass) {
    ++tokens_;
    if (latest == pass) {
      ++gaps_total_;  // of one burst: no time between them
    } else {
      ++requests_;
      pass_gaps_ += latest != 0 && latest + 1 == pass ? 1U : 0U;
    }
    latest = pass;
  }

  void EndPass(Nanoseconds duration) {
    gaps_total_ += pass_gaps_;
    gap_time_ += duration * static_cast<std::int64_t>(pass_gaps_);
  }

  /// Of the pass.
  [[nodiscard]] std::uint64_t tokens() const { return tokens_; }
  [[nodiscard]] std::uint64_t requests() const { return requests_; }  ///< that got some of them
  /// Since the start: engine::Load::token_gaps_total, token_gap_ns_total.
  [[nodiscard]] std::uint64_t gaps_total() const { return gaps_total_; }
  [[nodiscard]] std::uint64_t gap_ns_total() const {
    return static_cast<std::uint64_t>(gap_time_.count());
  }

 private:
  std::uint64_t tokens_ = 0;
  std::uint64_t requests_ = 0;
  std::uint64_t pass_gaps_ = 0;  ///< tokens whose request had one in the pass before
  std::uint64_t gaps_total_ = 0;
  Nanoseconds gap_time_{0};
};

}  // namespace understudy::mocker
