#include "plugin/mocker/replay/worker_pool.h"

#include <bit>

namespace understudy::mocker {

namespace {

constexpr std::int64_t kNsPerS = 1'000'000'000;

double Ms(Nanoseconds time) {
  const std::int64_t seconds = time.count() / kNsPerS;  // whole ones: the rest is added below
  const std::int64_t rest = time.count() % kNsPerS;
  return (static_cast<double>(seconds) + static_cast<double>(rest) / static_cast<double>(kNsPerS)) *
         1000.0;
}

}  // namespace

double PassEndMs(double at_ms, const PassOutput& pass) {
  return at_ms + Ms(pass.prefill) + Ms(pass.decode);
}

Result<std::unique_ptr<WorkerPool>> WorkerPool::New(MockerOptions options,
                                                    std::uint32_t workers,
                                                    bool kv_events,
                                                    std::uint64_t seed) {
  options.kv_events = kv_events;
  std::unique_ptr<WorkerPool> pool(new WorkerPool());
  UNDERSTUDY_TRY(pool->setup_, EngineSetup::New(options));
  for (std::uint32_t i = 0; i < workers; ++i) {
    auto worker = std::make_unique<Worker>();
    worker->config = pool->setup_->config();
    // The rank counts into the seeds: of drawn tokens, and of accepted drafts as in the original.
    worker->config.seed = seed;
    worker->scheduler = NewRankScheduler(worker->config, RankIndex{i});
    pool->workers_.push_back(std::move(worker));
  }
  pool->ready_.resize((workers + 63) / 64);
  return pool;
}

std::uint64_t WorkerPool::preemptions() const {
  std::uint64_t sum = 0;
  for (const auto& worker : workers_) {
    sum += worker->scheduler->load().preemptions_total;
  }
  return sum;
}

std::uint32_t WorkerPool::NextInTurn() {
  const std::uint32_t index = turn_ % size();
  turn_ = index + 1;
  return index;
}

void WorkerPool::Touch(std::uint32_t index) {
  const Worker& worker = *workers_[index];
  const std::uint64_t bit = 1ULL << (index % 64);
  if (!worker.busy && worker.scheduler->HasWork()) {
    ready_[index / 64] |= bit;
  } else {
    ready_[index / 64] &= ~bit;
  }
}

std::uint32_t WorkerPool::FirstReady(std::uint32_t from) const {
  for (std::uint32_t word = from / 64; word < ready_.size(); ++word) {
    const std::uint64_t bits = ready_[word] & (word == from / 64 ? ~0ULL << (from % 64) : ~0ULL);
    if (bits != 0) {
      return word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
    }
  }
  return size();
}

double WorkerPool::RunPass(std::uint32_t index, double now_ms, Collector& collector) {
  Worker& worker = *workers_[index];
  worker.scheduler->RunPass(worker.pass);
  const double end_ms = PassEndMs(now_ms, worker.pass);
  if (end_ms > now_ms) {
    const engine::Load load = worker.scheduler->load();
    collector.series().AddLoad(
        {now_ms,
         end_ms,
         load.requests_waiting,
         load.requests_running,
         static_cast<double>(load.blocks_active) / static_cast<double>(load.blocks_total)});
  }
  Touch(index);
  return end_ms;
}

void WorkerPool::NoteSignals(std::uint32_t index, bool first_tokens, const Collector& collector) {
  Worker& worker = *workers_[index];
  worker.signals.clear();
  for (const engine::Output& output : worker.pass.outputs) {
    switch (output.kind) {
      case engine::OutputKind::kToken:
        if (first_tokens && collector.TokensOf(output.id) == 0) {
          worker.signals.push_back({output.id, false, ReplayStatus::kCompleted});
        }
        break;
      case engine::OutputKind::kLastToken:
      case engine::OutputKind::kDone:
        worker.signals.push_back({output.id, true, ReplayStatus::kCompleted});
        break;
      case engine::OutputKind::kRejected:
        worker.signals.push_back({output.id, true, ReplayStatus::kRejected});
        break;
      case engine::OutputKind::kFailed:
        worker.signals.push_back({output.id, true, ReplayStatus::kFailed});
        break;
    }
  }
}

}  // namespace understudy::mocker
