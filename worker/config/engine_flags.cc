// The flags of 1.3.
#include "worker/config/engine_flags.h"

#include <string_view>
#include <utility>

namespace understudy::worker {
namespace {

using Arguments = mocker::EngineArguments;

/// Flags that only 1.6 has.
Status CheckKnown(const EngineFlags& f) {
  const std::pair<const char*, bool> flags[] = {
      {"--num-host-blocks", f.num_host_blocks.has_value()},
      {"--host-offload-d2h-bandwidth-gbps", f.host_offload_d2h_bandwidth_gbps.has_value()},
      {"--host-offload-h2d-bandwidth-gbps", f.host_offload_h2d_bandwidth_gbps.has_value()},
      {"--ais-perf-config", f.ais_perf_config.has_value()}};
  for (const auto& [flag, given] : flags) {
    if (given) {
      return Fail(
          Errc::kInvalidConfig,
          std::string(flag) + " is a flag of release 1.6; the engine of 1.3 has no use for it");
    }
  }
  return {};
}

Status SetCount(const char* flag,
                std::optional<std::int64_t> given,
                mocker::Argument<std::uint64_t>& argument) {
  UNDERSTUDY_TRY(const auto count, CountOf(flag, given));
  argument.SetIfAny(count);
  return {};
}

Status SetScheduling(const EngineFlags& f, Arguments& a) {
  a.engine_type = f.engine_type;
  UNDERSTUDY_TRY_STATUS(SetCount("--num-gpu-blocks-override", f.num_gpu_blocks, a.num_gpu_blocks));
  UNDERSTUDY_TRY_STATUS(SetCount("--block-size", f.block_size.value_or(0), a.block_size));
  UNDERSTUDY_TRY_STATUS(SetCount("--max-num-seqs", f.max_num_seqs, a.max_num_seqs));
  UNDERSTUDY_TRY_STATUS(
      SetCount("--max-num-batched-tokens", f.max_num_batched_tokens, a.max_num_batched_tokens));
  UNDERSTUDY_TRY_STATUS(SetCount("--data-parallel-size", f.data_parallel_size, a.dp_size));
  a.enable_prefix_caching = f.enable_prefix_caching;
  a.enable_chunked_prefill = f.enable_chunked_prefill;
  a.preemption_mode = f.preemption_mode;
  return {};
}

Status SetTiming(const EngineFlags& f, const std::optional<std::string>& model, Arguments& a) {
  a.speedup_ratio = f.speedup_ratio;
  a.decode_speedup_ratio = f.decode_speedup_ratio;
  a.startup_time.SetIfAny(f.startup_time_s);
  a.planner_profile_data.SetIfAny(f.planner_profile_data);
  if (f.aic_perf_model) {
    a.aic_backend = f.aic_backend.value_or(f.engine_type);
    a.aic_system.SetIfAny(f.aic_system);
    a.aic_backend_version.SetIfAny(f.aic_backend_version);
    a.aic_model_path.SetIfAny(model);
    UNDERSTUDY_TRY_STATUS(SetCount("--aic-tp-size", f.aic_tp_size, a.aic_tp_size));
    UNDERSTUDY_TRY_STATUS(SetCount("--aic-moe-tp-size", f.aic_moe_tp_size, a.aic_moe_tp_size));
    UNDERSTUDY_TRY_STATUS(SetCount("--aic-moe-ep-size", f.aic_moe_ep_size, a.aic_moe_ep_size));
    UNDERSTUDY_TRY_STATUS(
        SetCount("--aic-attention-dp-size", f.aic_attention_dp_size, a.aic_attention_dp_size));
  }
  return {};
}

Status SetOutput(const EngineFlags& f, Arguments& a) {
  UNDERSTUDY_TRY_STATUS(SetCount("--aic-nextn", f.aic_nextn, a.aic_nextn));
  a.aic_nextn_accept_rates.SetIfAny(f.aic_nextn_accept_rates);
  a.aic_mtp_seed = f.aic_mtp_seed;
  UNDERSTUDY_TRY(const auto reasoning, ReasoningOf(f));
  a.reasoning.SetIfAny(reasoning);
  a.response_replay_trace_path.SetIfAny(f.response_replay_trace_path);
  return {};
}

Status SetOneEngine(const EngineFlags& f, Arguments& a) {
  mocker::SglangArguments sglang;
  sglang.schedule_policy = f.sglang_schedule_policy;
  sglang.schedule_conservativeness = f.sglang_schedule_conservativeness;
  UNDERSTUDY_TRY(sglang.page_size, CountOf("--sglang-page-size", f.sglang_page_size));
  UNDERSTUDY_TRY(sglang.max_prefill_tokens,
                 CountOf("--sglang-max-prefill-tokens", f.sglang_max_prefill_tokens));
  UNDERSTUDY_TRY(sglang.chunked_prefill_size,
                 CountOf("--sglang-chunked-prefill-size", f.sglang_chunked_prefill_size));
  UNDERSTUDY_TRY(sglang.clip_max_new_tokens,
                 CountOf("--sglang-clip-max-new-tokens", f.sglang_clip_max_new_tokens));
  a.sglang = std::move(sglang);
  a.trtllm = mocker::TrtllmArguments{f.trtllm_capacity_scheduler_policy};
  return {};
}

Status SetTransfer(const EngineFlags& f, Arguments& a) {
  constexpr double kBandwidth = 64.0;
  a.kv_transfer_bandwidth = f.kv_transfer_bandwidth.value_or(kBandwidth);
  a.kv_transfer_timing_mode = f.kv_transfer_timing_mode;
  return SetCount("--kv-bytes-per-token", f.kv_bytes_per_token, a.kv_bytes_per_token);
}

void SetWithoutEffect(const EngineFlags& f, Arguments& a) {
  a.gpu_memory_utilization.SetIfAny(f.gpu_memory_utilization);
  a.mem_fraction_static.SetIfAny(f.mem_fraction_static);
  a.free_gpu_memory_fraction.SetIfAny(f.free_gpu_memory_fraction);
  a.num_g2_blocks.SetIfAny(f.num_g2_blocks);
  a.num_g3_blocks.SetIfAny(f.num_g3_blocks);
  a.offload_batch_size.SetIfAny(f.offload_batch_size);
  a.enable_g4_storage = f.enable_g4_storage;
  a.bandwidth_g1_to_g2_gbps.SetIfAny(f.bandwidth_g1_to_g2_gbps);
  a.bandwidth_g2_to_g1_gbps.SetIfAny(f.bandwidth_g2_to_g1_gbps);
  a.bandwidth_g2_to_g3_gbps.SetIfAny(f.bandwidth_g2_to_g3_gbps);
  a.bandwidth_g3_to_g2_gbps.SetIfAny(f.bandwidth_g3_to_g2_gbps);
  a.bandwidth_g2_to_g4_gbps.SetIfAny(f.bandwidth_g2_to_g4_gbps);
  a.bandwidth_g4_to_g2_gbps.SetIfAny(f.bandwidth_g4_to_g2_gbps);
}

}  // namespace

Result<mocker::EngineArguments> ArgumentsOf(const EngineFlags& flags,
                                            const std::optional<std::string>& model) {
  UNDERSTUDY_TRY_STATUS(CheckKnown(flags));
  Arguments arguments;
  UNDERSTUDY_TRY_STATUS(SetScheduling(flags, arguments));
  UNDERSTUDY_TRY_STATUS(SetTiming(flags, model, arguments));
  UNDERSTUDY_TRY_STATUS(SetOutput(flags, arguments));
  UNDERSTUDY_TRY_STATUS(SetOneEngine(flags, arguments));
  UNDERSTUDY_TRY_STATUS(SetTransfer(flags, arguments));
  SetWithoutEffect(flags, arguments);
  arguments.enable_local_indexer = true;  // of the reference's command line, not of its JSON
  return arguments;
}

Result<std::optional<std::uint64_t>> CountOf(const char* flag, std::optional<std::int64_t> given) {
  if (given && *given < 0) {
    return Fail(Errc::kInvalidConfig,
                std::string(flag) + " must not be negative, got " + std::to_string(*given));
  }
  return given ? std::optional(static_cast<std::uint64_t>(*given)) : std::nullopt;
}

Result<std::optional<mocker::ReasoningOptions>> ReasoningOf(const EngineFlags& flags) {
  if (!flags.reasoning || flags.reasoning->empty()) {
    return std::nullopt;
  }
  auto reasoning = mocker::ReadReasoning(*flags.reasoning);
  if (!reasoning) {
    return FailWith("--reasoning", reasoning.error());
  }
  return *reasoning;
}

}  // namespace understudy::worker
