// The engine arguments of dynamo-mocker 1.3.0, from JSON or from flags. Source: MockEngineArgs
// (engine.md 1); golden vector engine_args_validation.json.
#pragma once

#include "understudy/base/result.h"
#include "understudy/mocker/mocker_options.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace understudy::mocker {

enum class RouterQueuePolicy : std::uint8_t;

/// An argument as it was given: not at all, as null, or with a value.
template <class T>
struct Argument {
  bool given = false;
  std::optional<T> value{};

  Argument& operator=(T v) {
    given = true;
    value = std::move(v);
    return *this;
  }
  void SetIfAny(std::optional<T> v) {
    given = v.has_value();
    value = std::move(v);
  }
  [[nodiscard]] bool is_null() const { return given && !value; }
};

struct SglangArguments {
  std::optional<std::string> schedule_policy;
  std::optional<std::uint64_t> page_size, max_prefill_tokens, chunked_prefill_size,
      clip_max_new_tokens;
  std::optional<double> schedule_conservativeness;
};

struct TrtllmArguments {
  std::optional<std::string> capacity_scheduler_policy;
};

/// All arguments, unchecked, under their names in JSON. Meanings, units and defaults: EngineArgs.
struct EngineArguments {
  Argument<std::string> engine_type;
  Argument<std::uint64_t> num_gpu_blocks, block_size, max_num_seqs, max_num_batched_tokens;
  Argument<bool> enable_prefix_caching, enable_chunked_prefill;
  Argument<double> speedup_ratio, decode_speedup_ratio;
  Argument<std::uint64_t> dp_size;
  Argument<double> startup_time;
  Argument<std::string> worker_type;
  Argument<bool> is_prefill, is_decode;  ///< only without worker_type
  Argument<std::string> planner_profile_data;
  Argument<std::string> aic_backend, aic_system, aic_backend_version, aic_model_path;
  Argument<std::uint64_t> aic_tp_size, aic_moe_tp_size, aic_moe_ep_size, aic_attention_dp_size;
  Argument<std::string> aic_gemm_dtype, aic_moe_dtype, aic_fmha_dtype, aic_kv_cache_dtype,
      aic_comm_dtype;
  Argument<std::uint64_t> aic_nextn;
  Argument<std::string> aic_nextn_accept_rates;
  Argument<std::uint64_t> aic_mtp_seed;
  Argument<double> gpu_memory_utilization, mem_fraction_static, free_gpu_memory_fraction;
  Argument<bool> enable_local_indexer;
  Argument<std::uint64_t> bootstrap_port, handoff_session_timeout_ms, kv_bytes_per_token;
  Argument<double> kv_transfer_bandwidth;
  Argument<std::string> kv_transfer_timing_mode;
  Argument<std::uint64_t> num_g2_blocks, num_g3_blocks;
  Argument<bool> enable_g4_storage;
  Argument<std::uint64_t> offload_batch_size;
  Argument<double> bandwidth_g1_to_g2_gbps, bandwidth_g2_to_g1_gbps, bandwidth_g2_to_g3_gbps,
      bandwidth_g3_to_g2_gbps, bandwidth_g2_to_g4_gbps, bandwidth_g4_to_g2_gbps;
  Argument<ReasoningOptions> reasoning;
  Argument<std::string> response_replay_trace_path;
  Argument<std::uint64_t> zmq_kv_events_port, zmq_replay_port;
  Argument<std::string> preemption_mode, router_queue_policy;
  Argument<SglangArguments> sglang;
  Argument<TrtllmArguments> trtllm;
};

/// Which measurements an AIC performance model would look up. Nothing here computes with them but
/// GpusPerWorker.
struct AicIdentity {
  std::optional<std::string> backend, system, backend_version, model_path;
  std::optional<std::uint64_t> tp_size, moe_tp_size, moe_ep_size, attention_dp_size;
  std::optional<std::string> gemm_dtype, moe_dtype, fmha_dtype, kv_cache_dtype, comm_dtype;
};

/// Checked arguments: what the simulation is made of, and what the worker around it reads.
struct EngineArgs {
  MockerOptions engine;  ///< rank_count is dp_size
  /// Serve this worker's own KV index. Off by default in JSON; the reference's command line turns
  /// it on.
  bool enable_local_indexer = false;
  /// Prefill workers listen on it for decode workers; none = no bootstrap.
  std::optional<std::uint16_t> bootstrap_port;
  std::chrono::milliseconds handoff_session_timeout{300'000};
  /// KV events in vLLM's ZMQ format, and their replay: rank r uses port + r.
  std::optional<std::uint16_t> zmq_kv_events_port, zmq_replay_port;
  std::string response_replay_trace_path;                ///< empty = none
  std::optional<RouterQueuePolicy> router_queue_policy;  ///< of an offline replay; replay.h
  AicIdentity aic;
  /// What was accepted and has no effect, or not the one asked for: one line each.
  std::vector<std::string> warnings;
};

/// The checks, in the reference's order. Errors: kInvalidConfig, one line, the reference's text
/// where it has one; of several numbers out of range the first is named.
[[nodiscard]] Result<EngineArgs> ValidateEngineArgs(const EngineArguments& arguments);

/// One JSON object. Errors as above; those of the JSON text itself name field, line and column.
[[nodiscard]] Result<EngineArgs> ParseEngineArgs(std::string_view json);
/// The same without the checks that need more than one value.
[[nodiscard]] Result<EngineArguments> ReadEngineArguments(std::string_view json);
/// The value of `reasoning` alone.
[[nodiscard]] Result<ReasoningOptions> ReadReasoning(std::string_view json);

/// Hand-offs that a rank can have open at once: the running requests it may have, or its blocks
/// when there is no limit.
[[nodiscard]] std::uint64_t HandoffCapacity(const MockerOptions& options);
/// KV events exist: there is a prefix cache, and the worker is not a decode worker.
[[nodiscard]] bool NeedsKvPublisher(const MockerOptions& options);
/// GPUs that one simulated worker stands for in a replay's report.
[[nodiscard]] std::uint64_t GpusPerWorker(const AicIdentity& aic);

}  // namespace understudy::mocker
