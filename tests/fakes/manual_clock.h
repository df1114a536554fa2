// A clock that moves when a test says so.
#pragma once

#include "understudy/base/clock.h"

namespace understudy {

/// Starts at an arbitrary time that is not zero. One thread.
class ManualClock final : public Clock {
 public:
  [[nodiscard]] TimePoint Now() const override { return now_; }
  void Advance(Nanoseconds by) { now_ += by; }
  void Set(TimePoint to) { now_ = to; }

 private:
  TimePoint now_{std::chrono::hours(1)};
};

}  // namespace understudy
