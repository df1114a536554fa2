// The simulated engine: schedules, caches and times requests like a GPU engine, without a GPU.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "understudy/base/clock.h"
#include "understudy/base/result.h"
#include "understudy/engine/engine.h"

namespace understudy::mocker {

enum class PreemptionMode : std::uint8_t { kLifo, kFifo };

/// What a worker does with a request: everything, only the prompt (no decode time), or only the decode (no prefill time).
enum class WorkerType : std::uint8_t { kAggregated, kPrefill, kDecode };

/// Bound of requests that a rank holds before their first admission.
inline constexpr std::uint32_t kWaitingRequestsMax = 65536;

/// Configuration of all ranks of one engine. Names and defaults: dynamo-mocker 1.3.0 MockEngineArgs (vLLM style), and ours
/// at the end. Every rank has its own blocks, queues, event ids and random numbers.
struct MockerOptions {
  std::uint32_t rank_count = 1;
  std::uint64_t num_gpu_blocks = 16384;                       ///< per rank
  std::uint32_t block_size = 64;                              ///< tokens, >= 2
  std::optional<std::uint32_t> max_num_seqs = 256;            ///< running requests; none = unlimited
  std::optional<std::uint64_t> max_num_batched_tokens = 8192; ///< token budget of a pass; none = unlimited
  bool enable_prefix_caching = true;
  bool enable_chunked_prefill = true;
  PreemptionMode preemption_mode = PreemptionMode::kLifo;
  WorkerType worker_type = WorkerType::kAggregated;
  double speedup_ratio = 1.0;         ///< 0 = no delay at all (the reference, and strict_reference: like 1)
  double decode_speedup_ratio = 1.0;  ///< multiplies speedup_ratio for decode
  std::chrono::duration<double> startup_time{0};  ///< requests wait until it has passed since Start

  bool kv_events = true;          ///< deliver OnKvEvents (needs prefix caching; a decode worker has none)
  std::uint64_t seed = 42;        ///< token ids of a run; same seed and same arrivals per rank give the same ids
  bool strict_reference = false;  ///< the reference's behaviour where ours differs on purpose (plugin/README.md)
  std::uint32_t waiting_requests_max = kWaitingRequestsMax;  ///< per rank; beyond it Submit says kOverloaded
  std::uint32_t thread_count = 0;                            ///< 0 = min(cores, ranks)
};

/// Checks `options` and makes an engine that has not started. `clock` must run with CLOCK_MONOTONIC (engine threads wait
/// on that clock until the deadlines they compute from `clock`) and outlive the engine.
/// Errors: kInvalidConfig with the reference's text where it has one (dynamo-mocker 1.3.0, golden vector
/// engine_args_validation.json), else one that names the field.
[[nodiscard]] Result<std::unique_ptr<engine::Engine>> NewMockerEngine(MockerOptions options, const Clock& clock);

}  // namespace understudy::mocker
