// What a replay refuses before it starts. Texts: dynamo-mocker 1.3.0 and 1.6.1 replay/validate.rs.
#include "plugin/mocker/replay/simulation.h"

#include <cmath>
#include <initializer_list>
#include <string>

namespace understudy::mocker {

namespace {

/// Workers of a run; their tables grow with use.
constexpr std::uint32_t kReplayWorkersMax = 65536;

tl::unexpected<Error> Refuse(std::string message) {
  return Fail(Errc::kInvalidConfig, std::move(message));
}

const char* NameOf(WorkerType type) {
  switch (type) {
    case WorkerType::kAggregated:
      return "Aggregated";
    case WorkerType::kPrefill:
      return "Prefill";
    case WorkerType::kDecode:
      return "Decode";
  }
  return "";
}

const char* NameOf(EngineType type) {
  switch (type) {
    case EngineType::kVllm:
      return "Vllm";
    case EngineType::kSglang:
      return "Sglang";
    case EngineType::kTrtllm:
      return "Trtllm";
  }
  return "";
}

Status CheckWorkers(const char* name, std::uint32_t workers, const std::string& mode) {
  if (workers == 0) {
    return Refuse(mode + " requires " + name + " >= 1");
  }
  if (workers > kReplayWorkersMax) {
    return Refuse(std::string(name) + " must be at most " + std::to_string(kReplayWorkersMax) +
                  ", got " + std::to_string(workers));
  }
  return {};
}

Status CheckArguments(const ReplayOptions& options) {
  const bool prefill = options.prefill_engine.has_value();
  const bool decode = options.decode_engine.has_value();
  if (options.engine && (prefill || decode)) {
    return Refuse(
        "extra_engine_args cannot be combined with prefill_engine_args/decode_engine_args");
  }
  if (prefill != decode) {
    return Refuse("prefill_engine_args and decode_engine_args must be provided together");
  }
  if (prefill && options.num_workers != 1) {
    return Refuse(
        "num_workers is only used for aggregated replay; use num_prefill_workers and "
        "num_decode_workers for disagg replay");
  }
  if (!prefill && (options.num_prefill_workers != 1 || options.num_decode_workers != 1)) {
    return Refuse(
        "num_prefill_workers and num_decode_workers are only used for disagg replay; use "
        "num_workers for aggregated replay");
  }
  return {};
}

/// `name` of the pool, with a space behind it; empty when there is one pool. In 1.6 ranks share a
/// pass.
Status CheckRanks(const MockerOptions& engine, const std::string& mode, const std::string& name) {
  if (engine.rank_count != 1 && engine.semantics == SemanticsRelease::k13) {
    return Refuse(mode + " only supports " + name + "data_parallel_size=1, got " +
                  std::to_string(engine.rank_count));
  }
  return {};
}

Status CheckAggregated(const ReplayOptions& options, const std::string& mode) {
  if (options.router_mode == ReplayRouterMode::kKv && options.num_workers <= 1) {
    return Refuse("offline replay only supports router_mode=kv_router when num_workers > 1");
  }
  UNDERSTUDY_TRY_STATUS(CheckWorkers("num_workers", options.num_workers, mode));
  const MockerOptions engine = options.engine.value_or(MockerOptions{});
  if (engine.worker_type != WorkerType::kAggregated) {
    return Refuse(mode + " only supports aggregated workers, got " + NameOf(engine.worker_type));
  }
  return CheckRanks(engine, mode, "");
}

Status CheckStage(const MockerOptions& engine,
                  WorkerType type,
                  const std::string& mode,
                  const std::string& name) {
  if (engine.worker_type != type) {
    return Refuse(mode + " requires " + name + "_engine_args.worker_type=" + name + ", got " +
                  NameOf(engine.worker_type));
  }
  return {};
}

Status CheckDisaggregated(const ReplayOptions& options, const std::string& mode) {
  const MockerOptions& prefill = *options.prefill_engine;
  const MockerOptions& decode = *options.decode_engine;
  if (prefill.semantics != decode.semantics) {
    return Refuse("the engines of prefill and decode workers have to be of one release");
  }
  const bool trtllm =
      prefill.engine_type == EngineType::kTrtllm || decode.engine_type == EngineType::kTrtllm;
  if (trtllm && prefill.semantics == SemanticsRelease::k13) {
    return Refuse(mode + " disaggregation does not support TRT-LLM");
  }
  if (prefill.engine_type != decode.engine_type) {
    return Refuse(mode + " disaggregation requires matching prefill/decode engine_type, got " +
                  NameOf(prefill.engine_type) + " and " + NameOf(decode.engine_type));
  }
  UNDERSTUDY_TRY_STATUS(CheckWorkers("num_prefill_workers", options.num_prefill_workers, mode));
  UNDERSTUDY_TRY_STATUS(CheckWorkers("num_decode_workers", options.num_decode_workers, mode));
  UNDERSTUDY_TRY_STATUS(CheckStage(prefill, WorkerType::kPrefill, mode, "prefill"));
  UNDERSTUDY_TRY_STATUS(CheckStage(decode, WorkerType::kDecode, mode, "decode"));
  UNDERSTUDY_TRY_STATUS(CheckRanks(prefill, mode, "prefill "));
  UNDERSTUDY_TRY_STATUS(CheckRanks(decode, mode, "decode "));
  if (prefill.block_size != decode.block_size) {
    return Refuse(mode + " requires matching prefill/decode block_size, got " +
                  std::to_string(prefill.block_size) + " and " + std::to_string(decode.block_size));
  }
  return {};
}

/// `allowed` describes the range [0, max].
Status CheckRange(const char* name, double value, double max, const char* allowed) {
  if (std::isfinite(value) && value >= 0.0 && value <= max) {
    return {};
  }
  return Refuse(std::string(name) + " must be " + allowed + ", got " + std::to_string(value));
}

Status CheckRouter(const KvRouterOptions& router) {
  constexpr double kAny = 1e300;
  constexpr const char* kNotNegative = "a finite, non-negative value";
  UNDERSTUDY_TRY_STATUS(
      CheckRange("overlap_score_credit", router.overlap_score_credit, 1.0, "between 0.0 and 1.0"));
  UNDERSTUDY_TRY_STATUS(CheckRange(
      "overlap_score_credit_decay", router.overlap_score_credit_decay, kAny, kNotNegative));
  UNDERSTUDY_TRY_STATUS(
      CheckRange("prefill_load_scale", router.prefill_load_scale, kAny, kNotNegative));
  UNDERSTUDY_TRY_STATUS(
      CheckRange("router_temperature", router.router_temperature, kAny, kNotNegative));
  return CheckRange(
      "router_queue_threshold", router.router_queue_threshold.value_or(0.0), kAny, kNotNegative);
}

Status CheckLimit(const char* name, const std::optional<double>& value) {
  if (!value || (std::isfinite(*value) && *value >= 0.0)) {
    return {};
  }
  return Refuse(std::string(name) + " must be a finite, non-negative value; got " +
                std::to_string(*value));
}

/// What the texts call the run.
std::string ModeOf(const ReplayOptions& options) {
  if (ReleaseOf(options) == SemanticsRelease::k16) {
    return options.prefill_engine ? "offline disaggregated replay" : "offline replay";
  }
  return options.replay_concurrency ? "concurrency replay" : "trace replay";
}

}  // namespace

Status ValidateReplay(const ReplayOptions& options) {
  UNDERSTUDY_TRY_STATUS(CheckArguments(options));
  if (options.replay_concurrency == 0U) {
    return Refuse("concurrency replay requires max_in_flight >= 1");
  }
  const std::string mode = ModeOf(options);
  UNDERSTUDY_TRY_STATUS(options.prefill_engine ? CheckDisaggregated(options, mode)
                                               : CheckAggregated(options, mode));
  UNDERSTUDY_TRY_STATUS(CheckRouter(options.router));
  if (!std::isfinite(options.arrival_speedup_ratio) || options.arrival_speedup_ratio <= 0.0) {
    return Refuse("arrival_speedup_ratio must be a finite positive number, got " +
                  std::to_string(options.arrival_speedup_ratio));
  }
  UNDERSTUDY_TRY_STATUS(CheckLimit("sla_ttft_ms", options.sla.ttft_ms));
  UNDERSTUDY_TRY_STATUS(CheckLimit("sla_itl_ms", options.sla.itl_ms));
  UNDERSTUDY_TRY_STATUS(CheckLimit("sla_e2e_ms", options.sla.e2e_ms));
  return CheckLimit("max_sim_time_ms", options.max_sim_time_ms);
}

}  // namespace understudy::mocker
