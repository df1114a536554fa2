// The simulated engine as flags describe it.
#pragma once

#include "understudy/base/result.h"
#include "understudy/mocker/engine_args.h"
#include "understudy/mocker/engine_config.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace understudy::worker {

/// Names and defaults of `python -m dynamo.mocker`, those of 1.3.0 and of 1.6.1; `latency_model` is
/// ours. Unchecked. What is none has another default in each release.
struct EngineFlags {
  std::string engine_type = "vllm";
  std::int64_t num_gpu_blocks = 16384, max_num_seqs = 256, max_num_batched_tokens = 8192;
  std::optional<std::int64_t> block_size, max_model_len;
  bool enable_prefix_caching = true, enable_chunked_prefill = true;
  std::string preemption_mode = "lifo";
  std::int64_t data_parallel_size = 1;

  // how long things take
  double speedup_ratio = 1.0, decode_speedup_ratio = 1.0;
  std::optional<double> startup_time_s;
  std::optional<std::string> planner_profile_data, latency_model;
  bool aic_perf_model = false;
  std::optional<std::string> aic_backend, aic_system, aic_backend_version;
  std::optional<std::int64_t> aic_tp_size, aic_moe_tp_size, aic_moe_ep_size, aic_attention_dp_size;
  std::optional<std::string> ais_perf_config;  ///< 1.6

  // what is said
  std::optional<std::int64_t> aic_nextn;
  std::optional<std::string> aic_nextn_accept_rates;
  std::uint64_t aic_mtp_seed = 42;
  std::optional<std::string> reasoning;  ///< JSON
  std::optional<std::string> response_replay_trace_path;

  // of one engine
  std::optional<std::string> sglang_schedule_policy;
  std::optional<std::int64_t> sglang_page_size, sglang_max_prefill_tokens,
      sglang_chunked_prefill_size, sglang_clip_max_new_tokens;
  std::optional<double> sglang_schedule_conservativeness;
  std::optional<std::string> trtllm_capacity_scheduler_policy;

  // hand-off
  std::optional<double> kv_transfer_bandwidth;  ///< none = 64 in 1.3, no delay in 1.6
  std::string kv_transfer_timing_mode = "full_prompt", kv_cache_dtype = "auto";
  std::optional<std::int64_t> kv_bytes_per_token;

  // the tier in host memory, 1.6
  std::optional<std::int64_t> num_host_blocks;
  std::optional<double> host_offload_d2h_bandwidth_gbps, host_offload_h2d_bandwidth_gbps;

  // without effect
  std::optional<double> gpu_memory_utilization, mem_fraction_static, free_gpu_memory_fraction;
  // without effect in 1.3, gone in 1.6
  std::optional<std::uint64_t> num_g2_blocks, num_g3_blocks, offload_batch_size;
  bool enable_g4_storage = false;
  std::optional<double> bandwidth_g1_to_g2_gbps, bandwidth_g2_to_g1_gbps, bandwidth_g2_to_g3_gbps,
      bandwidth_g3_to_g2_gbps, bandwidth_g2_to_g4_gbps, bandwidth_g4_to_g2_gbps;

  std::optional<std::string> extra_engine_args;  ///< file
};

/// The arguments of 1.3 under their names in JSON. Errors: kInvalidConfig names the flag and the
/// value that cannot be one (a negative count, reasoning that is no JSON), or the flag that only
/// 1.6 has.
[[nodiscard]] Result<mocker::EngineArguments> ArgumentsOf(const EngineFlags& flags,
                                                          const std::optional<std::string>& model);

/// The configuration of 1.6. `warnings` gets a line for each flag that is on its way out. Errors:
/// likewise, or the flag that only 1.3 has; the reference's text for flags that exclude each other.
[[nodiscard]] Result<mocker::EngineConfig> ConfigOf(const EngineFlags& flags,
                                                    const std::optional<std::string>& model,
                                                    std::vector<std::string>& warnings);

/// Each `--ais-X` may be written `--aic-X`, but not both: kInvalidConfig, the reference's text.
[[nodiscard]] Status CheckSpellings(const std::vector<std::string>& arguments);

// For the two files that make arguments of flags.

/// Errors: kInvalidConfig names the flag when the number is negative.
[[nodiscard]] Result<std::optional<std::uint64_t>> CountOf(const char* flag,
                                                           std::optional<std::int64_t> given);
/// None when it was not given, or empty. Errors: kInvalidConfig names the flag.
[[nodiscard]] Result<std::optional<mocker::ReasoningOptions>> ReasoningOf(const EngineFlags& flags);

}  // namespace understudy::worker
