// The nested configuration of Dynamo 1.6's simulated engine, from JSON or from flags. Source:
// EngineLaunchConfig of aisimulate-core 0.13.0, MockerConfig of dynamo-mocker 1.6.1
// (engine-1.6.md 1); golden vector engine-1.6/engine_config_validation.json.
#pragma once

#include "understudy/base/result.h"
#include "understudy/mocker/engine_args.h"
#include "understudy/mocker/mocker_options.h"
#include "understudy/mocker/replay.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace understudy::mocker {

/// Whose host memory holds blocks: a rank's own, or one pool for all ranks of a deployment.
enum class HostScope : std::uint8_t { kDpRankLocal, kClusterShared };

/// `engine.native_host_offload`. Bandwidths are 1e9 bytes/s, 0 = no time.
struct HostOffloadConfig {
  HostScope scope = HostScope::kDpRankLocal;
  std::uint64_t num_host_blocks = 0;
  double d2h_bandwidth_gbps = 32.0;
  double h2d_bandwidth_gbps = 32.0;
  double shared_d2h_bandwidth_gbps = 80.0;
  double shared_h2d_bandwidth_gbps = 80.0;
  double latency_to_first_byte_ms = 0.0;
  std::optional<std::string> kv_layout_id{};
};

enum class TimingType : std::uint8_t { kPolynomial, kFixed, kExternal };

/// What passes take whatever they compute.
struct FixedTimes {
  double prefill_ms = 0.0;  ///< of a pass that computes prompt tokens
  double decode_ms = 0.0;   ///< of a pass that decodes
};

/// `engine.timing_model`.
struct TimingConfig {
  TimingType type = TimingType::kPolynomial;
  FixedTimes fixed{};
  std::string provider{};      ///< external: "dynamo_profile", "ais" or "aic"
  std::string config{"null"};  ///< external: JSON, whose members depend on the provider
};

/// `engine`: one rank. Meanings, units and bounds: MockerOptions.
struct RankConfig {
  EngineType backend = EngineType::kVllm;
  std::optional<std::uint64_t> num_gpu_blocks{};  ///< none = 16384
  std::optional<std::uint64_t> block_size{};      ///< none = the backend's
  std::optional<std::uint64_t> max_model_len{};
  std::optional<std::uint64_t> max_num_seqs = 256;             ///< none = unlimited
  std::optional<std::uint64_t> max_num_batched_tokens = 8192;  ///< none = unlimited
  std::uint64_t prefill_schedule_interval = 1;
  std::uint64_t prefill_decode_interval = 0;
  bool enable_prefix_caching = true;
  bool enable_chunked_prefill = true;
  double speedup_ratio = 1.0;
  double decode_speedup_ratio = 1.0;
  std::optional<std::uint64_t> aic_nextn{};
  std::optional<std::string> aic_nextn_accept_rates{};
  std::uint64_t aic_mtp_seed = 42;
  std::optional<WorkerType> worker_type{};  ///< none = aggregated
  PreemptionMode preemption_mode = PreemptionMode::kLifo;
  bool emit_kv_events = false;     ///< checked, and decided by the worker around the engine
  bool emit_kv_token_ids = false;  ///< likewise
  std::optional<std::uint64_t> kv_transfer_bytes_per_token{};
  std::optional<std::uint64_t> kv_cache_bytes_per_token{};
  std::optional<double> kv_transfer_bandwidth{};
  TransferTiming kv_transfer_timing_mode = TransferTiming::kFullPrompt;
  std::optional<HostOffloadConfig> native_host_offload{};
  TimingConfig timing_model{};
  SglangOptions sglang{};
  // Geometries of hybrid models and the third tier: known by name, and refused.
  bool kv_cache_groups = false;
  bool kv_cache_capacity_bytes = false;
  bool prefix_match_unit = false;
  bool state_cache = false;
  bool g3_offload = false;
};

/// `dynamo`: the worker around the engine. Meanings: EngineArgs.
struct RuntimeConfig {
  bool enable_local_indexer = false;
  std::optional<std::uint16_t> bootstrap_port{};
  std::uint64_t handoff_session_timeout_ms = 300'000;
  std::optional<ReasoningOptions> reasoning{};
  std::optional<std::string> response_replay_trace_path{};
  std::optional<std::uint16_t> zmq_kv_events_port{};
  std::optional<std::uint16_t> zmq_replay_port{};
  std::optional<RouterQueuePolicy> router_queue_policy{};
};

/// All of it, under its names in JSON.
struct EngineConfig {
  RankConfig engine{};
  std::uint64_t dp_size = 1;
  std::uint64_t tensor_parallel_size = 1;
  std::optional<double> startup_time{};
  bool num_gpu_blocks_is_explicit = false;
  std::optional<double> gpu_memory_utilization{};
  std::optional<double> mem_fraction_static{};
  std::optional<double> free_gpu_memory_fraction{};
  std::optional<std::uint64_t> cuda_graph_reserved_bytes{};
  RuntimeConfig dynamo{};
};

/// One JSON object: names and types, nothing about values. Errors: kInvalidConfig, one line, the
/// reference's text; of several wrong members `dynamo` comes first, then the order of the text
/// counts. A member that is there twice is refused.
[[nodiscard]] Result<EngineConfig> ReadEngineConfig(std::string_view json);

/// The checks, in the reference's order, and the blanks filled in: block size, number of blocks,
/// acceptance rates as a list of aic_nextn numbers. Reads no file but looks whether a profile is
/// there. Errors: kInvalidConfig, one line, the reference's text where it has one.
[[nodiscard]] Result<EngineConfig> NormalizeEngineConfig(EngineConfig config);

/// What the simulation and the worker are made of. Errors: those of NormalizeEngineConfig, and
/// kInvalidConfig for what this version does not simulate.
[[nodiscard]] Result<EngineArgs> MakeEngineArgs(const EngineConfig& config);

/// ReadEngineConfig and MakeEngineArgs.
[[nodiscard]] Result<EngineArgs> ParseEngineConfig(std::string_view json);

/// The two forms of engine arguments: `{"block_size": 16}` (1.3) and `{"engine": {"block_size":
/// 16}}` (1.6).
enum class ConfigForm : std::uint8_t { kFlat, kNested };

/// By the first member of the object that only one of them has; none when there is no such member,
/// or no object.
[[nodiscard]] std::optional<ConfigForm> FormOf(std::string_view json);

}  // namespace understudy::mocker
