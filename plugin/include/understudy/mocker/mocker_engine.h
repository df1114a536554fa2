// The simulated engine: schedules, caches and times requests like a GPU engine, without a GPU.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/base/result.h"
#include "understudy/engine/engine.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

namespace understudy::mocker {

enum class PreemptionMode : std::uint8_t { kLifo, kFifo };

/// What a worker does with a request: everything, only the prompt (no decode time), or only the
/// decode (no prefill time).
enum class WorkerType : std::uint8_t { kAggregated, kPrefill, kDecode };

/// Bound of requests that a rank holds before their first admission.
inline constexpr std::uint32_t kWaitingRequestsMax = 65536;

/// Configuration of all ranks of one engine. Names and defaults: dynamo-mocker 1.3.0 MockEngineArgs
/// (vLLM style), and ours at the end. Every rank has its own blocks, queues, event ids and random
/// numbers.
struct MockerOptions {
  std::uint32_t rank_count = 1;
  std::uint64_t num_gpu_blocks = 16384;  ///< per rank
  std::uint32_t block_size = 64;         ///< tokens, >= 2
  /// Running requests of a rank; none = unlimited, 0 is refused.
  std::optional<std::uint32_t> max_num_seqs = 256;
  /// Token budget of a pass; none = unlimited, 0 is refused.
  std::optional<std::uint64_t> max_num_batched_tokens = 8192;
  bool enable_prefix_caching = true;
  bool enable_chunked_prefill = true;
  PreemptionMode preemption_mode = PreemptionMode::kLifo;
  WorkerType worker_type = WorkerType::kAggregated;
  /// Divides all times. 0 = no delay at all (in the reference, and with strict_reference: like 1).
  double speedup_ratio = 1.0;
  /// Multiplies speedup_ratio for decode.
  double decode_speedup_ratio = 1.0;
  /// Requests wait until it has passed since Start.
  std::chrono::duration<double> startup_time{0};

  /// Deliver OnKvEvents. Without prefix caching and on a decode worker there are none anyway.
  bool kv_events = true;
  /// Token ids of a run: the same seed and the same arrivals per rank give the same ids.
  std::uint64_t seed = 42;
  /// The reference's behaviour where ours differs on purpose: table in plugin/README.md.
  bool strict_reference = false;
  /// Per rank; beyond it Submit says kOverloaded.
  std::uint32_t waiting_requests_max = kWaitingRequestsMax;
  std::uint32_t thread_count = 0;  ///< 0 = min(cores, ranks)
};

/// Checks `options` and makes an engine that has not started. `clock` must run with CLOCK_MONOTONIC
/// (engine threads wait on that clock until the deadlines they compute from `clock`) and outlive
/// the engine. Errors: kInvalidConfig with the reference's text where it has one
/// (dynamo-mocker 1.3.0, golden vector engine_args_validation.json), else one that names the field.
[[nodiscard]] Result<std::unique_ptr<engine::Engine>> NewMockerEngine(MockerOptions options,
                                                                      const Clock& clock);

}  // namespace understudy::mocker
