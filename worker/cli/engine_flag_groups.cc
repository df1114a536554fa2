#include "worker/cli/engine_flag_groups.h"

namespace understudy::worker {
namespace {

void AddScheduling(FlagSet& flags, EngineFlags& f) {
  flags.Group("Engine");
  flags.Text("--engine-type",
             &f.engine_type,
             "Engine whose scheduler and cache are simulated",
             {"vllm", "sglang", "trtllm"});
  flags.Integer("--num-gpu-blocks-override", &f.num_gpu_blocks, "KV blocks of a rank");
  flags.Integer(
      "--block-size", &f.block_size, "Tokens of a KV block; default vllm 64, sglang 1, trtllm 32");
  flags.Integer("--max-model-len",
                &f.max_model_len,
                "Tokens of prompt and output together; longer prompts are rejected, outputs end "
                "there; no limit when not given");
  flags.Integer("--max-num-seqs", &f.max_num_seqs, "Requests that run at once in a rank");
  flags.Integer("--max-num-batched-tokens", &f.max_num_batched_tokens, "Token budget of a pass");
  flags.Switch("--enable-prefix-caching",
               &f.enable_prefix_caching,
               "Reuse KV blocks of equal prefixes, on by default",
               "--no-enable-prefix-caching");
  flags.Switch("--enable-chunked-prefill",
               &f.enable_chunked_prefill,
               "Split prompts over passes, on by default; sglang always does",
               "--no-enable-chunked-prefill");
  flags.Text("--preemption-mode",
             &f.preemption_mode,
             "Who gives up its blocks under pressure: the newest or the oldest",
             {"lifo", "fifo"});
}

void AddTiming(FlagSet& flags, EngineFlags& f) {
  flags.Group("Timing");
  flags.Real("--speedup-ratio",
             &f.speedup_ratio,
             "Divides modelled times; 0 = free running, no delay at all");
  flags.Real("--decode-speedup-ratio", &f.decode_speedup_ratio, "Divides decode times further");
  flags.Real(
      "--startup-time", &f.startup_time_s, "Seconds after registration until requests are served");
  flags.Text("--planner-profile-data",
             &f.planner_profile_data,
             "Measured times: an .npz file, or a folder with a profiler's results");
  flags.Text("--latency-model",
             &f.latency_model,
             "Times of your own: a table (.json, .npz), a shared object (.so), or two numbers "
             "(fixed:PREFILL_MS,DECODE_MS); wins over --planner-profile-data");
}

void AddOutput(FlagSet& flags, EngineFlags& f) {
  flags.Group("Output");
  flags.Text("--reasoning",
             &f.reasoning,
             "Thinking spans, JSON: {\"start_thinking_token_id\": 1, \"end_thinking_token_id\": 2, "
             "\"thinking_ratio\": 0.6}");
  flags.Text("--response-replay-trace-path",
             &f.response_replay_trace_path,
             "JSON Lines with output_token_ids for requests annotated output_replay_id:KEY");
  flags.Integer("--ais-nextn,--aic-nextn",
                &f.aic_nextn,
                "Speculative decoding: draft tokens of a step, 1 to 5");
  flags.Text("--ais-nextn-accept-rates,--aic-nextn-accept-rates",
             &f.aic_nextn_accept_rates,
             "Chance of each draft token when those before it were accepted: 0.85,0.3");
  flags.Count(
      "--ais-mtp-seed,--aic-mtp-seed", &f.aic_mtp_seed, "Of these chances; worker i uses seed + i");
}

void AddFamilies(FlagSet& flags, EngineFlags& f) {
  flags.Group("Only with --engine-type sglang or trtllm");
  flags.Text(
      "--sglang-schedule-policy",
      &f.sglang_schedule_policy,
      "Order of waiting requests: fifo (default; fcfs is the same), or longest cached prefix "
      "first",
      {"fifo", "fcfs", "lpm"});
  flags.Integer("--sglang-page-size",
                &f.sglang_page_size,
                "Tokens of a page, the same as --block-size, which 1.6 wants instead");
  flags.Integer("--sglang-max-prefill-tokens",
                &f.sglang_max_prefill_tokens,
                "Prompt tokens of a pass (default 16384)");
  flags.Integer("--sglang-chunked-prefill-size",
                &f.sglang_chunked_prefill_size,
                "Longer prompts are split, a multiple of the page (default 8192)");
  flags.Integer("--sglang-clip-max-new-tokens",
                &f.sglang_clip_max_new_tokens,
                "Output tokens of a request that admission reckons with (default 4096)");
  flags.Real("--sglang-schedule-conservativeness",
             &f.sglang_schedule_conservativeness,
             "How much of the outputs still to come is kept free, 0 to 1 (default 1)");
  flags.Text("--trtllm-capacity-scheduler-policy",
             &f.trtllm_capacity_scheduler_policy,
             "The only one there is",
             {"guaranteed_no_evict"});
}

}  // namespace

void AddEngineFlags(FlagSet& flags, EngineFlags& given) {
  AddScheduling(flags, given);
  AddTiming(flags, given);
  AddOutput(flags, given);
  AddFamilies(flags, given);
}

void AddTransferFlags(FlagSet& flags, EngineFlags& given) {
  flags.Group("Hand-off between prefill and decode workers");
  flags.Real("--kv-transfer-bandwidth",
             &given.kv_transfer_bandwidth,
             "GB/s between workers, 0 = no delay; default 64 (1.3), no delay (1.6)");
  flags.Text("--kv-transfer-timing-mode",
             &given.kv_transfer_timing_mode,
             "Tokens charged: the whole prompt, or what the destination misses",
             {"full_prompt", "destination_missing"});
  flags.Integer("--kv-bytes-per-token",
                &given.kv_bytes_per_token,
                "Bytes of KV cache a token; default: from the model's config.json");
  flags.Text("--kv-cache-dtype",
             &given.kv_cache_dtype,
             "Type that this default reckons with; auto = the model's",
             {"auto", "bfloat16", "fp8", "fp8_ds_mla", "fp8_e4m3", "fp8_e5m2", "fp8_inc"});
  flags.Group("Blocks in host memory (engine of 1.6, vllm)");
  flags.Integer("--num-host-blocks",
                &given.num_host_blocks,
                "Blocks that a rank keeps there, of --kv-bytes-per-token bytes a token");
  flags.Amount("--host-offload-d2h-bandwidth-gbps",
               &given.host_offload_d2h_bandwidth_gbps,
               "GB/s of a rank to host memory, 0 = no time (default 32)");
  flags.Amount("--host-offload-h2d-bandwidth-gbps",
               &given.host_offload_h2d_bandwidth_gbps,
               "GB/s of a rank from host memory, 0 = no time (default 32)");
}

void AddIdleFlags(FlagSet& flags, EngineFlags& f) {
  flags.Group("Accepted, without effect (no capacity estimate, no AIC/AIS model)");
  flags.Real("--gpu-memory-utilization", &f.gpu_memory_utilization, "Share of memory, vllm");
  flags.Real("--mem-fraction-static", &f.mem_fraction_static, "Share of memory, sglang");
  flags.Real("--free-gpu-memory-fraction", &f.free_gpu_memory_fraction, "Share of memory, trtllm");
  flags.Switch("--ais-perf-model,--aic-perf-model",
               &f.aic_perf_model,
               "Times by AIC/AIS: refused, unless --latency-model takes its place");
  flags.Text("--ais-perf-config", &f.ais_perf_config, "The same, of 1.6: JSON, or a file with it");
  flags.Text("--ais-backend,--aic-backend",
             &f.aic_backend,
             "Engine measured",
             {"vllm", "sglang", "trtllm"});
  flags.Text("--ais-system,--aic-system", &f.aic_system, "Machine measured");
  flags.Text(
      "--ais-backend-version,--aic-backend-version", &f.aic_backend_version, "Release measured");
  flags.Integer("--ais-tp-size,--aic-tp-size", &f.aic_tp_size, "Tensor-parallel size");
  flags.Integer(
      "--ais-moe-tp-size,--aic-moe-tp-size", &f.aic_moe_tp_size, "Tensor-parallel size of experts");
  flags.Integer("--ais-moe-ep-size,--aic-moe-ep-size", &f.aic_moe_ep_size, "Expert-parallel size");
  flags.Integer("--ais-attention-dp-size,--aic-attention-dp-size",
                &f.aic_attention_dp_size,
                "Data-parallel size of attention");
  flags.Group("Offload tiers of 1.3: without effect there, refused for the engine of 1.6");
  flags.Count("--num-g2-blocks", &f.num_g2_blocks, "Blocks in host memory; 0 = none");
  flags.Count("--num-g3-blocks", &f.num_g3_blocks, "Shared blocks; 0 = none");
  flags.Switch("--enable-g4-storage", &f.enable_g4_storage, "Blocks in object storage");
  flags.Count("--offload-batch-size", &f.offload_batch_size, "Blocks of a batch");
  flags.Amount("--bandwidth-g1-to-g2-gbps", &f.bandwidth_g1_to_g2_gbps, "GB/s");
  flags.Amount("--bandwidth-g2-to-g1-gbps", &f.bandwidth_g2_to_g1_gbps, "GB/s");
  flags.Amount("--bandwidth-g2-to-g3-gbps", &f.bandwidth_g2_to_g3_gbps, "GB/s");
  flags.Amount("--bandwidth-g3-to-g2-gbps", &f.bandwidth_g3_to_g2_gbps, "GB/s");
  flags.Amount("--bandwidth-g2-to-g4-gbps", &f.bandwidth_g2_to_g4_gbps, "GB/s");
  flags.Amount("--bandwidth-g4-to-g2-gbps", &f.bandwidth_g4_to_g2_gbps, "GB/s");
}

}  // namespace understudy::worker
