#include "worker/kv_relay/engine_batch_order.h"

#include <functional>
#include <utility>

namespace understudy::worker {
namespace {

std::uint64_t Fingerprint(std::string_view payload) {
  return std::hash<std::string_view>{}(payload);
}

}  // namespace

void EngineBatchOrder::Apply(std::uint64_t sequence, std::string_view payload, bool replayed) {
  expected_ = sequence + 1;
  last_fingerprint_ = Fingerprint(payload);
  has_fingerprint_ = true;
  ++counters_.applied;
  counters_.replayed += replayed ? 1U : 0U;
  sink_.OnBatch(payload, replayed);
}

void EngineBatchOrder::Lose(std::uint64_t until) {
  if (until > expected_) {
    counters_.lost += until - expected_;
    sink_.OnLost(until - expected_);
    expected_ = until;
    has_fingerprint_ = false;
  }
}

void EngineBatchOrder::Restart() {
  ++counters_.restarts;
  expected_ = 0;
  has_fingerprint_ = false;
  sink_.OnRestart();
}

void EngineBatchOrder::Pop() {
  waiting_bytes_ -= waiting_.front().payload.size();
  waiting_.pop_front();
}

void EngineBatchOrder::Drain() {
  while (!waiting_.empty() && waiting_.front().sequence <= expected_) {
    if (waiting_.front().sequence == expected_) {
      Apply(expected_, waiting_.front().payload, false);
    } else {
      ++counters_.duplicates;
    }
    Pop();
  }
}

void EngineBatchOrder::Settle() {
  Drain();
  while (!waiting_.empty() && !is_replaying_) {
    ++counters_.gaps;
    // With the batch before the gap, so that a new life of the engine can be told.
    must_match_ = has_fingerprint_;
    is_replaying_ = sink_.RequestReplay(must_match_ ? expected_ - 1 : expected_);
    if (!is_replaying_) {
      Lose(waiting_.front().sequence);
      Drain();
    }
  }
}

void EngineBatchOrder::Keep(std::uint64_t sequence, std::string_view payload) {
  waiting_bytes_ += payload.size();
  waiting_.push_back({sequence, std::string(payload)});
  if (waiting_.size() <= limits_.batches_max && waiting_bytes_ <= limits_.bytes_max) {
    return;
  }
  ++counters_.overflows;
  if (is_replaying_) {
    is_replaying_ = false;
    sink_.AbandonReplay();
  }
  while (!waiting_.empty()) {
    Lose(waiting_.front().sequence);
    Drain();
  }
}

void EngineBatchOrder::Live(std::uint64_t sequence, std::string_view payload) {
  if (last_live_ && sequence <= *last_live_) {
    counters_.voided += waiting_.size();
    waiting_.clear();
    waiting_bytes_ = 0;
    if (is_replaying_) {
      is_replaying_ = false;
      sink_.AbandonReplay();
    }
    Restart();
  }
  last_live_ = sequence;
  if (sequence < expected_) {
    ++counters_.duplicates;  // the replay was ahead
    return;
  }
  if (sequence == expected_ && waiting_.empty()) {
    Apply(sequence, payload, false);
    return;
  }
  Keep(sequence, payload);
  Settle();
}

bool EngineBatchOrder::Replayed(std::uint64_t sequence, std::string_view payload) {
  if (!is_replaying_) {
    return true;  // late
  }
  if (last_live_ && sequence > *last_live_ && sequence - *last_live_ > kAheadMax) {
    return false;
  }
  // Only the first reply is looked at, so that a server that encodes anew is mistaken at most once.
  if (std::exchange(must_match_, false) && sequence + 1 == expected_ &&
      Fingerprint(payload) != last_fingerprint_) {
    // What waits belongs to the new life already; its beginning is asked for.
    sink_.AbandonReplay();
    is_replaying_ = false;
    Restart();
    Settle();
    return true;
  }
  if (sequence < expected_) {
    return true;  // the batch before the gap, or one that came live meanwhile
  }
  while (!waiting_.empty() && waiting_.front().sequence < sequence) {  // a hole in the replay
    Lose(waiting_.front().sequence);
    Drain();
  }
  if (sequence >= expected_) {
    Lose(sequence);
    Apply(sequence, payload, true);
  }
  Drain();
  return true;
}

void EngineBatchOrder::ReplayEnded() {
  if (!is_replaying_) {
    return;
  }
  is_replaying_ = false;
  if (!waiting_.empty()) {
    Lose(waiting_.front().sequence);
  }
  Settle();
}

}  // namespace understudy::worker
