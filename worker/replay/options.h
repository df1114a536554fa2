// What `understudy replay` was asked to do.
#pragma once

#include "understudy/base/result.h"
#include "understudy/mocker/replay.h"

#include <cstdint>
#include <optional>
#include <string>

namespace understudy::worker {

/// As given on the command line, before any check; engine flags are apart. Names and defaults of
/// `python -m dynamo.replay` 1.3.0 where it has the flag.
struct ReplayFlags {
  std::optional<std::string> trace;
  std::optional<std::int64_t> trace_block_size;
  std::string trace_format = "mooncake";
  double arrival_speedup_ratio = 1.0;

  std::string dynamo_release = "1.6";

  bool synthetic = false;
  std::optional<std::int64_t> request_count, input_tokens, output_tokens;
  std::optional<double> arrival_interval_ms, request_rate;
  std::optional<std::string> arrival_process;  ///< none = constant, but 1.6's for a rate: poisson
  std::int64_t turns_per_session = 1;
  double inter_turn_delay_ms = 0.0;
  double shared_prefix_ratio = 0.0;
  std::int64_t num_prefix_groups = 0;

  std::int64_t num_workers = 1;
  std::optional<std::int64_t> num_prefill_workers, num_decode_workers;
  std::optional<std::string> prefill_engine_args, decode_engine_args;
  std::string router_mode = "round_robin";
  std::optional<std::string> router_config;
  std::optional<std::int64_t> replay_concurrency;
  std::optional<std::int64_t> gpus_per_worker, gpus_per_prefill_worker;

  std::optional<double> max_sim_time_ms, max_sim_time_seconds;
  std::optional<double> sla_ttft_ms, sla_itl_ms, sla_e2e_ms;
  std::string replay_mode = "offline";
  std::int64_t seed = 42;

  std::optional<std::string> report, html, requests;
  bool quiet = false;
};

/// Checked. What is made of engine flags and files is not in it yet: the engines of `options`, and
/// the block size of `synthetic`.
struct ReplayPlan {
  mocker::ReplayOptions options;
  bool disaggregated = false;
  /// JSON, or the path of a file with it; both or none, and only when disaggregated.
  std::optional<std::string> prefill_engine_args, decode_engine_args;
  std::optional<std::uint32_t> gpus_per_worker, gpus_per_prefill_worker;  ///< none = engine's
  std::optional<std::string> trace;                                       ///< none = synthetic
  std::uint32_t trace_block_size = mocker::kTraceBlockSizeDefault;
  mocker::SyntheticOptions synthetic;
  std::optional<std::string> report, html, requests;  ///< paths; "-" = standard output
  bool quiet = false;
};

/// Ranges and combinations. kInvalidConfig names the option, the value and what is allowed.
[[nodiscard]] Result<ReplayPlan> MakeReplayPlan(const ReplayFlags& flags);

/// A JSON object with the names of KvRouterConfig that matter offline. kInvalidConfig names the
/// member, its value and what is allowed. Source: dynamo-kv-router 1.3.0.
[[nodiscard]] Result<mocker::KvRouterOptions> ParseRouterConfig(const std::string& json);

}  // namespace understudy::worker
