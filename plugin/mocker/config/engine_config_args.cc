// EngineConfig -> EngineArgs.
#include "plugin/mocker/config/accept_rates.h"
#include "plugin/mocker/config/check.h"
#include "plugin/mocker/config/engine_args_warnings.h"
#include "plugin/mocker/config/ranges.h"
#include "plugin/mocker/config/timing_config.h"
#include "plugin/mocker/perf_model/fixed_model.h"
#include "understudy/mocker/engine_config.h"

#include <chrono>
#include <limits>
#include <string>
#include <utility>

namespace understudy::mocker {

namespace {

constexpr std::uint64_t kU32Max = std::numeric_limits<std::uint32_t>::max();

/// What the reference simulates and this version does not.
Status CheckSimulated(const EngineConfig& config) {
  const RankConfig& rank = config.engine;
  const std::pair<const char*, bool> members[] = {
      {"kv_cache_groups", rank.kv_cache_groups},
      {"state_cache", rank.state_cache},
      {"g3_offload", rank.g3_offload},
      {"native_host_offload.scope cluster_shared",
       rank.native_host_offload && rank.native_host_offload->scope == HostScope::kClusterShared}};
  for (const auto& [member, given] : members) {
    UNDERSTUDY_TRY_STATUS(Require(
        !given,
        std::string("engine.") + member + " is not simulated by this version; leave it out"));
  }
  return {};
}

/// Bounds of ours: what has to fit before it can be stored. The reference takes 64 bits.
Status CheckBounds(const EngineConfig& config) {
  constexpr std::uint64_t kTimeoutMaxMs = 1'000'000'000'000;  // 31 years
  UNDERSTUDY_TRY_STATUS(AtMost("block_size", *config.engine.block_size, kU32Max));
  UNDERSTUDY_TRY_STATUS(AtMost("max_num_seqs", config.engine.max_num_seqs.value_or(0), kU32Max));
  UNDERSTUDY_TRY_STATUS(
      AtMost("prefill_schedule_interval", config.engine.prefill_schedule_interval, kU32Max));
  UNDERSTUDY_TRY_STATUS(
      AtMost("prefill_decode_interval", config.engine.prefill_decode_interval, kU32Max));
  UNDERSTUDY_TRY_STATUS(AtMost(
      "handoff_session_timeout_ms", config.dynamo.handoff_session_timeout_ms, kTimeoutMaxMs));
  return AtMost("dp_size", config.dp_size, kU32Max);
}

std::optional<HostOffloadOptions> HostOptions(const RankConfig& rank) {
  if (!rank.native_host_offload) {
    return std::nullopt;
  }
  const HostOffloadConfig& host = *rank.native_host_offload;
  return HostOffloadOptions{.num_host_blocks = host.num_host_blocks,
                            .d2h_bandwidth_gbps = host.d2h_bandwidth_gbps,
                            .h2d_bandwidth_gbps = host.h2d_bandwidth_gbps,
                            .latency_to_first_byte_ms = host.latency_to_first_byte_ms};
}

std::optional<SpeculativeOptions> DraftOptions(const RankConfig& rank) {
  if (!rank.aic_nextn) {
    return std::nullopt;
  }
  SpeculativeOptions options;
  options.accept_rates = ParseAcceptRates(rank.aic_nextn_accept_rates, *rank.aic_nextn).value();
  options.seed = rank.aic_mtp_seed;
  return options;
}

/// `rank` is normalized.
void SetRank(const RankConfig& rank, MockerOptions& out) {
  out.semantics = SemanticsRelease::k16;
  out.engine_type = rank.backend;
  out.max_model_len = rank.max_model_len;
  out.num_gpu_blocks = *rank.num_gpu_blocks;
  out.block_size = static_cast<std::uint32_t>(*rank.block_size);
  out.max_num_seqs.reset();
  if (rank.max_num_seqs) {
    out.max_num_seqs = static_cast<std::uint32_t>(*rank.max_num_seqs);
  }
  out.max_num_batched_tokens = rank.max_num_batched_tokens;
  out.prefill_schedule_interval = static_cast<std::uint32_t>(rank.prefill_schedule_interval);
  out.prefill_decode_interval = static_cast<std::uint32_t>(rank.prefill_decode_interval);
  out.enable_prefix_caching = rank.enable_prefix_caching;
  out.enable_chunked_prefill = rank.enable_chunked_prefill;
  out.preemption_mode = rank.preemption_mode;
  out.worker_type = *rank.worker_type;
  out.speedup_ratio = rank.speedup_ratio;
  out.decode_speedup_ratio = rank.decode_speedup_ratio;
  out.sglang = rank.sglang;
  out.speculative = DraftOptions(rank);
  out.host_offload = HostOptions(rank);
  out.kv_cache_bytes_per_token = rank.kv_cache_bytes_per_token;
  out.kv_bytes_per_token = rank.kv_transfer_bytes_per_token;
  out.kv_transfer_bandwidth = rank.kv_transfer_bandwidth;
  if (out.kv_transfer_bandwidth == 0.0) {
    out.kv_transfer_bandwidth.reset();  // both mean: no delay
  }
  out.kv_transfer_timing = rank.kv_transfer_timing_mode;
}

Status SetTiming(const TimingConfig& timing, EngineArgs& out) {
  if (timing.type == TimingType::kFixed) {
    out.engine.latency_model = FixedModel::TextOf(timing.fixed.prefill_ms, timing.fixed.decode_ms);
  } else if (IsAis(timing)) {
    out.aic.backend = timing.provider;
  } else if (timing.type == TimingType::kExternal) {
    UNDERSTUDY_TRY(out.engine.planner_profile_data, ProfilePath(timing));
  }
  return {};
}

void SetWorkerSide(const EngineConfig& config, EngineArgs& out) {
  const RuntimeConfig& runtime = config.dynamo;
  out.engine.reasoning = runtime.reasoning;
  out.enable_local_indexer = runtime.enable_local_indexer;
  out.bootstrap_port = runtime.bootstrap_port;
  out.handoff_session_timeout = std::chrono::milliseconds(runtime.handoff_session_timeout_ms);
  out.zmq_kv_events_port = runtime.zmq_kv_events_port;
  out.zmq_replay_port = runtime.zmq_replay_port;
  out.response_replay_trace_path = runtime.response_replay_trace_path.value_or("");
  out.router_queue_policy = runtime.router_queue_policy;
  out.aic.tp_size = config.tensor_parallel_size;
  out.aic.attention_dp_size = config.dp_size;
}

}  // namespace

Result<EngineArgs> MakeEngineArgs(const EngineConfig& given) {
  UNDERSTUDY_TRY(const EngineConfig config, NormalizeEngineConfig(given));
  UNDERSTUDY_TRY_STATUS(CheckSimulated(config));
  UNDERSTUDY_TRY_STATUS(CheckBounds(config));
  EngineArgs out;
  SetRank(config.engine, out.engine);
  out.engine.rank_count = static_cast<std::uint32_t>(config.dp_size);
  out.engine.startup_time = std::chrono::duration<double>(config.startup_time.value_or(0.0));
  UNDERSTUDY_TRY_STATUS(SetTiming(config.engine.timing_model, out));
  SetWorkerSide(config, out);
  WarnAbout({{"gpu_memory_utilization", config.gpu_memory_utilization.has_value()},
             {"mem_fraction_static", config.mem_fraction_static.has_value()},
             {"free_gpu_memory_fraction", config.free_gpu_memory_fraction.has_value()},
             {"cuda_graph_reserved_bytes", config.cuda_graph_reserved_bytes.has_value()}},
            "the number of blocks is not estimated, engine.num_gpu_blocks sets it",
            out.warnings);
  return out;
}

Result<EngineArgs> ParseEngineConfig(std::string_view json) {
  UNDERSTUDY_TRY(const EngineConfig config, ReadEngineConfig(json));
  return MakeEngineArgs(config);
}

}  // namespace understudy::mocker
