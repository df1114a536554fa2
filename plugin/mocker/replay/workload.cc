#include "plugin/mocker/replay/workload.h"

#include <algorithm>
#include <tuple>

namespace understudy::mocker {

bool Workload::ComesAfter(const Later& a, const Later& b) {
  return std::tie(a.ready_ms, a.ordinal, a.turn) > std::tie(b.ready_ms, b.ordinal, b.turn);
}

Status Workload::Open() {
  UNDERSTUDY_TRY_STATUS(
      source_.Open(closed_loop() ? ReplayOrder::kAsListed : ReplayOrder::kByTime));
  if (closed_loop()) {
    free_places_.push_back({0.0, *concurrency_});
  }
  return ReadHead();
}

Status Workload::ReadHead() {
  UNDERSTUDY_TRY(has_head_, source_.Next(head_));
  return {};
}

std::optional<double> Workload::HeadReadyMs() const {
  if (!has_head_) {
    return std::nullopt;
  }
  if (!closed_loop()) {
    return head_.timestamp_ms / speedup_ratio_;
  }
  return free_places_.empty() ? std::nullopt : std::optional(free_places_.front().since_ms);
}

bool Workload::HeadIsNext() const {
  const std::optional<double> ready = HeadReadyMs();
  if (!ready || later_.empty()) {
    return ready.has_value();
  }
  return ComesAfter(later_.front(), {*ready, head_.ordinal, kNoTurn, 0});
}

std::optional<double> Workload::NextReadyMs() const {
  if (HeadIsNext()) {
    return HeadReadyMs();
  }
  return later_.empty() ? std::nullopt : std::optional(later_.front().ready_ms);
}

Status Workload::PopHead(ReplayRow& row) {
  std::swap(row, head_);
  if (closed_loop() && --free_places_.front().count == 0) {
    free_places_.pop_front();
  }
  return ReadHead();
}

Status Workload::PopLater(ReplayRow& row) {
  std::pop_heap(later_.begin(), later_.end(), ComesAfter);
  const Later later = later_.back();
  later_.pop_back();
  UNDERSTUDY_TRY_STATUS(source_.ReadTurn(later.token, row));
  row.ordinal = later.ordinal;
  row.turn = later.turn;
  return {};
}

Result<bool> Workload::PopReady(double now_ms, ReplayRow& row, double& arrival_ms) {
  const std::optional<double> ready = NextReadyMs();
  if (!ready || *ready > now_ms) {
    return false;
  }
  arrival_ms = closed_loop() ? now_ms : *ready;
  UNDERSTUDY_TRY_STATUS(HeadIsNext() ? PopHead(row) : PopLater(row));
  return true;
}

void Workload::OnTerminal(const SessionPlace& place, double now_ms) {
  if (place.next != kNoTurn) {
    const double delay = closed_loop() ? place.next_delay_ms : place.next_delay_ms / speedup_ratio_;
    later_.push_back({now_ms + delay, place.ordinal, place.next, place.turn + 1});
    std::push_heap(later_.begin(), later_.end(), ComesAfter);
    return;
  }
  if (closed_loop()) {
    if (!free_places_.empty() && free_places_.back().since_ms == now_ms) {
      ++free_places_.back().count;
    } else {
      free_places_.push_back({now_ms, 1});
    }
  }
}

}  // namespace understudy::mocker
