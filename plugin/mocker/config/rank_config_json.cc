// `engine` of the nested configuration.
#include "plugin/mocker/config/rank_config_json.h"

#include "plugin/mocker/config/config_members.h"

#include <array>
#include <string>
#include <string_view>

namespace understudy::mocker {

namespace {

using namespace std::string_view_literals;

constexpr Words<EngineType, 3> kBackends = {{{"vllm"sv, EngineType::kVllm},
                                             {"sglang"sv, EngineType::kSglang},
                                             {"trtllm"sv, EngineType::kTrtllm}}};
constexpr Words<WorkerType, 3> kWorkerTypes = {{{"aggregated"sv, WorkerType::kAggregated},
                                                {"prefill"sv, WorkerType::kPrefill},
                                                {"decode"sv, WorkerType::kDecode}}};
constexpr Words<PreemptionMode, 2> kPreemptionModes = {
    {{"lifo"sv, PreemptionMode::kLifo}, {"fifo"sv, PreemptionMode::kFifo}}};
constexpr Words<TransferTiming, 2> kTransferTimings = {
    {{"full_prompt"sv, TransferTiming::kFullPrompt},
     {"destination_missing"sv, TransferTiming::kDestinationMissing}}};
constexpr Words<TimingType, 3> kTimingTypes = {{{"polynomial"sv, TimingType::kPolynomial},
                                                {"fixed"sv, TimingType::kFixed},
                                                {"external"sv, TimingType::kExternal}}};
constexpr Words<SglangPolicy, 2> kSglangPolicies = {
    {{"fifo"sv, SglangPolicy::kFifo}, {"lpm"sv, SglangPolicy::kLpm}}};
enum class TrtllmPolicyWord : std::uint8_t { kGuaranteedNoEvict };
constexpr Words<TrtllmPolicyWord, 1> kTrtllmPolicies = {
    {{"guaranteed_no_evict"sv, TrtllmPolicyWord::kGuaranteedNoEvict}}};
enum class G3Scope : std::uint8_t { kWorkerLocal, kClusterShared };
constexpr Words<G3Scope, 2> kG3Scopes = {
    {{"worker_local"sv, G3Scope::kWorkerLocal}, {"cluster_shared"sv, G3Scope::kClusterShared}}};

/// A member that is one of some words.
template <class T, auto kMember, const auto& kWords>
constexpr ConfigMember<T> Word(std::string_view name) {
  return {
      name, [](JsonReader& reader, T& out) { return ReadWord(reader, kWords, out.*kMember); }, {}};
}

bool MissingField(JsonReader& reader, std::string_view name) {
  return reader.Fail("missing field `" + std::string(name) + "`");
}

bool ReadHostScope(JsonReader& reader, HostOffloadConfig& out) {
  std::string scope;
  if (!reader.Text(scope)) {
    return false;
  }
  if (scope == "worker_local") {
    return reader.Fail(
        "host_offload.scope `worker_local` is a G3 scope; use `dp_rank_local` for per-DP-rank G2 "
        "caches");
  }
  if (scope != "dp_rank_local" && scope != "cluster_shared") {
    return reader.Fail("unknown host_offload.scope `" + scope +
                       "`; expected `dp_rank_local` or `cluster_shared`");
  }
  out.scope = scope == "cluster_shared" ? HostScope::kClusterShared : HostScope::kDpRankLocal;
  return true;
}

using Host = HostOffloadConfig;
constexpr std::array kHostMembers = {
    ConfigMember<Host>{"scope", ReadHostScope},
    Plain<Host, &Host::num_host_blocks>("num_host_blocks"),
    Plain<Host, &Host::d2h_bandwidth_gbps>("d2h_bandwidth_gbps"),
    Plain<Host, &Host::h2d_bandwidth_gbps>("h2d_bandwidth_gbps"),
    Plain<Host, &Host::shared_d2h_bandwidth_gbps>("shared_d2h_bandwidth_gbps"),
    Plain<Host, &Host::shared_h2d_bandwidth_gbps>("shared_h2d_bandwidth_gbps"),
    Plain<Host, &Host::latency_to_first_byte_ms>("latency_to_first_byte_ms"),
    Plain<Host, &Host::kv_layout_id>("kv_layout_id"),
};

bool ReadHostObject(JsonReader& reader, HostOffloadConfig& out) {
  Members seen(reader);
  return ReadMembers(reader, "struct NativeHostOffloadConfig", kHostMembers, out, seen) &&
         (seen.seen(1) || MissingField(reader, "num_host_blocks"));
}

constexpr std::array kSglangMembers = {
    Word<SglangOptions, &SglangOptions::schedule_policy, kSglangPolicies>("schedule_policy"),
    Plain<SglangOptions, &SglangOptions::max_prefill_tokens>("max_prefill_tokens"),
    Plain<SglangOptions, &SglangOptions::chunked_prefill_size>("chunked_prefill_size"),
    Plain<SglangOptions, &SglangOptions::clip_max_new_tokens>("clip_max_new_tokens"),
    Plain<SglangOptions, &SglangOptions::schedule_conservativeness>("schedule_conservativeness"),
};

struct TrtllmConfig {
  TrtllmPolicyWord capacity_scheduler_policy = TrtllmPolicyWord::kGuaranteedNoEvict;
};
constexpr std::array kTrtllmMembers = {
    Word<TrtllmConfig, &TrtllmConfig::capacity_scheduler_policy, kTrtllmPolicies>(
        "capacity_scheduler_policy"),
};

/// `timing_model` but for its type, as the text has them.
struct TimingMembers {
  std::optional<std::string_view> prefill_ms, decode_ms, provider, config;
};

/// A value that was put aside; it is wrong in the name of the object that it is a member of.
template <class T>
bool ReadAside(JsonReader& reader,
               std::string_view name,
               const std::optional<std::string_view>& text,
               T& out) {
  if (!text) {
    return MissingField(reader, name);
  }
  JsonReader aside(*text, JsonReader::Paths::kOmitted, JsonReader::Positions::kOmitted);
  return ReadValue(aside, out) || reader.Fail(aside.error());
}

bool ReadTimingObject(JsonReader& reader, TimingConfig& out) {
  TimingMembers aside;
  Members seen(reader);
  const auto raw = [&reader](std::optional<std::string_view>& text) {
    return reader.Raw(text.emplace());
  };
  const bool read =
      reader.Object("internally tagged enum TimingModelConfig", [&](std::string_view key) {
        if (seen.Is(key, 0, "type")) {
          return ReadWord(reader, kTimingTypes, out.type, "variant identifier");
        }
        return seen.Is(key, 1, "prefill_ms")  ? raw(aside.prefill_ms)
               : seen.Is(key, 2, "decode_ms") ? raw(aside.decode_ms)
               : seen.Is(key, 3, "provider")  ? raw(aside.provider)
               : seen.Is(key, 4, "config")    ? raw(aside.config)
                                              : reader.Skip();
      });
  if (!read) {
    return false;
  }
  if (!seen.seen(0)) {
    return MissingField(reader, "type");
  }
  if (out.type == TimingType::kFixed) {
    return ReadAside(reader, "prefill_ms", aside.prefill_ms, out.fixed.prefill_ms) &&
           ReadAside(reader, "decode_ms", aside.decode_ms, out.fixed.decode_ms);
  }
  if (out.type == TimingType::kExternal) {
    out.config = aside.config.value_or("null");
    return ReadAside(reader, "provider", aside.provider, out.provider);
  }
  return true;
}

struct G3Config {
  G3Scope scope = G3Scope::kWorkerLocal;
  std::uint64_t num_g3_blocks = 0;
  double latency_to_first_byte_ms = 0.0;
  double read_bandwidth_gbps = 0.0, write_bandwidth_gbps = 0.0;
  double shared_read_bandwidth_gbps = 0.0, shared_write_bandwidth_gbps = 0.0;
};
constexpr std::array kG3Members = {
    Word<G3Config, &G3Config::scope, kG3Scopes>("scope"),
    Plain<G3Config, &G3Config::num_g3_blocks>("num_g3_blocks"),
    Plain<G3Config, &G3Config::latency_to_first_byte_ms>("latency_to_first_byte_ms"),
    Plain<G3Config, &G3Config::read_bandwidth_gbps>("read_bandwidth_gbps"),
    Plain<G3Config, &G3Config::write_bandwidth_gbps>("write_bandwidth_gbps"),
    Plain<G3Config, &G3Config::shared_read_bandwidth_gbps>("shared_read_bandwidth_gbps"),
    Plain<G3Config, &G3Config::shared_write_bandwidth_gbps>("shared_write_bandwidth_gbps"),
};

bool ReadG3Object(JsonReader& reader, G3Config& out) {
  Members seen(reader);
  return ReadMembers(reader, "struct G3OffloadConfig", kG3Members, out, seen) &&
         (seen.seen(0) || MissingField(reader, "scope")) &&
         (seen.seen(1) || MissingField(reader, "num_g3_blocks"));
}

struct StateCacheConfig {
  std::uint64_t bytes_per_request = 0;
};
constexpr std::array kStateCacheMembers = {
    Plain<StateCacheConfig, &StateCacheConfig::bytes_per_request>("bytes_per_request")};

bool ReadStateCacheObject(JsonReader& reader, StateCacheConfig& out) {
  Members seen(reader);
  return ReadMembers(reader, "struct StateCacheConfig", kStateCacheMembers, out, seen) &&
         (seen.seen(0) || MissingField(reader, "bytes_per_request"));
}

/// What is not simulated: only whether it is there matters.
template <class T>
bool ReadPresence(JsonReader& reader, bool& there, bool (*read)(JsonReader&, T&)) {
  std::optional<T> value;
  const bool done =
      Optional(reader, value, [&reader, read](T& target) { return read(reader, target); });
  there = value.has_value();
  return done;
}

using Rank = RankConfig;
constexpr std::array kRankMembers = {
    Word<Rank, &Rank::backend, kBackends>("backend"),
    ConfigMember<Rank>{
        "num_gpu_blocks",
        [](JsonReader& r, Rank& o) { return ReadValue(r, o.num_gpu_blocks.emplace()); }},
    Plain<Rank, &Rank::block_size>("block_size"),
    Plain<Rank, &Rank::max_model_len>("max_model_len"),
    Plain<Rank, &Rank::max_num_seqs>("max_num_seqs"),
    Plain<Rank, &Rank::max_num_batched_tokens>("max_num_batched_tokens"),
    Plain<Rank, &Rank::prefill_schedule_interval>("prefill_schedule_interval"),
    Plain<Rank, &Rank::prefill_decode_interval>("prefill_decode_interval"),
    Plain<Rank, &Rank::enable_prefix_caching>("enable_prefix_caching"),
    Plain<Rank, &Rank::enable_chunked_prefill>("enable_chunked_prefill"),
    Plain<Rank, &Rank::speedup_ratio>("speedup_ratio"),
    Plain<Rank, &Rank::decode_speedup_ratio>("decode_speedup_ratio"),
    Plain<Rank, &Rank::aic_nextn>("aic_nextn"),
    Plain<Rank, &Rank::aic_nextn_accept_rates>("aic_nextn_accept_rates"),
    ConfigMember<Rank>{"aic_mtp_seed",
                       [](JsonReader& r, Rank& o) { return r.Unsigned(o.aic_mtp_seed, "u64"); }},
    ConfigMember<Rank>{
        "worker_type",
        [](JsonReader& r, Rank& o) { return ReadWord(r, kWorkerTypes, o.worker_type.emplace()); }},
    Word<Rank, &Rank::preemption_mode, kPreemptionModes>("preemption_mode"),
    Plain<Rank, &Rank::emit_kv_events>("emit_kv_events"),
    Plain<Rank, &Rank::emit_kv_token_ids>("emit_kv_token_ids"),
    ConfigMember<Rank>{
        "kv_bytes_per_token",
        [](JsonReader& r, Rank& o) { return ReadValue(r, o.kv_transfer_bytes_per_token); },
        "kv_transfer_bytes_per_token"},
    Plain<Rank, &Rank::kv_transfer_bytes_per_token>("kv_transfer_bytes_per_token"),
    Plain<Rank, &Rank::kv_cache_bytes_per_token>("kv_cache_bytes_per_token"),
    ConfigMember<Rank>{"kv_cache_groups",
                       [](JsonReader& r, Rank& o) {
                         return r.Array("a sequence", [&r, &o] {
                           o.kv_cache_groups = true;
                           return r.Skip();
                         });
                       }},
    ConfigMember<Rank>{"kv_cache_capacity_bytes",
                       [](JsonReader& r, Rank& o) {
                         return ReadPresence<std::uint64_t>(
                             r, o.kv_cache_capacity_bytes, [](JsonReader& reader, auto& value) {
                               return reader.Unsigned(value, "u64");
                             });
                       }},
    ConfigMember<Rank>{"native_host_offload",
                       [](JsonReader& r, Rank& o) {
                         return Optional(r, o.native_host_offload, [&r](HostOffloadConfig& host) {
                           return ReadHostObject(r, host);
                         });
                       }},
    ConfigMember<Rank>{"state_cache",
                       [](JsonReader& r, Rank& o) {
                         return ReadPresence(r, o.state_cache, ReadStateCacheObject);
                       }},
    ConfigMember<Rank>{"prefix_match_unit",
                       [](JsonReader& r, Rank& o) {
                         return ReadPresence<std::uint64_t>(
                             r, o.prefix_match_unit, [](JsonReader& reader, auto& value) {
                               return ReadValue(reader, value);
                             });
                       }},
    ConfigMember<Rank>{
        "g3_offload",
        [](JsonReader& r, Rank& o) { return ReadPresence(r, o.g3_offload, ReadG3Object); }},
    Plain<Rank, &Rank::kv_transfer_bandwidth>("kv_transfer_bandwidth"),
    Word<Rank, &Rank::kv_transfer_timing_mode, kTransferTimings>("kv_transfer_timing_mode"),
    ConfigMember<Rank>{"timing_model",
                       [](JsonReader& r, Rank& o) { return ReadTimingObject(r, o.timing_model); }},
    ConfigMember<Rank>{"sglang",
                       [](JsonReader& r, Rank& o) {
                         return ReadMembers(r, "struct SglangConfig", kSglangMembers, o.sglang);
                       }},
    ConfigMember<Rank>{"trtllm",
                       [](JsonReader& r, Rank& /*o*/) {
                         TrtllmConfig config;
                         return ReadMembers(r, "struct TrtllmConfig", kTrtllmMembers, config);
                       }},
};

}  // namespace

bool ReadRankObject(JsonReader& reader, RankConfig& out) {
  if (!ReadMembers(reader, "struct EngineConfigWire", kRankMembers, out)) {
    return false;
  }
  const bool sized = out.num_gpu_blocks && out.block_size && out.kv_cache_bytes_per_token;
  if (out.state_cache && !sized) {
    return reader.Fail(
        "state_cache requires explicit num_gpu_blocks, block_size and kv_cache_bytes_per_token");
  }
  return !out.prefix_match_unit || out.state_cache ||
         reader.Fail("prefix_match_unit currently requires state_cache");
}

}  // namespace understudy::mocker
