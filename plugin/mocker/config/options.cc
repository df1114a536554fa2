#include "plugin/mocker/config/options.h"

#include "plugin/mocker/config/ranges.h"
#include "plugin/mocker/config/value_text.h"

#include <algorithm>
#include <string>
#include <thread>

namespace understudy::mocker {

namespace {

constexpr std::uint32_t kRankCountMax = 1U << 20U;
constexpr std::uint64_t kBlocksMax = 0xFFFFFFFEU;  // slots are numbered in 32 bits
constexpr std::uint32_t kBlockSizeMax = 1U << 20U;
constexpr std::uint32_t kThreadCountMax = 256;
constexpr std::uint64_t kKvBytesPerTokenMax = 1ULL << 40U;
constexpr std::size_t kDraftsMax = 5;
/// Of several ranks, release 1.6: each looks less far ahead. Source: aisimulate-core 0.13.0
/// scheduler/rank.rs.
constexpr double kAttentionDpConservativeness = 0.3;
constexpr double kStartupTimeMaxS = 1e6;
constexpr double kLatencyMaxMs = 1e8;

Status CheckSglang(const MockerOptions& options) {
  const SglangOptions& sglang = options.sglang;
  // The reference declares these ranges and does not check them: with 0 no request is ever
  // admitted.
  UNDERSTUDY_TRY_STATUS(AtLeastOne("sglang.max_prefill_tokens", sglang.max_prefill_tokens));
  UNDERSTUDY_TRY_STATUS(AtLeastOne("sglang.chunked_prefill_size", sglang.chunked_prefill_size));
  UNDERSTUDY_TRY_STATUS(AtLeastOne("sglang.clip_max_new_tokens", sglang.clip_max_new_tokens));
  return NotNegative("sglang.schedule_conservativeness", sglang.schedule_conservativeness);
}

Status CheckSpeculative(const SpeculativeOptions& speculative) {
  UNDERSTUDY_TRY_STATUS(Between("aic_nextn", speculative.accept_rates.size(), 1, kDraftsMax));
  for (const double rate : speculative.accept_rates) {
    UNDERSTUDY_TRY_STATUS(BetweenZeroAndOne("aic_nextn_accept_rates", rate));
  }
  return {};
}

}  // namespace

Status CheckRanges(const MockerOptions& options) {
  UNDERSTUDY_TRY_STATUS(AtLeastOne("num_gpu_blocks", options.num_gpu_blocks));
  UNDERSTUDY_TRY_STATUS(AtLeastOne("max_num_seqs", options.max_num_seqs.value_or(1)));
  UNDERSTUDY_TRY_STATUS(
      AtLeastOne("max_num_batched_tokens", options.max_num_batched_tokens.value_or(1)));
  UNDERSTUDY_TRY_STATUS(NotNegative("speedup_ratio", options.speedup_ratio));
  UNDERSTUDY_TRY_STATUS(NotNegative("decode_speedup_ratio", options.decode_speedup_ratio));
  UNDERSTUDY_TRY_STATUS(AtLeastOne("dp_size", options.rank_count));
  UNDERSTUDY_TRY_STATUS(AtLeastOne("prefill_schedule_interval", options.prefill_schedule_interval));
  if (options.ranks_per_worker != 0 && options.rank_count % options.ranks_per_worker != 0) {
    return Fail(Errc::kInvalidConfig, "the ranks are not a multiple of a worker's");
  }
  UNDERSTUDY_TRY_STATUS(NotNegative("startup_time", options.startup_time.count()));
  if (options.speculative) {
    UNDERSTUDY_TRY_STATUS(CheckSpeculative(*options.speculative));
  }
  UNDERSTUDY_TRY_STATUS(
      NotNegative("kv_transfer_bandwidth", options.kv_transfer_bandwidth.value_or(0.0)));
  if (options.reasoning) {
    UNDERSTUDY_TRY_STATUS(
        NotNegative("reasoning.thinking_ratio", options.reasoning->thinking_ratio));
  }
  if (options.engine_type == EngineType::kSglang) {
    UNDERSTUDY_TRY_STATUS(CheckSglang(options));
  }
  UNDERSTUDY_TRY_STATUS(NotAbove("startup_time", options.startup_time.count(), kStartupTimeMaxS));
  UNDERSTUDY_TRY_STATUS(AtMost("num_gpu_blocks", options.num_gpu_blocks, kBlocksMax));
  UNDERSTUDY_TRY_STATUS(AtMost("block_size", options.block_size, kBlockSizeMax));
  UNDERSTUDY_TRY_STATUS(AtMost("dp_size", options.rank_count, kRankCountMax));
  UNDERSTUDY_TRY_STATUS(
      AtMost("kv_bytes_per_token", options.kv_bytes_per_token.value_or(0), kKvBytesPerTokenMax));
  UNDERSTUDY_TRY_STATUS(
      AtMost("the number of engine threads", options.thread_count, kThreadCountMax));
  return AtLeastOne("waiting_requests_max", options.waiting_requests_max);
}

Status CheckBlockSize(const MockerOptions& options) {
  if (options.block_size == 0) {
    return CombinationError("block_size must be greater than 0");
  }
  if (options.block_size == 1 && options.engine_type != EngineType::kSglang) {
    return Fail(Errc::kInvalidConfig, "vLLM/TRT-LLM block_size must be at least two, got 1");
  }
  return {};
}

Status CheckPages(const MockerOptions& options) {
  if (options.engine_type != EngineType::kSglang) {
    return {};
  }
  const auto at_least_a_page = [&options](const char* field, std::uint64_t tokens) -> Status {
    if (tokens < options.block_size) {
      return Fail(Errc::kInvalidConfig,
                  std::string(field) + " must be at least block_size, got " +
                      std::to_string(tokens) +
                      " and block_size=" + std::to_string(options.block_size));
    }
    return {};
  };
  UNDERSTUDY_TRY_STATUS(
      at_least_a_page("sglang.max_prefill_tokens", options.sglang.max_prefill_tokens));
  return at_least_a_page("sglang.chunked_prefill_size", SglangOf(options).chunked_prefill_size);
}

Status CheckDecodeSpeedup(const MockerOptions& options) {
  if (options.speculative && options.decode_speedup_ratio != 1.0) {
    return CombinationError(
        "aic_nextn requires decode_speedup_ratio=1.0 because MTP output acceleration is modeled by "
        "burst sampling, got " +
        PlainNumber(options.decode_speedup_ratio));
  }
  return {};
}

Status CheckHostOffload(const MockerOptions& options) {
  if (!options.host_offload) {
    return {};
  }
  const HostOffloadOptions& host = *options.host_offload;
  const auto refuse = [](const char* why) {
    return Fail(Errc::kInvalidConfig, std::string("native_host_offload") + why);
  };
  UNDERSTUDY_TRY_STATUS(AtLeastOne("native_host_offload.num_host_blocks", host.num_host_blocks));
  UNDERSTUDY_TRY_STATUS(
      NotNegative("native_host_offload.d2h_bandwidth_gbps", host.d2h_bandwidth_gbps));
  UNDERSTUDY_TRY_STATUS(
      NotNegative("native_host_offload.h2d_bandwidth_gbps", host.h2d_bandwidth_gbps));
  UNDERSTUDY_TRY_STATUS(
      NotNegative("native_host_offload.latency_to_first_byte_ms", host.latency_to_first_byte_ms));
  UNDERSTUDY_TRY_STATUS(NotAbove("native_host_offload.latency_to_first_byte_ms",
                                 host.latency_to_first_byte_ms,
                                 kLatencyMaxMs));
  UNDERSTUDY_TRY_STATUS(
      AtMost("native_host_offload.num_host_blocks", host.num_host_blocks, kBlocksMax));
  if (options.engine_type != EngineType::kVllm) {
    return refuse(" is supported only for backend=vllm");
  }
  if (options.semantics != SemanticsRelease::k16) {
    return refuse(" needs the engine of release 1.6");
  }
  if (!options.enable_prefix_caching) {
    return refuse(" requires enable_prefix_caching=true");
  }
  if (options.speculative) {
    return refuse(" does not support aic_nextn in the initial implementation");
  }
  if (options.kv_cache_bytes_per_token.value_or(0) == 0) {
    return refuse(" requires kv_cache_bytes_per_token to derive the physical host block size");
  }
  return AtMost("kv_cache_bytes_per_token", *options.kv_cache_bytes_per_token, kKvBytesPerTokenMax);
}

Status ValidateOptions(const MockerOptions& options) {
  UNDERSTUDY_TRY_STATUS(CheckRanges(options));
  UNDERSTUDY_TRY_STATUS(CheckBlockSize(options));
  UNDERSTUDY_TRY_STATUS(CheckDecodeSpeedup(options));
  UNDERSTUDY_TRY_STATUS(CheckHostOffload(options));
  return CheckPages(options);
}

std::uint32_t RanksPerWorker(const MockerOptions& options) {
  return options.ranks_per_worker == 0 ? options.rank_count : options.ranks_per_worker;
}

SglangOptions SglangOf(const MockerOptions& options) {
  SglangOptions sglang = options.sglang;
  const std::uint32_t ranks = RanksPerWorker(options);
  if (options.semantics == SemanticsRelease::k16 && ranks > 1) {
    sglang.chunked_prefill_size /= ranks;
    sglang.schedule_conservativeness *= kAttentionDpConservativeness;
  }
  return sglang;
}

SchedulerConfig MakeSchedulerConfig(const MockerOptions& options) {
  SchedulerConfig config;
  config.blocks_total = options.num_gpu_blocks;
  config.block_size = options.block_size;
  config.running_max = options.max_num_seqs.value_or(0);
  config.budget = options.max_num_batched_tokens.value_or(0);
  config.ranks_per_worker = RanksPerWorker(options);
  config.prefill_schedule_interval = options.prefill_schedule_interval;
  config.prefill_decode_interval = options.prefill_decode_interval;
  config.prefix_caching = options.enable_prefix_caching;
  config.chunked_prefill = options.enable_chunked_prefill;
  config.kv_events = options.kv_events && options.enable_prefix_caching &&
                     options.worker_type != WorkerType::kDecode;
  config.kv_event_tokens = config.kv_events && options.kv_event_tokens;
  config.strict_reference = options.strict_reference;
  config.collect_stats = options.pass_stats;
  config.preemption = options.preemption_mode;
  config.worker_type = options.worker_type;
  config.speedup_ratio = options.speedup_ratio;
  config.decode_speedup_ratio = options.decode_speedup_ratio;
  config.engine_type = options.engine_type;
  config.semantics = SemanticsOf(options.semantics, options.engine_type);
  config.model_len_max = options.max_model_len.value_or(0);
  config.sglang = SglangOf(options);
  config.host_offload = options.host_offload;
  config.kv_cache_bytes_per_token = options.kv_cache_bytes_per_token.value_or(0);
  config.speculative = options.speculative;
  config.reasoning = options.reasoning;
  config.seed = options.seed;
  return config;
}

std::uint32_t ThreadCount(const MockerOptions& options) {
  const std::uint32_t wanted = options.thread_count != 0
                                   ? options.thread_count
                                   : std::max(1U, std::thread::hardware_concurrency());
  return std::min({wanted, options.rank_count, kThreadCountMax});
}

}  // namespace understudy::mocker
