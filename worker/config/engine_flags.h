// The simulated engine as flags describe it.
#pragma once

#include "understudy/base/result.h"
#include "understudy/mocker/engine_args.h"

#include <cstdint>
#include <optional>
#include <string>

namespace understudy::worker {

/// Names and defaults of `python -m dynamo.mocker` 1.3.0; `latency_model` is ours. Unchecked.
struct EngineFlags {
  std::string engine_type = "vllm";
  std::int64_t num_gpu_blocks = 16384, block_size = 0, max_num_seqs = 256,
               max_num_batched_tokens = 8192;
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
  double kv_transfer_bandwidth = 64.0;
  std::string kv_transfer_timing_mode = "full_prompt", kv_cache_dtype = "auto";
  std::optional<std::int64_t> kv_bytes_per_token;

  // without effect
  std::optional<double> gpu_memory_utilization, mem_fraction_static, free_gpu_memory_fraction;
  std::optional<std::uint64_t> num_g2_blocks, num_g3_blocks, offload_batch_size;
  bool enable_g4_storage = false;
  std::optional<double> bandwidth_g1_to_g2_gbps, bandwidth_g2_to_g1_gbps, bandwidth_g2_to_g3_gbps,
      bandwidth_g3_to_g2_gbps, bandwidth_g2_to_g4_gbps, bandwidth_g4_to_g2_gbps;

  std::optional<std::string> extra_engine_args;  ///< file
};

/// The arguments under their names in JSON. Errors: kInvalidConfig names the flag and the value
/// that cannot be one (a negative count, reasoning that is no JSON).
[[nodiscard]] Result<mocker::EngineArguments> ArgumentsOf(const EngineFlags& flags,
                                                          const std::optional<std::string>& model);

/// ValidateEngineArgs for arguments that came from flags: its errors name the flag as well.
[[nodiscard]] Result<mocker::EngineArgs> ValidateFlagArgs(const mocker::EngineArguments& arguments);

/// All of it: `flags`, or instead the file that they name; what is known of the model in the folder
/// `model`. A file replaces all flags but --kv-bytes-per-token and those that its JSON cannot hold
/// (--latency-model). Reads files. Errors: kInvalidConfig, one line with flag, file, field and
/// value, in the reference's words where it has some.
[[nodiscard]] Result<mocker::EngineArgs> LoadEngineArgs(const EngineFlags& flags,
                                                        const std::optional<std::string>& model);

}  // namespace understudy::worker
