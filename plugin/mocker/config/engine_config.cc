// The checks of the nested configuration.
#include "understudy/mocker/engine_config.h"

#include "plugin/mocker/config/accept_rates.h"
#include "plugin/mocker/config/check.h"
#include "plugin/mocker/config/ranges.h"
#include "plugin/mocker/config/timing_config.h"
#include "plugin/mocker/config/value_text.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace understudy::mocker {

namespace {

constexpr std::uint64_t kBlocksDefault = 16384;
constexpr std::uint64_t kU32Max = std::numeric_limits<std::uint32_t>::max();

Status Positive(const char* name, std::uint64_t value) {
  return Require(value > 0, std::string(name) + " must be positive");
}

Status NonNegative(const std::string& name, double value) {
  return Require(std::isfinite(value) && value >= 0.0, name + " must be finite and non-negative");
}

std::uint64_t BlockSizeOf(EngineType backend) {
  constexpr std::uint64_t kVllm = 64;
  constexpr std::uint64_t kTrtllm = 32;
  return backend == EngineType::kVllm ? kVllm : backend == EngineType::kTrtllm ? kTrtllm : 1;
}

/// The checks of one rank, in the reference's order.
class RankChecks {
 public:
  explicit RankChecks(RankConfig& rank) : r_(rank) {}

  Status Run() {
    UNDERSTUDY_TRY_STATUS(CheckSizes());
    UNDERSTUDY_TRY_STATUS(CheckIntervals());
    UNDERSTUDY_TRY_STATUS(Positive("max_model_len", r_.max_model_len.value_or(1)));
    UNDERSTUDY_TRY_STATUS(NonNegative("speedup_ratio", r_.speedup_ratio));
    UNDERSTUDY_TRY_STATUS(NonNegative("decode_speedup_ratio", r_.decode_speedup_ratio));
    UNDERSTUDY_TRY_STATUS(CheckSpeculative());
    UNDERSTUDY_TRY_STATUS(CheckSglang());
    UNDERSTUDY_TRY_STATUS(Require(!r_.emit_kv_token_ids || r_.emit_kv_events,
                                  "emit_kv_token_ids requires emit_kv_events"));
    UNDERSTUDY_TRY_STATUS(
        Positive("kv_transfer_bytes_per_token", r_.kv_transfer_bytes_per_token.value_or(1)));
    UNDERSTUDY_TRY_STATUS(
        Positive("kv_cache_bytes_per_token", r_.kv_cache_bytes_per_token.value_or(1)));
    UNDERSTUDY_TRY_STATUS(Require(!r_.kv_cache_capacity_bytes || r_.kv_cache_groups,
                                  "kv_cache_capacity_bytes requires kv_cache_groups"));
    UNDERSTUDY_TRY_STATUS(Require(!r_.g3_offload || r_.native_host_offload,
                                  "g3_offload requires native_host_offload"));
    if (r_.native_host_offload) {
      UNDERSTUDY_TRY_STATUS(CheckHostOffload(*r_.native_host_offload));
    }
    UNDERSTUDY_TRY_STATUS(
        NonNegative("kv_transfer_bandwidth", r_.kv_transfer_bandwidth.value_or(0.0)));
    return CheckTiming();
  }

 private:
  Status CheckSizes() {
    UNDERSTUDY_TRY_STATUS(Positive("num_gpu_blocks", *r_.num_gpu_blocks));
    UNDERSTUDY_TRY_STATUS(Positive("block_size", *r_.block_size));
    UNDERSTUDY_TRY_STATUS(Require(r_.backend == EngineType::kSglang || *r_.block_size >= 2,
                                  "vLLM/TRT-LLM block_size must be at least two"));
    UNDERSTUDY_TRY_STATUS(Positive("max_num_seqs", r_.max_num_seqs.value_or(1)));
    return Positive("max_num_batched_tokens", r_.max_num_batched_tokens.value_or(1));
  }

  Status CheckIntervals() {
    UNDERSTUDY_TRY_STATUS(Positive("prefill_schedule_interval", r_.prefill_schedule_interval));
    UNDERSTUDY_TRY_STATUS(
        Require(r_.backend == EngineType::kVllm || r_.prefill_schedule_interval == 1,
                "prefill_schedule_interval is supported only for backend=vllm; use "
                "prefill_decode_interval for backend=sglang"));
    return Require(r_.backend == EngineType::kSglang || r_.prefill_decode_interval == 0,
                   "prefill_decode_interval is supported only for backend=sglang");
  }

  Status CheckSpeculative() {
    if (!r_.aic_nextn) {
      return Require(!r_.aic_nextn_accept_rates, "aic_nextn_accept_rates requires aic_nextn");
    }
    constexpr std::uint64_t kDraftsMax = 5;
    UNDERSTUDY_TRY_STATUS(
        Require(*r_.aic_nextn >= 1 && *r_.aic_nextn <= kDraftsMax,
                "aic_nextn must be in 1..=5, got " + std::to_string(*r_.aic_nextn)));
    UNDERSTUDY_TRY(const auto rates, ParseAcceptRates(r_.aic_nextn_accept_rates, *r_.aic_nextn));
    r_.aic_nextn_accept_rates = AcceptRatesText(rates);
    return Require(r_.decode_speedup_ratio == 1.0,
                   "aic_nextn requires decode_speedup_ratio=1.0 because MTP output acceleration is "
                   "modeled by burst sampling");
  }

  Status CheckSglang() {
    if (r_.backend != EngineType::kSglang) {
      return {};
    }
    const SglangOptions& sglang = r_.sglang;
    UNDERSTUDY_TRY_STATUS(
        Require(r_.enable_chunked_prefill,
                "enable_chunked_prefill=false is not supported for backend=sglang"));
    UNDERSTUDY_TRY_STATUS(Positive("sglang.max_prefill_tokens", sglang.max_prefill_tokens));
    UNDERSTUDY_TRY_STATUS(Positive("sglang.chunked_prefill_size", sglang.chunked_prefill_size));
    UNDERSTUDY_TRY_STATUS(
        NonNegative("sglang.schedule_conservativeness", sglang.schedule_conservativeness));
    return Require(sglang.chunked_prefill_size % *r_.block_size == 0,
                   "sglang.chunked_prefill_size must be divisible by block_size");
  }

  Status CheckHostOffload(const HostOffloadConfig& host) {
    const std::string name = "native_host_offload";
    UNDERSTUDY_TRY_STATUS(
        Require(host.num_host_blocks > 0, name + ".num_host_blocks must be positive"));
    const std::pair<const char*, double> numbers[] = {
        {".d2h_bandwidth_gbps", host.d2h_bandwidth_gbps},
        {".h2d_bandwidth_gbps", host.h2d_bandwidth_gbps},
        {".shared_d2h_bandwidth_gbps", host.shared_d2h_bandwidth_gbps},
        {".shared_h2d_bandwidth_gbps", host.shared_h2d_bandwidth_gbps},
        {".latency_to_first_byte_ms", host.latency_to_first_byte_ms}};
    for (const auto& [member, value] : numbers) {
      UNDERSTUDY_TRY_STATUS(NonNegative(name + member, value));
    }
    const bool named =
        host.kv_layout_id && host.kv_layout_id->find_first_not_of(" \t\r\n") != std::string::npos;
    UNDERSTUDY_TRY_STATUS(Require(host.scope == HostScope::kDpRankLocal || named,
                                  "cluster_shared " + name + " requires a nonempty kv_layout_id"));
    UNDERSTUDY_TRY_STATUS(
        Require(r_.backend == EngineType::kVllm, name + " is supported only for backend=vllm"));
    UNDERSTUDY_TRY_STATUS(
        Require(r_.enable_prefix_caching, name + " requires enable_prefix_caching=true"));
    UNDERSTUDY_TRY_STATUS(
        Require(!r_.aic_nextn, name + " does not support aic_nextn in the initial implementation"));
    return Require(r_.kv_cache_bytes_per_token.has_value(),
                   name +
                       " requires kv_cache_bytes_per_token to derive the physical host block "
                       "size");
  }

  Status CheckTiming() {
    const TimingConfig& timing = r_.timing_model;
    if (timing.type == TimingType::kFixed) {
      UNDERSTUDY_TRY_STATUS(NonNegative("fixed prefill latency", timing.fixed.prefill_ms));
      return NonNegative("fixed decode latency", timing.fixed.decode_ms);
    }
    return Require(timing.type != TimingType::kExternal ||
                       timing.provider.find_first_not_of(" \t\r\n") != std::string::npos,
                   "timing provider cannot be empty");
  }

  RankConfig& r_;
};

Status CheckLaunch(const EngineConfig& config) {
  UNDERSTUDY_TRY_STATUS(Positive("dp_size", config.dp_size));
  UNDERSTUDY_TRY_STATUS(Positive("tensor_parallel_size", config.tensor_parallel_size));
  UNDERSTUDY_TRY_STATUS(Require(config.tensor_parallel_size <= kU32Max,
                                "tensor_parallel_size exceeds the engine contract"));
  UNDERSTUDY_TRY_STATUS(NonNegative("startup_time", config.startup_time.value_or(0.0)));
  const std::pair<const char*, std::optional<double>> fractions[] = {
      {"gpu_memory_utilization", config.gpu_memory_utilization},
      {"mem_fraction_static", config.mem_fraction_static},
      {"free_gpu_memory_fraction", config.free_gpu_memory_fraction}};
  for (const auto& [name, value] : fractions) {
    const double fraction = value.value_or(0.0);
    UNDERSTUDY_TRY_STATUS(Require(fraction >= 0.0 && fraction <= 1.0,
                                  std::string(name) + " must be finite and in [0, 1]"));
  }
  return {};
}

Status CheckRuntime(const RuntimeConfig& runtime) {
  UNDERSTUDY_TRY_STATUS(Positive("handoff_session_timeout_ms", runtime.handoff_session_timeout_ms));
  const double ratio = runtime.reasoning ? runtime.reasoning->thinking_ratio : 0.0;
  return Require(ratio >= 0.0 && ratio <= 1.0,
                 "thinking_ratio: " + RangeText("0.0", "1.0", JsonNumber(ratio)));
}

}  // namespace

Result<EngineConfig> NormalizeEngineConfig(EngineConfig config) {
  RankConfig& rank = config.engine;
  rank.num_gpu_blocks = rank.num_gpu_blocks.value_or(kBlocksDefault);
  rank.block_size = rank.block_size.value_or(BlockSizeOf(rank.backend));
  rank.worker_type = rank.worker_type.value_or(WorkerType::kAggregated);
  UNDERSTUDY_TRY_STATUS(RankChecks(rank).Run());
  UNDERSTUDY_TRY_STATUS(CheckLaunch(config));
  UNDERSTUDY_TRY_STATUS(CheckProvider(rank.timing_model));
  UNDERSTUDY_TRY_STATUS(CheckRuntime(config.dynamo));
  return config;
}

}  // namespace understudy::mocker
