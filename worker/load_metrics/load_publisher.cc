#include "worker/load_metrics/load_publisher.h"

#include "understudy/transport/codec.h"
#include "worker/log/log.h"

#include <chrono>
#include <span>
#include <string>
#include <utility>

namespace understudy::worker {
namespace {

constexpr std::string_view kTarget = "worker.load_metrics";

std::uint64_t UnixMilliseconds() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

}  // namespace

LoadPublisher::LoadPublisher(transport::Loop& loop,
                             transport::NatsClient& nats,
                             std::vector<EventRoute> routes,
                             Metrics& metrics)
    : nats_(nats),
      routes_(std::move(routes)),
      sequences_(routes_.size(), 0),
      metrics_(metrics),
      timer_(loop.NewTimer()) {}

void LoadPublisher::AddWorker(std::uint64_t worker_id,
                              std::uint32_t first,
                              std::uint32_t dp_size,
                              EndpointProbe* probe) {
  const auto worker = static_cast<std::uint32_t>(workers_.size());
  workers_.push_back({first, dp_size, probe});
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
  loads_[rank] = load;
  UpdateProbe(workers_[ranks_[rank].worker]);
  if (ranks_[rank].said != load.blocks_active) {
    Mark(rank);
  }
}

void LoadPublisher::UpdateProbe(const Worker& worker) {
  if (worker.probe == nullptr) {
    return;
  }
  engine::Load sum;
  for (std::uint32_t rank = worker.first; rank < worker.first + worker.dp_size; ++rank) {
    sum.blocks_active += loads_[rank].blocks_active;
    sum.blocks_total += loads_[rank].blocks_total;
    sum.requests_running += loads_[rank].requests_running;
    sum.requests_waiting += loads_[rank].requests_waiting;
    sum.preemptions_total += loads_[rank].preemptions_total;
    sum.passes_total += loads_[rank].passes_total;
    sum.token_gaps_total += loads_[rank].token_gaps_total;
    sum.token_gap_ns_total += loads_[rank].token_gap_ns_total;
  }
  worker.probe->Load(sum);
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
  for (std::size_t route = 0; route < routes_.size(); ++route) {
    const auto bytes = transport::EncodeEnvelope({routes_[route].publisher_id,
                                                  sequences_[route]++,
                                                  UnixMilliseconds(),
                                                  routes_[route].topic,
                                                  payload});
    const auto sent = nats_.Publish(routes_[route].subject, std::as_bytes(std::span(bytes)));
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
