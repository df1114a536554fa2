#include "plugin/mocker/replay/worker_pool.h"

#include "plugin/mocker/config/options.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <utility>

namespace understudy::mocker {

namespace {

constexpr std::int64_t kNsPerS = 1'000'000'000;
constexpr double kNsPerMs = 1e6;

double Ms(Nanoseconds time) {
  const std::int64_t seconds = time.count() / kNsPerS;  // whole ones: the rest is added below
  const std::int64_t rest = time.count() % kNsPerS;
  return (static_cast<double>(seconds) + static_cast<double>(rest) / static_cast<double>(kNsPerS)) *
         1000.0;
}

}  // namespace

Nanoseconds ToNanoseconds(double ms) {
  return Nanoseconds(std::llround(ms * kNsPerMs));
}

double PassEndMs(double at_ms, const PassOutput& pass) {
  return at_ms + Ms(pass.fence) + Ms(pass.prefill) + Ms(pass.decode) + Ms(pass.barrier);
}

Result<std::unique_ptr<WorkerPool>> WorkerPool::New(MockerOptions options,
                                                    std::uint32_t workers,
                                                    bool kv_events,
                                                    std::uint64_t seed) {
  options.kv_events = kv_events;
  std::unique_ptr<WorkerPool> pool(new WorkerPool());
  UNDERSTUDY_TRY(pool->setup_, EngineSetup::New(options));
  pool->ranks_per_worker_ = RanksPerWorker(options);
  pool->has_host_tier_ = options.host_offload.has_value();
  const std::uint32_t ranks = pool->ranks_per_worker_;
  pool->ranks_.resize(std::size_t{workers} * ranks);
  SchedulerConfig config = pool->setup_->config();
  // The rank counts into the seeds: of drawn tokens, and of accepted drafts as in the original.
  config.seed = seed;
  config.ranks_per_worker = workers * ranks;
  // What a run of 1.6 reports of computed prompts.
  config.collect_stats = options.semantics == SemanticsRelease::k16;
  for (std::uint32_t i = 0; i < workers; ++i) {
    auto worker = std::make_unique<Worker>(config, i * ranks, ranks);
    for (std::uint32_t r = 0; r < ranks; ++r) {
      Rank& rank = pool->ranks_[std::size_t{i} * ranks + r];
      rank.scheduler = worker->group.ranks()[r].get();
      worker->passes.push_back(&rank.pass);
    }
    pool->workers_.push_back(std::move(worker));
  }
  pool->ready_.resize((workers + 63) / 64);
  return pool;
}

std::uint64_t WorkerPool::preemptions() const {
  std::uint64_t sum = 0;
  for (const Rank& rank : ranks_) {
    sum += rank.scheduler->load().preemptions_total;
  }
  return sum;
}

std::uint32_t WorkerPool::NextInTurn() {
  const std::uint32_t index = turn_ % workers();
  turn_ = index + 1;
  Worker& worker = *workers_[index];
  const std::uint32_t rank = worker.turn % ranks_per_worker_;
  worker.turn = rank + 1;
  return index * ranks_per_worker_ + rank;
}

void WorkerPool::SetBusy(std::uint32_t worker, bool busy) {
  workers_[worker]->busy = busy;
  Touch(worker);
}

void WorkerPool::Touch(std::uint32_t index) {
  const Worker& worker = *workers_[index];
  const std::uint64_t bit = 1ULL << (index % 64);
  if (!worker.busy && worker.group.HasWork()) {
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
  return workers();
}

double WorkerPool::RunPass(std::uint32_t index, double now_ms, Collector& collector) {
  Worker& worker = *workers_[index];
  worker.group.RunPass(ToNanoseconds(now_ms), worker.passes);
  const double end_ms = PassEndMs(now_ms, *worker.passes.front());
  for (const Rank& rank : RanksOf(index)) {
    collector.AddPromptTokens(rank.pass.stats.prefill_tokens);
    if (end_ms > now_ms) {
      const engine::Load load = rank.scheduler->load();
      collector.series().AddLoad(
          {now_ms,
           end_ms,
           load.requests_waiting,
           load.requests_running,
           static_cast<double>(load.blocks_active) / static_cast<double>(load.blocks_total)});
    }
  }
  Touch(index);
  return end_ms;
}

void WorkerPool::EndPass(std::uint32_t worker, double now_ms) {
  for (Rank& rank : RanksOf(worker)) {
    command_.Clear();
    rank.scheduler->EndPass(ToNanoseconds(now_ms), command_);
    std::move(command_.events.begin(), command_.events.end(), std::back_inserter(rank.pass.events));
  }
  Touch(worker);
}

std::optional<double> WorkerPool::NextTransferMs() const {
  std::optional<Nanoseconds> earliest;
  for (std::uint32_t worker = 0; has_host_tier_ && worker < workers(); ++worker) {
    const auto next = IsBusy(worker) ? std::nullopt : workers_[worker]->group.NextTransfer();
    if (next && (!earliest || *next < *earliest)) {
      earliest = next;
    }
  }
  return earliest ? std::optional(static_cast<double>(earliest->count()) / kNsPerMs) : std::nullopt;
}

bool WorkerPool::HadEffect(std::uint32_t worker, double now_ms, double end_ms) const {
  const auto did_something = [](const PassOutput* pass) {
    return pass->progressed || !pass->outputs.empty() || !pass->admissions.empty() ||
           !pass->events.empty() || !pass->notices.empty();
  };
  const std::vector<PassOutput*>& passes = workers_[worker]->passes;
  return end_ms != now_ms || std::any_of(passes.begin(), passes.end(), did_something);
}

void WorkerPool::NoteSignals(Rank& rank, bool first_tokens, const Collector& collector) {
  rank.signals.clear();
  for (const engine::Output& output : rank.pass.outputs) {
    switch (output.kind) {
      case engine::OutputKind::kToken:
        if (first_tokens && collector.TokensOf(output.id) == 0) {
          rank.signals.push_back({output.id, false, ReplayStatus::kCompleted});
        }
        break;
      case engine::OutputKind::kLastToken:
      case engine::OutputKind::kDone:
        rank.signals.push_back({output.id, true, ReplayStatus::kCompleted});
        break;
      case engine::OutputKind::kRejected:
        rank.signals.push_back({output.id, true, ReplayStatus::kRejected});
        break;
      case engine::OutputKind::kFailed:
        rank.signals.push_back({output.id, true, ReplayStatus::kFailed});
        break;
    }
  }
}

}  // namespace understudy::mocker
