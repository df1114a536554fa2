#include "plugin/mocker/scheduler/scheduler.h"

#include "plugin/mocker/kv_cache/block_pool.h"
#include "plugin/mocker/kv_cache/copy_pool.h"
#include "understudy/base/assert.h"

#include <algorithm>

namespace understudy::mocker {

namespace {
std::unique_ptr<KvPool> NewPool(const SchedulerConfig& config, RankIndex rank) {
  const KvPool::Options options{.blocks_total = config.blocks_total,
                                .caching = config.prefix_caching,
                                .events = config.kv_events && config.prefix_caching,
                                .rank = rank,
                                .block_size = config.block_size};
  if (config.semantics.block_copies) {
    return std::make_unique<CopyPool>(options);
  }
  return std::make_unique<BlockPool>(options);
}

std::unique_ptr<HostOffload> NewHost(const SchedulerConfig& config) {
  if (!config.host_offload) {
    return nullptr;
  }
  const HostOffloadOptions& host = *config.host_offload;
  return std::make_unique<HostOffload>(HostTier::Options{
      .blocks_max = host.num_host_blocks,
      .block_bytes = config.block_size * config.kv_cache_bytes_per_token,
      .to_host_gbps = host.d2h_bandwidth_gbps,
      .to_device_gbps = host.h2d_bandwidth_gbps,
      .latency = std::chrono::duration_cast<Nanoseconds>(
          std::chrono::duration<double, std::milli>(host.latency_to_first_byte_ms)),
      .block_size = config.block_size});
}

constexpr const char* kDeadEnd =
    "Completion signal received before max tokens reached: the prompt does not fit into a pass "
    "(chunked prefill is off and it exceeds the token budget)";
}  // namespace

void PassOutput::Clear() {
  fence = prefill = decode = barrier = Nanoseconds(0);
  events.clear();
  events_at_end = false;
  admissions.clear();
  outputs.clear();
  failures.clear();
  notices.clear();
  stats = {};
  progressed = prefilled = ran_model = false;
}

Scheduler::Scheduler(const SchedulerConfig& config, RankIndex rank)
    : config_(config),
      rank_(rank),
      rank_seed_(OutputTokens::Mix(config.seed ^ (std::uint64_t{Value(rank)} << 32U))),
      pool_(NewPool(config, rank)),
      host_(NewHost(config)) {
  UNDERSTUDY_ASSERT(config.policy != nullptr && config.perf_model != nullptr &&
                    config.block_size >= 2);
  if (config.speculative) {
    accepts_.emplace(config.speculative->accept_rates,
                     config.speculative->SeedOf(Value(rank), config.ranks_per_worker));
  }
}

std::optional<std::uint64_t> Scheduler::ClearCache(engine::InUse in_use, CommandOutput& output) {
  if (in_use == engine::InUse::kRefuse && pool_->active() > 0) {
    return std::nullopt;
  }
  const bool host_holds = host_ && !host_->tier.Clear();
  const std::uint64_t cleared = pool_->ClearCached(host_holds, output.events);
  if (host_) {
    TellHostChanges(output, pool_->active() > 0 || host_holds);
  }
  return cleared;
}

void Scheduler::ComputePass(const PassStart& start, PassOutput& output) {
  output.Clear();
  output.events_at_end = config_.semantics.events_at_end;
  output_ = &output;
  CompactRunning();  // of requests cancelled since the last pass
  ++passes_;
  budget_ = config_.budget == 0 ? UINT64_MAX : config_.budget;
  prefill_batch_ = {};
  preempted_any_ = false;
  defers_prompts_ = DefersPrompts(start);
  pass_start_ = start.at;
  token_count_.BeginPass();

  ScheduleRunning();
  AdmitWaiting();
  if (!defers_prompts_ && !preempted_any_) {
    left_waiting_ = !waiting_.empty();
  }
  if (host_) {
    PrepareStores();
    CollectFence();
    output.fence = std::max(Nanoseconds(0), host_->compute_from - pass_start_);
  }
  if (config_.worker_type != WorkerType::kDecode) {
    output.prefill = ScaledTime(config_.perf_model->PrefillMs(prefill_batch_),
                                config_.speedup_ratio,
                                config_.strict_reference);
  }
  if (accepts_) {
    DecodeSpeculative();
  } else {
    Decode();
  }
  FailDeadEnd();

  output.outputs.insert(output.outputs.end(), endings_.begin(), endings_.end());
  endings_.clear();
  CompactRunning();
  if (config_.collect_stats) {
    FinishStats();
  }
  output_ = nullptr;
}

void Scheduler::SettlePass(const SharedPass& pass) {
  token_count_.EndPass(pass.duration);
}

void Scheduler::FailDeadEnd() {
  if (output_->progressed || config_.strict_reference || running_count_ > 0 ||
      reserved_ + held_sources_ + pending_.size() > 0) {
    return;
  }
  if (host_ && (ReleaseLastLoad() || host_->tier.NextEnd())) {
    return;
  }
  const std::uint32_t head = NextCandidate();
  if (head == kNoIndex) {
    return;
  }
  // Nobody runs and the head cannot start: nothing that happens later changes that, and everybody
  // waits behind it.
  EndWithout(head,
             engine::OutputKind::kFailed,
             requests_[head].status == State::kPreempted ? kOutgrewPool : kDeadEnd);
}

engine::Load Scheduler::load() const {
  return {.rank = rank_,
          .blocks_active = pool_->active(),
          .blocks_total = pool_->total(),
          .requests_running = running_count_,
          .requests_waiting = WaitingCount() + pending_.size() + reserved_,
          .preemptions_total = preemptions_,
          .passes_total = passes_,
          .token_gaps_total = token_count_.gaps_total(),
          .token_gap_ns_total = token_count_.gap_ns_total()};
}

std::vector<BlockHash> Scheduler::KnownBlocks(StorageTier tier) const {
  if (tier == StorageTier::kDevice) {
    return pool_->KnownBlocks();
  }
  return host_ && tier == StorageTier::kHostPinned ? host_->tier.KnownBlocks()
                                                   : std::vector<BlockHash>{};
}

std::string Scheduler::CheckConsistency() const {
  if (std::string problem = pool_->CheckConsistency(); !problem.empty()) {
    return problem;
  }
  std::uint32_t running = 0;
  std::uint32_t waiting = 0;
  std::uint32_t apart = 0;
  std::vector<std::uint32_t> slots;
  for (std::size_t index = 0; index < requests_.size(); ++index) {
    const RequestState& request = requests_[index];
    const State status = request.status;
    running += status == State::kRunning ? 1U : 0U;
    waiting += status == State::kWaiting || status == State::kPreempted ? 1U : 0U;
    apart += status == State::kHeld || status == State::kPending || status == State::kReserved;
    const bool may_hold = status == State::kRunning || status == State::kHeld ||
                          status == State::kReserved ||
                          (status == State::kWaiting && request.destination) ||
                          (host_ && host_->requests[index].loaded > 0);
    if (!may_hold && request.held > 0) {
      return "a request that neither runs nor is handed over holds blocks";
    }
    for (std::uint32_t i = 0; i < request.held; ++i) {
      slots.push_back(request.sequence.blocks()[i].slot);
    }
  }
  std::sort(slots.begin(), slots.end());
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  if (slots.size() != pool_->active()) {
    return "requests hold " + std::to_string(slots.size()) + " blocks, active are " +
           std::to_string(pool_->active());
  }
  if (host_) {
    if (std::string problem = host_->tier.CheckConsistency(); !problem.empty()) {
      return problem;
    }
  }
  if (running != running_count_ || waiting != WaitingCount() ||
      apart != pending_.size() + reserved_ + held_sources_ ||
      by_id_.size() != running + waiting + apart) {
    return "the queues do not match the requests";
  }
  return {};
}

}  // namespace understudy::mocker
