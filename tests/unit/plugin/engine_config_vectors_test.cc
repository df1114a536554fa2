// Every row of engine_config_validation.json: what the 1.6.1 wheel answered to 126 nested
// configurations, and what it made of those that it took.
#include "tests/unit/plugin/golden_case.h"
#include "tests/unit/plugin/validation_text.h"
#include "understudy/mocker/engine_config.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using Json = nlohmann::json;

template <class T>
Json Nullable(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

const char* Name(EngineType type) {
  static const char* const kNames[] = {"vllm", "sglang", "trtllm"};
  return kNames[static_cast<std::size_t>(type)];
}
const char* Name(WorkerType type) {
  static const char* const kNames[] = {"aggregated", "prefill", "decode"};
  return kNames[static_cast<std::size_t>(type)];
}
const char* Name(TimingType type) {
  static const char* const kNames[] = {"polynomial", "fixed", "external"};
  return kNames[static_cast<std::size_t>(type)];
}
const char* Name(RouterQueuePolicy policy) {
  static const char* const kNames[] = {"fcfs", "lcfs", "wspt"};
  return kNames[static_cast<std::size_t>(policy)];
}

/// Members at their defaults are left out, as the original does.
Json HostJson(const HostOffloadConfig& host) {
  const HostOffloadConfig defaults;
  Json json = {{"num_host_blocks", host.num_host_blocks},
               {"d2h_bandwidth_gbps", host.d2h_bandwidth_gbps},
               {"h2d_bandwidth_gbps", host.h2d_bandwidth_gbps}};
  if (host.scope == HostScope::kClusterShared) {
    json["scope"] = "cluster_shared";
  }
  if (host.kv_layout_id) {
    json["kv_layout_id"] = *host.kv_layout_id;
  }
  if (host.latency_to_first_byte_ms != defaults.latency_to_first_byte_ms) {
    json["latency_to_first_byte_ms"] = host.latency_to_first_byte_ms;
  }
  return json;
}

Json TimingJson(const TimingConfig& timing) {
  Json json = {{"type", Name(timing.type)}};
  if (timing.type == TimingType::kFixed) {
    json["prefill_ms"] = timing.fixed.prefill_ms;
    json["decode_ms"] = timing.fixed.decode_ms;
  } else if (timing.type == TimingType::kExternal) {
    json["provider"] = timing.provider;
    json["config"] = Json::parse(timing.config);
  }
  return json;
}

Json SglangJson(const SglangOptions& sglang) {
  return {{"schedule_policy", sglang.schedule_policy == SglangPolicy::kLpm ? "lpm" : "fifo"},
          {"max_prefill_tokens", sglang.max_prefill_tokens},
          {"chunked_prefill_size", sglang.chunked_prefill_size},
          {"clip_max_new_tokens", sglang.clip_max_new_tokens},
          {"schedule_conservativeness", sglang.schedule_conservativeness}};
}

Json RankJson(const RankConfig& rank) {
  Json json = {
      {"backend", Name(rank.backend)},
      {"num_gpu_blocks", Nullable(rank.num_gpu_blocks)},
      {"block_size", Nullable(rank.block_size)},
      {"max_model_len", Nullable(rank.max_model_len)},
      {"max_num_seqs", Nullable(rank.max_num_seqs)},
      {"max_num_batched_tokens", Nullable(rank.max_num_batched_tokens)},
      {"prefill_schedule_interval", rank.prefill_schedule_interval},
      {"prefill_decode_interval", rank.prefill_decode_interval},
      {"enable_prefix_caching", rank.enable_prefix_caching},
      {"enable_chunked_prefill", rank.enable_chunked_prefill},
      {"speedup_ratio", rank.speedup_ratio},
      {"decode_speedup_ratio", rank.decode_speedup_ratio},
      {"aic_nextn", Nullable(rank.aic_nextn)},
      {"aic_nextn_accept_rates", Nullable(rank.aic_nextn_accept_rates)},
      {"aic_mtp_seed", rank.aic_mtp_seed},
      {"worker_type", Name(*rank.worker_type)},
      {"preemption_mode", rank.preemption_mode == PreemptionMode::kFifo ? "fifo" : "lifo"},
      {"emit_kv_events", rank.emit_kv_events},
      {"emit_kv_token_ids", rank.emit_kv_token_ids},
      {"kv_transfer_bytes_per_token", Nullable(rank.kv_transfer_bytes_per_token)},
      {"kv_transfer_bandwidth", Nullable(rank.kv_transfer_bandwidth)},
      {"kv_transfer_timing_mode",
       rank.kv_transfer_timing_mode == TransferTiming::kDestinationMissing ? "destination_missing"
                                                                           : "full_prompt"},
      {"timing_model", TimingJson(rank.timing_model)},
      {"sglang", SglangJson(rank.sglang)},
      {"trtllm", {{"capacity_scheduler_policy", "guaranteed_no_evict"}}},
  };
  if (rank.kv_cache_bytes_per_token) {
    json["kv_cache_bytes_per_token"] = *rank.kv_cache_bytes_per_token;
  }
  if (rank.native_host_offload) {
    json["native_host_offload"] = HostJson(*rank.native_host_offload);
  }
  return json;
}

Json RuntimeJson(const RuntimeConfig& runtime) {
  Json reasoning;
  if (runtime.reasoning) {
    reasoning = {{"start_thinking_token_id", runtime.reasoning->start_token},
                 {"end_thinking_token_id", runtime.reasoning->end_token},
                 {"thinking_ratio", runtime.reasoning->thinking_ratio}};
  }
  return {{"enable_local_indexer", runtime.enable_local_indexer},
          {"bootstrap_port", Nullable(runtime.bootstrap_port)},
          {"handoff_session_timeout_ms", runtime.handoff_session_timeout_ms},
          {"reasoning", reasoning},
          {"response_replay_trace_path", Nullable(runtime.response_replay_trace_path)},
          {"zmq_kv_events_port", Nullable(runtime.zmq_kv_events_port)},
          {"zmq_replay_port", Nullable(runtime.zmq_replay_port)},
          {"router_queue_policy",
           runtime.router_queue_policy ? Json(Name(*runtime.router_queue_policy)) : Json()}};
}

Json ConfigJson(const EngineConfig& config) {
  return {{"engine", RankJson(config.engine)},
          {"dp_size", config.dp_size},
          {"tensor_parallel_size", config.tensor_parallel_size},
          {"startup_time", Nullable(config.startup_time)},
          {"num_gpu_blocks_is_explicit", config.num_gpu_blocks_is_explicit},
          {"gpu_memory_utilization", Nullable(config.gpu_memory_utilization)},
          {"mem_fraction_static", Nullable(config.mem_fraction_static)},
          {"free_gpu_memory_fraction", Nullable(config.free_gpu_memory_fraction)},
          {"cuda_graph_reserved_bytes", Nullable(config.cuda_graph_reserved_bytes)},
          {"dynamo", RuntimeJson(config.dynamo)}};
}

/// The default with the members that a row says differ from it.
Json Expected(const Json& defaults, const Json& differing) {
  Json json = defaults;
  json.merge_patch(differing);
  if (differing.contains("engine") && differing["engine"].contains("timing_model")) {
    json["engine"]["timing_model"] = differing["engine"]["timing_model"];
  }
  // A merge takes null for "remove".
  for (const char* limit : {"max_num_seqs", "max_num_batched_tokens"}) {
    if (!json["engine"].contains(limit)) {
      json["engine"][limit] = nullptr;
    }
  }
  return json;
}

Result<EngineConfig> Read(const std::string& text) {
  auto config = ReadEngineConfig(text);
  return config ? NormalizeEngineConfig(*config) : config;
}

/// Where ours differs on purpose.
struct Difference {
  std::string reference;  ///< "ok", or its error
  std::string ours;
  const char* reason;
};

const std::map<std::string, Difference>& Differences() {
  static const std::map<std::string, Difference> kDifferences = {
      {R"({"engine":[]})",
       {"ok",
        "invalid engine launch config: engine: invalid type: sequence, expected struct "
        "EngineConfigWire",
        "read there as a list of values in the order of the fields"}},
      {"[] ",
       {"'list' object cannot be converted to 'Mapping'",
        "Mocker config must be an object",
        "said there by the Python binding; as text it gets our answer, which is another row"}},
  };
  return kDifferences;
}

/// JSON of a row; a list that was given to the Python binding has a space behind it.
std::string TextOf(const Json& row) {
  if (row.contains("input_text")) {
    return row["input_text"];
  }
  return row["input"].dump() + (row["input"].is_array() ? " " : "");
}

TEST(EngineConfigVectors, AnswerLikeTheReferenceOrDifferOnPurpose) {
  const Json golden = LoadGoldenCase("engine_config_validation", "engine-1.6");
  ASSERT_EQ(golden["cases"].size(), 126U);
  std::size_t differing = 0;
  for (const Json& row : golden["cases"]) {
    const std::string text = TextOf(row);
    SCOPED_TRACE(text);
    const auto config = Read(text);
    const std::string reference = row["ok"] ? "ok" : WithSortedRange(row["error"]);
    if (const auto difference = Differences().find(text); difference != Differences().end()) {
      ++differing;
      EXPECT_EQ(reference, difference->second.reference) << difference->second.reason;
      ASSERT_FALSE(config) << difference->second.reason;
      EXPECT_EQ(config.error().message, difference->second.ours) << difference->second.reason;
      continue;
    }
    EXPECT_EQ(config ? "ok" : WithSortedRange(config.error().message), reference);
    if (config && row["ok"]) {
      EXPECT_EQ(ConfigJson(*config),
                Expected(golden["default"], row["normalized_differs_from_default"]));
    } else if (!config) {
      EXPECT_EQ(config.error().code, Errc::kInvalidConfig);
    }
  }
  EXPECT_EQ(differing, Differences().size());
}

}  // namespace
}  // namespace understudy::mocker
