// Counts of a pass for those who ask for them.
#include "plugin/mocker/scheduler/scheduler.h"

namespace understudy::mocker {

namespace {

/// Welford's running variance: lengths near 2^32 lose nothing.
class Accumulator {
 public:
  explicit Accumulator(LengthStats& stats) : stats_(stats) {}
  ~Accumulator() {
    stats_.variance = stats_.count == 0 ? 0.0 : squares_ / static_cast<double>(stats_.count);
  }
  Accumulator(const Accumulator&) = delete;
  Accumulator& operator=(const Accumulator&) = delete;

  void Add(std::uint64_t length) {
    ++stats_.count;
    stats_.sum += length;
    const double value = static_cast<double>(length);
    const double delta = value - mean_;
    mean_ += delta / static_cast<double>(stats_.count);
    squares_ += delta * (value - mean_);
  }

 private:
  LengthStats& stats_;
  double mean_ = 0.0;
  double squares_ = 0.0;
};

}  // namespace

void Scheduler::FinishStats() {
  PassStats& stats = output_->stats;
  Accumulator prefill(stats.prefill);
  Accumulator decode(stats.decode);
  Accumulator queued_prefill(stats.queued_prefill);
  Accumulator queued_decode(stats.queued_decode);
  for (const RequestState& request : requests_) {  // also those that ended in this pass
    if (request.pass != passes_) {
      continue;
    }
    if (request.pass_prompt > 0) {
      prefill.Add(request.prompt_length);
      stats.prefill_tokens += request.pass_used;
      stats.prefill_kv_tokens += request.pass_before;
    } else {
      decode.Add(request.pass_length);
    }
  }
  for (std::uint32_t index = waiting_.front(); index != kNoIndex; index = requests_[index].next) {
    const RequestState& request = requests_[index];
    if (request.status == State::kPreempted || request.destination) {
      queued_decode.Add(request.length);
    } else {
      queued_prefill.Add(request.prompt_length);
    }
  }
  for (const RequestState& request : requests_) {
    if (request.status == State::kPending || request.status == State::kReserved) {
      queued_decode.Add(request.prompt_length);
    }
  }
  stats.output_tokens = pass_tokens_;
  stats.output_requests = pass_token_requests_;
}

}  // namespace understudy::mocker
