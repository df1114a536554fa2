// What the ranks of an engine are configured with.
#pragma once

#include "plugin/mocker/perf_model/timing.h"
#include "plugin/mocker/policy/policy.h"
#include "plugin/mocker/policy/semantics.h"
#include "understudy/mocker/mocker_options.h"

#include <cstdint>
#include <optional>

namespace understudy::mocker {

/// Shared by all ranks of an engine; outlives them.
struct SchedulerConfig {
  EngineType engine_type = EngineType::kVllm;
  EngineSemantics semantics{};
  std::uint64_t model_len_max = 0;  ///< tokens, 0 = unlimited
  std::uint64_t blocks_total = 16384;
  std::uint32_t block_size = 64;
  std::uint32_t running_max = 0;  ///< 0 = unlimited
  std::uint64_t budget = 0;       ///< tokens of a pass, 0 = unlimited
  std::uint32_t ranks_per_worker = 1;
  std::uint32_t prefill_schedule_interval = 1;
  std::uint32_t prefill_decode_interval = 0;
  bool prefix_caching = true;
  bool chunked_prefill = true;
  bool kv_events = true;
  bool kv_event_tokens = false;  ///< stored events name the tokens
  bool strict_reference = false;
  bool collect_stats = false;
  PreemptionMode preemption = PreemptionMode::kLifo;
  WorkerType worker_type = WorkerType::kAggregated;
  double speedup_ratio = 1.0;
  double decode_speedup_ratio = 1.0;
  SglangOptions sglang{};
  std::optional<HostOffloadOptions> host_offload{};
  std::uint64_t kv_cache_bytes_per_token = 0;  ///< with host_offload
  std::optional<SpeculativeOptions> speculative{};
  std::optional<ReasoningOptions> reasoning{};
  std::uint64_t seed = 42;
  const SchedulingPolicy* policy = nullptr;
  const PerfModel* perf_model = nullptr;
};

}  // namespace understudy::mocker
