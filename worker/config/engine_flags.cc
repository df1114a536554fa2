#include "worker/config/engine_flags.h"

#include "worker/config/kv_bytes.h"
#include "worker/config/text_file.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace understudy::worker {
namespace {

using Arguments = mocker::EngineArguments;

constexpr std::size_t kEngineArgsBytesMax = 1U << 20;

/// Fields of the messages, each with the flag that sets it.
constexpr std::array<std::pair<std::string_view, std::string_view>, 33> kFlagOfField = {{
    {"engine_type", "--engine-type"},
    {"num_gpu_blocks", "--num-gpu-blocks-override"},
    {"block_size", "--block-size"},
    {"max_num_seqs", "--max-num-seqs"},
    {"max_num_batched_tokens", "--max-num-batched-tokens"},
    {"speedup_ratio", "--speedup-ratio"},
    {"decode_speedup_ratio", "--decode-speedup-ratio"},
    {"dp_size", "--data-parallel-size"},
    {"startup_time", "--startup-time"},
    {"aic_tp_size", "--aic-tp-size"},
    {"aic_attention_dp_size", "--aic-attention-dp-size"},
    {"aic_nextn", "--aic-nextn"},
    {"aic_nextn_accept_rates", "--aic-nextn-accept-rates"},
    {"gpu_memory_utilization", "--gpu-memory-utilization"},
    {"mem_fraction_static", "--mem-fraction-static"},
    {"free_gpu_memory_fraction", "--free-gpu-memory-fraction"},
    {"kv_bytes_per_token", "--kv-bytes-per-token"},
    {"kv_transfer_bandwidth", "--kv-transfer-bandwidth"},
    {"kv_transfer_timing_mode", "--kv-transfer-timing-mode"},
    {"num_g3_blocks", "--num-g3-blocks"},
    {"enable_g4_storage", "--enable-g4-storage"},
    {"bandwidth_g1_to_g2_gbps", "--bandwidth-g1-to-g2-gbps"},
    {"bandwidth_g2_to_g1_gbps", "--bandwidth-g2-to-g1-gbps"},
    {"bandwidth_g2_to_g3_gbps", "--bandwidth-g2-to-g3-gbps"},
    {"bandwidth_g3_to_g2_gbps", "--bandwidth-g3-to-g2-gbps"},
    {"bandwidth_g2_to_g4_gbps", "--bandwidth-g2-to-g4-gbps"},
    {"bandwidth_g4_to_g2_gbps", "--bandwidth-g4-to-g2-gbps"},
    {"reasoning.thinking_ratio", "--reasoning"},
    {"preemption_mode", "--preemption-mode"},
    {"sglang.max_prefill_tokens", "--sglang-max-prefill-tokens"},
    {"sglang.chunked_prefill_size", "--sglang-chunked-prefill-size"},
    {"sglang.clip_max_new_tokens", "--sglang-clip-max-new-tokens"},
    {"sglang.schedule_conservativeness", "--sglang-schedule-conservativeness"},
}};

/// The flag of the first field that a message names; empty when it names none.
std::string_view FlagIn(std::string_view message) {
  constexpr std::string_view kNameLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
  for (auto at = message.find_first_of(kNameLetters); at != std::string_view::npos;
       at = message.find_first_of(kNameLetters, at)) {
    const auto end = std::min(message.find_first_not_of(kNameLetters, at), message.size());
    const auto word = message.substr(at, end - at);
    const auto* found = std::find_if(kFlagOfField.begin(),
                                     kFlagOfField.end(),
                                     [word](const auto& entry) { return entry.first == word; });
    if (found != kFlagOfField.end()) {
      return found->second;
    }
    at = end;
  }
  return {};
}

Status SetCount(const char* flag,
                std::optional<std::int64_t> given,
                mocker::Argument<std::uint64_t>& argument) {
  if (given && *given < 0) {
    return Fail(Errc::kInvalidConfig,
                std::string(flag) + " must not be negative, got " + std::to_string(*given));
  }
  argument.SetIfAny(given ? std::optional(static_cast<std::uint64_t>(*given)) : std::nullopt);
  return {};
}

Status SetCount(const char* flag,
                std::optional<std::int64_t> given,
                std::optional<std::uint64_t>& value) {
  mocker::Argument<std::uint64_t> argument;
  UNDERSTUDY_TRY_STATUS(SetCount(flag, given, argument));
  value = argument.value;
  return {};
}

Status SetScheduling(const EngineFlags& f, Arguments& a) {
  a.engine_type = f.engine_type;
  UNDERSTUDY_TRY_STATUS(SetCount("--num-gpu-blocks-override", f.num_gpu_blocks, a.num_gpu_blocks));
  UNDERSTUDY_TRY_STATUS(SetCount("--block-size", f.block_size, a.block_size));
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
  if (f.reasoning && !f.reasoning->empty()) {
    auto reasoning = mocker::ReadReasoning(*f.reasoning);
    if (!reasoning) {
      return FailWith("--reasoning", reasoning.error());
    }
    a.reasoning = *reasoning;
  }
  a.response_replay_trace_path.SetIfAny(f.response_replay_trace_path);
  return {};
}

Status SetOneEngine(const EngineFlags& f, Arguments& a) {
  mocker::SglangArguments sglang;
  sglang.schedule_policy = f.sglang_schedule_policy;
  sglang.schedule_conservativeness = f.sglang_schedule_conservativeness;
  UNDERSTUDY_TRY_STATUS(SetCount("--sglang-page-size", f.sglang_page_size, sglang.page_size));
  UNDERSTUDY_TRY_STATUS(SetCount(
      "--sglang-max-prefill-tokens", f.sglang_max_prefill_tokens, sglang.max_prefill_tokens));
  UNDERSTUDY_TRY_STATUS(SetCount(
      "--sglang-chunked-prefill-size", f.sglang_chunked_prefill_size, sglang.chunked_prefill_size));
  UNDERSTUDY_TRY_STATUS(SetCount(
      "--sglang-clip-max-new-tokens", f.sglang_clip_max_new_tokens, sglang.clip_max_new_tokens));
  a.sglang = std::move(sglang);
  a.trtllm = mocker::TrtllmArguments{f.trtllm_capacity_scheduler_policy};
  return {};
}

Status SetTransfer(const EngineFlags& f, Arguments& a) {
  a.kv_transfer_bandwidth = f.kv_transfer_bandwidth;
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

Result<mocker::EngineArgs> FromFile(const std::string& path) {
  const std::string name = "--extra-engine-args " + path;
  auto json = ReadTextFile(path, kEngineArgsBytesMax);
  if (!json) {
    return FailWith(name, json.error());
  }
  const auto first = json->find_first_not_of(" \t\r\n");
  if (first != std::string::npos && (*json)[first] != '{') {
    return Fail(Errc::kInvalidConfig, name + ": extra engine args must be a JSON object");
  }
  auto args = mocker::ParseEngineArgs(*json);
  if (!args) {
    return FailWith(name + ": Failed to parse MockEngineArgs JSON", args.error());
  }
  return args;
}

Result<mocker::EngineArgs> FromFlags(const EngineFlags& flags,
                                     const std::optional<std::string>& model) {
  UNDERSTUDY_TRY(const auto arguments, ArgumentsOf(flags, model));
  return ValidateFlagArgs(arguments);
}

/// As given, or as the model's configuration says; else as it is, with a warning.
Status SetKvBytes(const EngineFlags& flags,
                  const std::optional<std::string>& model,
                  mocker::EngineArgs& args) {
  auto& kv_bytes = args.engine.kv_bytes_per_token;
  if (flags.kv_bytes_per_token) {
    return SetCount("--kv-bytes-per-token", flags.kv_bytes_per_token, kv_bytes);
  }
  if (model) {
    if (auto bytes = KvBytesPerToken(*model, flags.kv_cache_dtype); bytes) {
      kv_bytes = *bytes;
    } else {
      args.warnings.push_back("Could not compute kv_bytes_per_token from model config: " +
                              bytes.error().message);
    }
  }
  return {};
}

}  // namespace

Result<mocker::EngineArguments> ArgumentsOf(const EngineFlags& flags,
                                            const std::optional<std::string>& model) {
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

Result<mocker::EngineArgs> ValidateFlagArgs(const mocker::EngineArguments& arguments) {
  auto args = mocker::ValidateEngineArgs(arguments);
  if (!args) {
    if (const auto flag = FlagIn(args.error().message); !flag.empty()) {
      args.error().message += " (" + std::string(flag) + ")";
    }
  }
  return args;
}

Result<mocker::EngineArgs> LoadEngineArgs(const EngineFlags& flags,
                                          const std::optional<std::string>& model) {
  UNDERSTUDY_TRY(
      auto args,
      flags.extra_engine_args ? FromFile(*flags.extra_engine_args) : FromFlags(flags, model));
  args.engine.latency_model = flags.latency_model.value_or("");
  if (args.aic.backend && args.engine.latency_model.empty()) {
    return Fail(Errc::kInvalidConfig,
                std::string(flags.extra_engine_args ? "aic_backend" : "--aic-perf-model") + " '" +
                    *args.aic.backend +
                    "': there is no AIC performance model here; give --latency-model, or leave it "
                    "out");
  }
  UNDERSTUDY_TRY_STATUS(SetKvBytes(flags, model, args));
  return args;
}

}  // namespace understudy::worker
