#include "worker/control/output_tap.h"

namespace understudy::worker {
namespace {

/// Slots of response streams (RequestTable) are far below.
constexpr std::uint64_t kControlSlot = std::uint64_t{1} << 31U;

bool IsControls(RequestId id) {
  return (Value(id) & kControlSlot) != 0;
}

}  // namespace

RequestId OutputTap::TakeId() {
  live_.fetch_add(1, std::memory_order_relaxed);
  return RequestId{++last_ << 32U | kControlSlot};
}

void OutputTap::OnPassBatch(engine::PassBatch batch) {
  if (live_.load(std::memory_order_relaxed) > 0) {
    std::vector<ControlOutput> outputs;
    for (const engine::Output& output : batch.outputs) {
      if (IsControls(output.id)) {
        outputs.push_back({output, {}});
      }
    }
    for (const engine::Failure& failure : batch.failures) {
      for (ControlOutput& one : outputs) {
        if (one.output.id == failure.id) {
          one.failure = failure.message;
        }
      }
    }
    if (!outputs.empty()) {
      loop_.Post([this, alive = alive_, outputs = std::move(outputs)] {
        if (*alive) {
          handler_(outputs);
        }
      });
    }
  }
  next_.OnPassBatch(std::move(batch));
}

}  // namespace understudy::worker
