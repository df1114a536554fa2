#include "worker/load_metrics/load_publisher.h"

#include "understudy/transport/codec.h"
#include "worker/log/log.h"

#include <string>
#include <utility>

namespace understudy::worker {
namespace {

constexpr std::string_view kTarget = "worker.load_metrics";

/// Replaces a rank's share `before` of `sum` by `now`. The counters wrap around in between.
void Exchange(engine::Load& sum, const engine::Load& before, const engine::Load& now) {
  sum.blocks_active += now.blocks_active - before.blocks_active;
  sum.blocks_total += now.blocks_total - before.blocks_total;
  sum.requests_running += now.requests_running - before.requests_running;
  sum.requests_waiting += now.requests_waiting - before.requests_waiting;
  sum.preemptions_total += now.preemptions_total - before.preemptions_total;
  sum.passes_total += now.passes_total - before.passes_total;
  sum.token_gaps_total += now.token_gaps_total - before.token_gaps_total;
  sum.token_gap_ns_total += now.token_gap_ns_total - before.token_gap_ns_total;
}

}  // namespace

LoadPublisher::LoadPublisher(transport::Loop& loop,
                             std::vector<transport::EventPublisher*> publishers,
                             Metrics& metrics)
    : publishers_(std::move(publishers)), metrics_(metrics), timer_(loop.NewTimer()) {}

void LoadPublisher::AddWorker(std::uint64_t worker_id,
                              std::uint32_t first,
                              std::uint32_t dp_size,
                              EndpointProbe* probe) {
  const auto worker = static_cast<std::uint32_t>(workers_.size());
  workers_.push_back({first, dp_size, probe, {}});
  ranks_.resize(first + dp_size);
  loads_.resize(first + dp_size);
  for (std::uint32_t dp = 0; dp < dp_size; ++dp) {
    ranks_[first + dp] = {worker_id, dp, worker, std::nullopt, false};
    loads_[first + dp].rank = RankIndex{first + dp};
  }
}

void LoadPublisher::OnLoad(const engine::Load& load) {
  const auto rank = Value(load.rank);
  if (rank >= ranks_.size()) {
    return;
  }
  Worker& worker = workers_[ranks_[rank].worker];
  Exchange(worker.sum, loads_[rank], load);
  loads_[rank] = load;
  if (worker.probe != nullptr) {
    worker.probe->Load(worker.sum);
  }
  if (ranks_[rank].said != load.blocks_active) {
    Mark(rank);
  }
}

void LoadPublisher::SayAgain(RankIndex rank) {
  if (Value(rank) >= ranks_.size()) {
    return;
  }
  const auto& worker = workers_[ranks_[Value(rank)].worker];
  for (auto one = worker.first; one < worker.first + worker.dp_size; ++one) {
    ranks_[one].said.reset();
    Mark(one);
  }
  Send();
}

void LoadPublisher::SayAllAgain() {
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].said) {
      ranks_[rank].said.reset();
      Mark(rank);
    }
  }
  Send();
}

void LoadPublisher::Mark(std::uint32_t rank) {
  if (stopped_) {
    return;
  }
  if (!std::exchange(ranks_[rank].pending, true)) {
    pending_.push_back(rank);
  }
  if (!std::exchange(armed_, true)) {
    timer_->After(kDebounce, [this] { Send(); });
  }
}

void LoadPublisher::Send() {
  armed_ = false;
  timer_->Cancel();
  for (const auto rank : std::exchange(pending_, {})) {
    ranks_[rank].pending = false;
    if (ranks_[rank].said != loads_[rank].blocks_active) {
      SendRank(rank);
    }
  }
}

void LoadPublisher::SendRank(std::uint32_t rank) {
  auto& slot = ranks_[rank];
  transport::ActiveLoad load;
  load.worker_id = slot.worker_id;
  load.dp_rank = slot.dp_rank;
  load.kv_used_blocks = loads_[rank].blocks_active;
  const auto payload = transport::EncodeActiveLoad(load);
  slot.said = loads_[rank].blocks_active;
  for (auto* publisher : publishers_) {
    const auto sent = publisher->Publish(payload);
    metrics_.LoadPublished(sent.has_value());
    if (!sent && !std::exchange(
                     failing_,
                     true)) {  // once per episode; SayAllAgain repeats the values after a reconnect
      Log(LogLevel::kWarn,
          kTarget,
          "Failed to publish metrics for DP rank " + std::to_string(slot.dp_rank) + ": " +
              sent.error().message);
    } else if (sent) {
      failing_ = false;
    }
  }
}

void LoadPublisher::Stop() {
  Send();
  stopped_ = true;
}

}  // namespace understudy::worker
