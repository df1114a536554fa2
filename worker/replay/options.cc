#include "worker/replay/options.h"

#include "worker/replay/number_text.h"

#include <array>
#include <cmath>
#include <string_view>
#include <vector>

namespace understudy::worker {
namespace {

constexpr std::int64_t kRequestsMax = 1'000'000'000;
constexpr std::int64_t kTurnsMax = 1'000'000;
constexpr std::int64_t kWorkersMax = 65'536;
constexpr std::int64_t kConcurrencyMax = 1 << 24;
constexpr std::int64_t kGpusMax = 1 << 20;
constexpr std::int64_t kBlockTokensMax = 1 << 20;
constexpr double kRatioMax = 1e9;
constexpr double kMsPerSecond = 1000.0;

Error Refuse(const std::string& option, const std::string& value, const std::string& allowed) {
  return {Errc::kInvalidConfig,
          option + " '" + value + "' is not usable (allowed: " + allowed + ")"};
}

Status Wrong(std::string text) {
  return Fail(Errc::kInvalidConfig, std::move(text));
}

template <class T>
Status TakeInteger(const char* option, std::int64_t value, std::int64_t most, T& target) {
  if (value < 1 || value > most) {
    return tl::make_unexpected(
        Refuse(option, std::to_string(value), "1 to " + std::to_string(most)));
  }
  target = static_cast<T>(value);
  return {};
}

template <class T>
Status TakeInteger(const char* option,
                   const std::optional<std::int64_t>& value,
                   std::int64_t most,
                   T& target) {
  return value ? TakeInteger(option, *value, most, target) : Status();
}
template <class T>
Status TakeInteger(const char* option,
                   const std::optional<std::int64_t>& value,
                   std::int64_t most,
                   std::optional<T>& target) {
  return value ? TakeInteger(option, *value, most, target.emplace()) : Status();
}

/// 0 to `most`, or without 0.
Status CheckReal(const char* option, double value, double most, bool zero_allowed) {
  if (std::isfinite(value) && value <= most && (value > 0 || (value == 0 && zero_allowed))) {
    return {};
  }
  return tl::make_unexpected(
      Refuse(option,
             Plain(value),
             std::string(zero_allowed ? "0" : "more than 0") + " to " + Grouped(most, 0)));
}

Status CheckReal(const char* option,
                 const std::optional<double>& value,
                 double most,
                 bool zero_allowed) {
  return value ? CheckReal(option, *value, most, zero_allowed) : Status();
}

/// The options of a synthetic load that were given, for a message about a trace beside them.
std::string SyntheticGiven(const ReplayFlags& f) {
  const std::array<std::pair<const char*, bool>, 11> given = {{
      {"--synthetic", f.synthetic},
      {"--request-count", f.request_count.has_value()},
      {"--input-tokens", f.input_tokens.has_value()},
      {"--output-tokens", f.output_tokens.has_value()},
      {"--arrival-interval-ms", f.arrival_interval_ms.has_value()},
      {"--request-rate", f.request_rate.has_value()},
      {"--arrival-process", f.arrival_process.has_value()},
      {"--turns-per-session", f.turns_per_session != 1},
      {"--inter-turn-delay-ms", f.inter_turn_delay_ms != 0},
      {"--shared-prefix-ratio", f.shared_prefix_ratio != 0},
      {"--num-prefix-groups", f.num_prefix_groups != 0},
  }};
  for (const auto& [name, is_given] : given) {
    if (is_given) {
      return name;
    }
  }
  return {};
}

Status CheckBuilt(const ReplayFlags& f) {
  if (f.trace_format != "mooncake") {
    return tl::make_unexpected(
        Refuse("--trace-format", f.trace_format, "mooncake; other formats are not supported"));
  }
  if (f.replay_mode != "offline") {
    return tl::make_unexpected(
        Refuse("--replay-mode",
               f.replay_mode,
               "offline; for real time send requests to `understudy worker`"));
  }
  return {};
}

Status CheckWorkload(const ReplayFlags& f) {
  const auto synthetic = SyntheticGiven(f);
  if (f.trace && !synthetic.empty()) {
    return Wrong("give either a trace or a synthetic load, got the trace '" + *f.trace + "' and " +
                 synthetic);
  }
  if (f.trace) {
    return {};
  }
  if (synthetic.empty()) {
    return Wrong(
        "nothing to replay: give a trace file, or --request-count, --input-tokens and "
        "--output-tokens for a synthetic load");
  }
  if (!f.request_count || !f.input_tokens || !f.output_tokens) {
    return Wrong(
        "a synthetic load needs --request-count, --input-tokens and --output-tokens; not given: " +
        std::string(!f.request_count  ? "--request-count"
                    : !f.input_tokens ? "--input-tokens"
                                      : "--output-tokens"));
  }
  if (f.trace_block_size) {
    return Wrong("--trace-block-size is about a trace, and the load is synthetic");
  }
  return {};
}

Status TakeSynthetic(const ReplayFlags& f, mocker::SyntheticOptions& s) {
  UNDERSTUDY_TRY_STATUS(
      TakeInteger("--request-count", f.request_count, kRequestsMax, s.request_count));
  UNDERSTUDY_TRY_STATUS(
      TakeInteger("--input-tokens", f.input_tokens, mocker::kReplayTokensMax, s.input_tokens));
  UNDERSTUDY_TRY_STATUS(
      TakeInteger("--output-tokens", f.output_tokens, mocker::kReplayTokensMax, s.output_tokens));
  UNDERSTUDY_TRY_STATUS(
      TakeInteger("--turns-per-session", f.turns_per_session, kTurnsMax, s.turns_per_session));
  if (f.arrival_interval_ms && f.request_rate) {
    return Wrong("give either --arrival-interval-ms or --request-rate, not both");
  }
  const bool is16 = f.dynamo_release == "1.6";
  const int arrivals =
      (f.replay_concurrency ? 1 : 0) + (f.request_rate ? 1 : 0) + (f.arrival_interval_ms ? 1 : 0);
  if (is16 && arrivals != 1) {
    return Wrong(
        "synthetic replay requires exactly one of replay_concurrency, request_rate, or "
        "arrival_interval_ms (--replay-concurrency, --request-rate, --arrival-interval-ms)");
  }
  UNDERSTUDY_TRY_STATUS(
      CheckReal("--arrival-interval-ms", f.arrival_interval_ms, mocker::kReplayTimeMaxMs, true));
  UNDERSTUDY_TRY_STATUS(CheckReal("--request-rate", f.request_rate, kRatioMax, false));
  UNDERSTUDY_TRY_STATUS(
      CheckReal("--inter-turn-delay-ms", f.inter_turn_delay_ms, mocker::kReplayTimeMaxMs, true));
  UNDERSTUDY_TRY_STATUS(CheckReal("--shared-prefix-ratio", f.shared_prefix_ratio, 1.0, true));
  if (f.num_prefix_groups < 0 || f.num_prefix_groups > kRequestsMax) {
    return tl::make_unexpected(Refuse("--num-prefix-groups",
                                      std::to_string(f.num_prefix_groups),
                                      "0 to " + std::to_string(kRequestsMax)));
  }
  s.arrival_interval_ms = f.request_rate ? kMsPerSecond / *f.request_rate
                                         : f.arrival_interval_ms.value_or(s.arrival_interval_ms);
  s.poisson_arrivals =
      f.arrival_process ? *f.arrival_process == "poisson" : is16 && f.request_rate.has_value();
  s.names_sessions = is16 && (f.shared_prefix_ratio > 0 || f.num_prefix_groups > 0);
  s.inter_turn_delay_ms = f.inter_turn_delay_ms;
  s.shared_prefix_ratio = f.shared_prefix_ratio;
  s.num_prefix_groups = static_cast<std::uint64_t>(f.num_prefix_groups);
  s.seed = static_cast<std::uint64_t>(f.seed);
  return {};
}

Status TakeWorkers(const ReplayFlags& f, ReplayPlan& plan) {
  auto& o = plan.options;
  UNDERSTUDY_TRY_STATUS(TakeInteger("--num-workers", f.num_workers, kWorkersMax, o.num_workers));
  UNDERSTUDY_TRY_STATUS(TakeInteger(
      "--num-prefill-workers", f.num_prefill_workers, kWorkersMax, o.num_prefill_workers));
  UNDERSTUDY_TRY_STATUS(
      TakeInteger("--num-decode-workers", f.num_decode_workers, kWorkersMax, o.num_decode_workers));
  if (f.prefill_engine_args.has_value() != f.decode_engine_args.has_value()) {
    return Wrong("--prefill-engine-args and --decode-engine-args must be provided together");
  }
  plan.disaggregated = f.prefill_engine_args || f.num_prefill_workers || f.num_decode_workers;
  plan.prefill_engine_args = f.prefill_engine_args;
  plan.decode_engine_args = f.decode_engine_args;
  if (plan.disaggregated && f.num_workers != 1) {
    return Wrong(
        "--num-workers is for workers that prefill and decode; a disaggregated run has "
        "--num-prefill-workers and --num-decode-workers");
  }
  UNDERSTUDY_TRY_STATUS(
      TakeInteger("--gpus-per-worker", f.gpus_per_worker, kGpusMax, plan.gpus_per_worker));
  UNDERSTUDY_TRY_STATUS(TakeInteger("--gpus-per-prefill-worker",
                                    f.gpus_per_prefill_worker,
                                    kGpusMax,
                                    plan.gpus_per_prefill_worker));
  UNDERSTUDY_TRY_STATUS(TakeInteger(
      "--replay-concurrency", f.replay_concurrency, kConcurrencyMax, o.replay_concurrency));
  return {};
}

Status TakeRouter(const ReplayFlags& f, ReplayPlan& plan) {
  const bool kv = f.router_mode == "kv_router" || f.router_mode == "kv";
  plan.options.router_mode =
      kv ? mocker::ReplayRouterMode::kKv : mocker::ReplayRouterMode::kRoundRobin;
  if (!f.router_config) {
    return {};
  }
  if (!kv) {
    return Wrong("--router-config is for --router-mode kv_router, got --router-mode " +
                 f.router_mode);
  }
  UNDERSTUDY_TRY(plan.options.router, ParseRouterConfig(*f.router_config));
  return {};
}

Status TakeLimits(const ReplayFlags& f, mocker::ReplayOptions& o) {
  constexpr double kMost = mocker::kReplayTimeMaxMs;
  UNDERSTUDY_TRY_STATUS(CheckReal("--sla-ttft-ms", f.sla_ttft_ms, kMost, false));
  UNDERSTUDY_TRY_STATUS(CheckReal("--sla-itl-ms", f.sla_itl_ms, kMost, false));
  UNDERSTUDY_TRY_STATUS(CheckReal("--sla-e2e-ms", f.sla_e2e_ms, kMost, false));
  o.sla = {f.sla_ttft_ms, f.sla_itl_ms, f.sla_e2e_ms};
  if (f.max_sim_time_ms && f.max_sim_time_seconds) {
    return Wrong("give either --max-sim-time-ms or --max-sim-time-seconds, not both");
  }
  UNDERSTUDY_TRY_STATUS(CheckReal("--max-sim-time-ms", f.max_sim_time_ms, kMost, true));
  UNDERSTUDY_TRY_STATUS(
      CheckReal("--max-sim-time-seconds", f.max_sim_time_seconds, kMost / kMsPerSecond, true));
  o.max_sim_time_ms = f.max_sim_time_ms;
  if (f.max_sim_time_seconds) {
    o.max_sim_time_ms = *f.max_sim_time_seconds * kMsPerSecond;
  }
  UNDERSTUDY_TRY_STATUS(
      CheckReal("--arrival-speedup-ratio", f.arrival_speedup_ratio, kRatioMax, false));
  o.arrival_speedup_ratio = f.arrival_speedup_ratio;
  if (f.seed < 0) {
    return tl::make_unexpected(Refuse("--seed", std::to_string(f.seed), "0 to 2^63 - 1"));
  }
  o.seed = static_cast<std::uint64_t>(f.seed);
  return {};
}

/// Two reports in one file would overwrite each other.
Status CheckOutputs(const ReplayFlags& f) {
  const std::array<std::pair<const char*, const std::optional<std::string>*>, 3> outputs = {
      {{"--report", &f.report}, {"--html", &f.html}, {"--requests", &f.requests}}};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& [name, path] = outputs[i];
    if (*path && (*path)->empty()) {
      return Wrong(std::string(name) + " is empty (allowed: a path, or - for standard output)");
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (*path && *outputs[k].second == *path) {
        return Wrong(std::string(outputs[k].first) + " and " + name + " are both '" + **path +
                     "': each needs a file of its own");
      }
    }
  }
  return {};
}

}  // namespace

Result<ReplayPlan> MakeReplayPlan(const ReplayFlags& flags) {
  ReplayPlan plan;
  UNDERSTUDY_TRY_STATUS(CheckBuilt(flags));
  UNDERSTUDY_TRY_STATUS(CheckWorkload(flags));
  UNDERSTUDY_TRY_STATUS(TakeLimits(flags, plan.options));
  if (flags.trace) {
    plan.trace = flags.trace;
    UNDERSTUDY_TRY_STATUS(TakeInteger(
        "--trace-block-size", flags.trace_block_size, kBlockTokensMax, plan.trace_block_size));
  } else {
    UNDERSTUDY_TRY_STATUS(TakeSynthetic(flags, plan.synthetic));
  }
  UNDERSTUDY_TRY_STATUS(TakeWorkers(flags, plan));
  UNDERSTUDY_TRY_STATUS(TakeRouter(flags, plan));
  UNDERSTUDY_TRY_STATUS(CheckOutputs(flags));
  plan.report = flags.report;
  plan.html = flags.html;
  plan.requests = flags.requests;
  plan.quiet = flags.quiet;
  return plan;
}

}  // namespace understudy::worker
