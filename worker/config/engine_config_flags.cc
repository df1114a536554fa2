// The flags of 1.6.
#include "worker/config/engine_flags.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

using mocker::EngineConfig;
using mocker::RankConfig;
using Json = nlohmann::json;

tl::unexpected<Error> Refuse(std::string text) {
  return Fail(Errc::kInvalidConfig, std::move(text));
}

/// Flags that only 1.3 has.
Status CheckKnown(const EngineFlags& f) {
  const std::pair<const char*, bool> flags[] = {
      {"--num-g2-blocks", f.num_g2_blocks.has_value()},
      {"--num-g3-blocks", f.num_g3_blocks.has_value()},
      {"--enable-g4-storage", f.enable_g4_storage},
      {"--offload-batch-size", f.offload_batch_size.has_value()},
      {"--bandwidth-g1-to-g2-gbps", f.bandwidth_g1_to_g2_gbps.has_value()},
      {"--bandwidth-g2-to-g1-gbps", f.bandwidth_g2_to_g1_gbps.has_value()},
      {"--bandwidth-g2-to-g3-gbps", f.bandwidth_g2_to_g3_gbps.has_value()},
      {"--bandwidth-g3-to-g2-gbps", f.bandwidth_g3_to_g2_gbps.has_value()},
      {"--bandwidth-g2-to-g4-gbps", f.bandwidth_g2_to_g4_gbps.has_value()},
      {"--bandwidth-g4-to-g2-gbps", f.bandwidth_g4_to_g2_gbps.has_value()}};
  for (const auto& [flag, given] : flags) {
    if (given) {
      return Refuse(std::string(flag) +
                    " is a flag of release 1.3; in 1.6 --num-host-blocks and --host-offload-* "
                    "describe the tier in host memory");
    }
  }
  return {};
}

/// An option without a flag keeps its default.
template <class T>
Status SetIfAny(const char* flag, std::optional<std::int64_t> given, T& target) {
  UNDERSTUDY_TRY(const auto count, CountOf(flag, given));
  if (count) {
    target = *count;
  }
  return {};
}

const std::map<std::string_view, mocker::EngineType> kBackends = {
    {"vllm", mocker::EngineType::kVllm},
    {"sglang", mocker::EngineType::kSglang},
    {"trtllm", mocker::EngineType::kTrtllm}};

Status SetScheduling(const EngineFlags& f, EngineConfig& config) {
  RankConfig& rank = config.engine;
  const auto backend = kBackends.find(f.engine_type);
  if (backend == kBackends.end()) {
    return Refuse("--engine-type '" + f.engine_type +
                  "' is not known (allowed: vllm, sglang, trtllm)");
  }
  rank.backend = backend->second;
  UNDERSTUDY_TRY(rank.num_gpu_blocks, CountOf("--num-gpu-blocks-override", f.num_gpu_blocks));
  UNDERSTUDY_TRY(rank.block_size, CountOf("--block-size", f.block_size));
  UNDERSTUDY_TRY(rank.max_model_len, CountOf("--max-model-len", f.max_model_len));
  UNDERSTUDY_TRY(rank.max_num_seqs, CountOf("--max-num-seqs", f.max_num_seqs));
  UNDERSTUDY_TRY(rank.max_num_batched_tokens,
                 CountOf("--max-num-batched-tokens", f.max_num_batched_tokens));
  rank.enable_prefix_caching = f.enable_prefix_caching;
  rank.enable_chunked_prefill = f.enable_chunked_prefill;
  if (f.preemption_mode != "lifo" && f.preemption_mode != "fifo") {
    return Refuse("--preemption-mode '" + f.preemption_mode +
                  "' is not known (allowed: lifo, fifo)");
  }
  rank.preemption_mode =
      f.preemption_mode == "fifo" ? mocker::PreemptionMode::kFifo : mocker::PreemptionMode::kLifo;
  return SetIfAny("--data-parallel-size", f.data_parallel_size, config.dp_size);
}

Status SetSglang(const EngineFlags& f, RankConfig& rank, std::vector<std::string>& warnings) {
  const std::string policy = f.sglang_schedule_policy.value_or("fifo");
  if (policy == "fcfs") {
    warnings.emplace_back("--sglang-schedule-policy fcfs is deprecated, use fifo");
  }
  rank.sglang.schedule_policy =
      policy == "lpm" ? mocker::SglangPolicy::kLpm : mocker::SglangPolicy::kFifo;
  UNDERSTUDY_TRY_STATUS(SetIfAny(
      "--sglang-max-prefill-tokens", f.sglang_max_prefill_tokens, rank.sglang.max_prefill_tokens));
  UNDERSTUDY_TRY_STATUS(SetIfAny("--sglang-chunked-prefill-size",
                                 f.sglang_chunked_prefill_size,
                                 rank.sglang.chunked_prefill_size));
  UNDERSTUDY_TRY_STATUS(SetIfAny("--sglang-clip-max-new-tokens",
                                 f.sglang_clip_max_new_tokens,
                                 rank.sglang.clip_max_new_tokens));
  rank.sglang.schedule_conservativeness =
      f.sglang_schedule_conservativeness.value_or(rank.sglang.schedule_conservativeness);
  if (!f.sglang_page_size) {
    return {};
  }
  warnings.emplace_back("--sglang-page-size is deprecated, use --block-size");
  if (rank.backend != mocker::EngineType::kSglang) {
    return {};
  }
  if (f.block_size && f.block_size != f.sglang_page_size) {
    return Refuse("--sglang-page-size and --block-size must match, got " +
                  std::to_string(*f.sglang_page_size) + " and " + std::to_string(*f.block_size));
  }
  UNDERSTUDY_TRY(rank.block_size, CountOf("--sglang-page-size", f.sglang_page_size));
  return {};
}

/// A performance model of AISimulate: known, so that --latency-model can take its place.
Result<std::optional<Json>> AisIdentity(const EngineFlags& f,
                                        const std::optional<std::string>& model) {
  const bool flat = f.aic_backend || f.aic_system || f.aic_backend_version || f.aic_tp_size ||
                    f.aic_moe_tp_size || f.aic_moe_ep_size || f.aic_attention_dp_size ||
                    f.aic_nextn;
  if (f.ais_perf_config && (f.aic_perf_model || flat)) {
    return Refuse("--ais-perf-config cannot be combined with flat AIS/AIC identity flags");
  }
  if (!f.ais_perf_config && !f.aic_perf_model) {
    return std::nullopt;
  }
  if (f.planner_profile_data) {
    return Refuse("choose one timing provider: AIS or planner_profile_data");
  }
  if (f.ais_perf_config) {
    return Json(*f.ais_perf_config);
  }
  return Json{{"model", model.value_or("")}, {"backend", f.aic_backend.value_or(f.engine_type)}};
}

Status SetTiming(const EngineFlags& f,
                 const std::optional<std::string>& model,
                 EngineConfig& config) {
  RankConfig& rank = config.engine;
  rank.speedup_ratio = f.speedup_ratio;
  rank.decode_speedup_ratio = f.decode_speedup_ratio;
  config.startup_time = f.startup_time_s;
  UNDERSTUDY_TRY(const auto identity, AisIdentity(f, model));
  if (identity) {
    rank.timing_model = {
        .type = mocker::TimingType::kExternal, .provider = "ais", .config = identity->dump()};
    return SetIfAny("--ais-tp-size", f.aic_tp_size, config.tensor_parallel_size);
  }
  if (f.planner_profile_data) {
    rank.timing_model = {.type = mocker::TimingType::kExternal,
                         .provider = "dynamo_profile",
                         .config = Json{{"path", *f.planner_profile_data}}.dump()};
  }
  return {};
}

Status SetOutput(const EngineFlags& f, EngineConfig& config) {
  UNDERSTUDY_TRY(config.engine.aic_nextn, CountOf("--ais-nextn", f.aic_nextn));
  config.engine.aic_nextn_accept_rates = f.aic_nextn_accept_rates;
  config.engine.aic_mtp_seed = f.aic_mtp_seed;
  UNDERSTUDY_TRY(config.dynamo.reasoning, ReasoningOf(f));
  config.dynamo.response_replay_trace_path = f.response_replay_trace_path;
  return {};
}

Status SetTransfer(const EngineFlags& f, RankConfig& rank) {
  rank.kv_transfer_bandwidth = f.kv_transfer_bandwidth;
  if (f.kv_transfer_timing_mode != "full_prompt" &&
      f.kv_transfer_timing_mode != "destination_missing") {
    return Refuse("--kv-transfer-timing-mode '" + f.kv_transfer_timing_mode +
                  "' is not known (allowed: full_prompt, destination_missing)");
  }
  rank.kv_transfer_timing_mode = f.kv_transfer_timing_mode == "full_prompt"
                                     ? mocker::TransferTiming::kFullPrompt
                                     : mocker::TransferTiming::kDestinationMissing;
  UNDERSTUDY_TRY(rank.kv_transfer_bytes_per_token,
                 CountOf("--kv-bytes-per-token", f.kv_bytes_per_token));
  return {};
}

Status SetHostOffload(const EngineFlags& f, RankConfig& rank) {
  if (!f.num_host_blocks) {
    if (f.host_offload_d2h_bandwidth_gbps || f.host_offload_h2d_bandwidth_gbps) {
      return Refuse("--host-offload-* flags require --num-host-blocks");
    }
    return {};
  }
  mocker::HostOffloadConfig& host = rank.native_host_offload.emplace();
  UNDERSTUDY_TRY_STATUS(SetIfAny("--num-host-blocks", f.num_host_blocks, host.num_host_blocks));
  host.d2h_bandwidth_gbps = f.host_offload_d2h_bandwidth_gbps.value_or(host.d2h_bandwidth_gbps);
  host.h2d_bandwidth_gbps = f.host_offload_h2d_bandwidth_gbps.value_or(host.h2d_bandwidth_gbps);
  rank.kv_cache_bytes_per_token = rank.kv_transfer_bytes_per_token;
  return {};
}

}  // namespace

Result<EngineConfig> ConfigOf(const EngineFlags& flags,
                              const std::optional<std::string>& model,
                              std::vector<std::string>& warnings) {
  UNDERSTUDY_TRY_STATUS(CheckKnown(flags));
  EngineConfig config;
  UNDERSTUDY_TRY_STATUS(SetScheduling(flags, config));
  UNDERSTUDY_TRY_STATUS(SetSglang(flags, config.engine, warnings));
  UNDERSTUDY_TRY_STATUS(SetTiming(flags, model, config));
  UNDERSTUDY_TRY_STATUS(SetOutput(flags, config));
  UNDERSTUDY_TRY_STATUS(SetTransfer(flags, config.engine));
  UNDERSTUDY_TRY_STATUS(SetHostOffload(flags, config.engine));
  config.gpu_memory_utilization = flags.gpu_memory_utilization;
  config.mem_fraction_static = flags.mem_fraction_static;
  config.free_gpu_memory_fraction = flags.free_gpu_memory_fraction;
  config.dynamo.enable_local_indexer = true;  // of the reference's command line, not of its JSON
  return config;
}

Status CheckSpellings(const std::vector<std::string>& arguments) {
  std::map<std::string, std::string> spellings;  // by what is behind --ais- or --aic-
  for (const std::string& argument : arguments) {
    const std::string flag = argument.substr(0, argument.find('='));
    if (!flag.starts_with("--ais-") && !flag.starts_with("--aic-")) {
      continue;
    }
    const std::string name = flag.substr(std::string_view("--ais-").size());
    if (spellings.try_emplace(name, flag).first->second != flag) {
      return Refuse("--ais-" + name + " and its legacy --aic spelling cannot be combined");
    }
  }
  return {};
}

}  // namespace understudy::worker
