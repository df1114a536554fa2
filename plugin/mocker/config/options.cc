#include "plugin/mocker/config/options.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <thread>

namespace understudy::mocker {

namespace {

constexpr std::uint32_t kRankCountMax = 1U << 20U;
constexpr std::uint64_t kBlocksMax = 0xFFFFFFFEU;  // slots are numbered in 32 bits
constexpr std::uint32_t kBlockSizeMax = 1U << 20U;
constexpr std::uint32_t kThreadCountMax = 256;
constexpr double kStartupTimeMaxS = 1e6;

const std::string kPrefix = "Failed to validate MockEngineArgs: ";

/// The reference prints the limit and the value in either order; we always print the limit first.
std::string RangeText(const std::string& field, const std::string& min, const std::string& value) {
  return kPrefix + field + ": Validation error: range [{\"min\": Number(" + min +
         "), \"value\": Number(" + value + ")}]";
}

std::string FloatText(double value) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.17g", value);
  for (int digits = 1; digits < 17;
       ++digits) {  // the shortest text that reads back as the same number
    char shorter[64];
    std::snprintf(shorter, sizeof(shorter), "%.*g", digits, value);
    if (std::stod(shorter) == value) {
      std::snprintf(text, sizeof(text), "%s", shorter);
      break;
    }
  }
  const std::string out = text;
  return out.find_first_of(".e") == std::string::npos ? out + ".0" : out;
}

Status AtLeastOne(const std::string& field, std::uint64_t value) {
  if (value == 0) {
    return Fail(Errc::kInvalidConfig, RangeText(field, "1", "0"));
  }
  return {};
}

Status AtMost(const std::string& field, std::uint64_t value, std::uint64_t max) {
  if (value > max) {
    return Fail(
        Errc::kInvalidConfig,
        field + " must be at most " + std::to_string(max) + ", got " + std::to_string(value));
  }
  return {};
}

Status NotNegative(const std::string& field, double value) {
  if (!std::isfinite(value)) {
    return Fail(Errc::kInvalidConfig, field + " must be finite and non-negative");
  }
  if (value < 0.0) {
    return Fail(Errc::kInvalidConfig, RangeText(field, "0.0", FloatText(value)));
  }
  return {};
}

}  // namespace

Status ValidateOptions(const MockerOptions& options) {
  UNDERSTUDY_TRY_STATUS(AtLeastOne("num_gpu_blocks", options.num_gpu_blocks));
  UNDERSTUDY_TRY_STATUS(AtLeastOne("max_num_seqs", options.max_num_seqs.value_or(1)));
  UNDERSTUDY_TRY_STATUS(
      AtLeastOne("max_num_batched_tokens", options.max_num_batched_tokens.value_or(1)));
  UNDERSTUDY_TRY_STATUS(NotNegative("speedup_ratio", options.speedup_ratio));
  UNDERSTUDY_TRY_STATUS(NotNegative("decode_speedup_ratio", options.decode_speedup_ratio));
  UNDERSTUDY_TRY_STATUS(AtLeastOne("dp_size", options.rank_count));
  UNDERSTUDY_TRY_STATUS(NotNegative("startup_time", options.startup_time.count()));
  if (options.block_size == 0) {
    return Fail(Errc::kInvalidConfig, kPrefix + "__all__: block_size must be greater than 0");
  }
  if (options.block_size == 1) {
    return Fail(Errc::kInvalidConfig, "vLLM/TRT-LLM block_size must be at least two");
  }
  if (options.startup_time.count() > kStartupTimeMaxS) {
    return Fail(Errc::kInvalidConfig, "startup_time must be at most 1000000 seconds");
  }
  UNDERSTUDY_TRY_STATUS(AtMost("num_gpu_blocks", options.num_gpu_blocks, kBlocksMax));
  UNDERSTUDY_TRY_STATUS(AtMost("block_size", options.block_size, kBlockSizeMax));
  UNDERSTUDY_TRY_STATUS(AtMost("the number of ranks", options.rank_count, kRankCountMax));
  UNDERSTUDY_TRY_STATUS(
      AtMost("the number of engine threads", options.thread_count, kThreadCountMax));
  return AtLeastOne("waiting_requests_max", options.waiting_requests_max);
}

SchedulerConfig MakeSchedulerConfig(const MockerOptions& options) {
  SchedulerConfig config;
  config.blocks_total = options.num_gpu_blocks;
  config.block_size = options.block_size;
  config.running_max = options.max_num_seqs.value_or(0);
  config.budget = options.max_num_batched_tokens.value_or(0);
  config.prefix_caching = options.enable_prefix_caching;
  config.chunked_prefill = options.enable_chunked_prefill;
  config.kv_events = options.kv_events && options.enable_prefix_caching &&
                     options.worker_type != WorkerType::kDecode;
  config.strict_reference = options.strict_reference;
  config.preemption = options.preemption_mode;
  config.worker_type = options.worker_type;
  config.speedup_ratio = options.speedup_ratio;
  config.decode_speedup_ratio = options.decode_speedup_ratio;
  config.engine_type = options.engine_type;
  config.sglang = options.sglang;
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
