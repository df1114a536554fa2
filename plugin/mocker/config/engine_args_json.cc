// JSON -> EngineArguments: names and types, nothing about values.
#include "plugin/mocker/config/config_form.h"
#include "plugin/mocker/config/json_members.h"
#include "understudy/mocker/engine_args.h"
#include "understudy/mocker/json_reader.h"

#include <algorithm>
#include <array>
#include <limits>
#include <variant>
#include <vector>

namespace understudy::mocker {

namespace {

constexpr std::uint64_t kU16Max = std::numeric_limits<std::uint16_t>::max();
constexpr std::uint64_t kU32Max = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kU64Max = std::numeric_limits<std::uint64_t>::max();

using Args = EngineArguments;
using Member = std::variant<Argument<std::uint64_t> Args::*,
                            Argument<double> Args::*,
                            Argument<bool> Args::*,
                            Argument<std::string> Args::*,
                            Argument<ReasoningOptions> Args::*,
                            Argument<SglangArguments> Args::*,
                            Argument<TrtllmArguments> Args::*,
                            std::monostate>;

struct Field {
  std::string_view name;
  Member member;  ///< monostate: read over
  std::string_view expected = "usize";
  std::uint64_t max = kU64Max;
};

/// In the order in which the reference lists them.
constexpr std::array kFields = {
    Field{"engine_type", &Args::engine_type, "a string"},
    Field{"num_gpu_blocks", &Args::num_gpu_blocks},
    Field{"block_size", &Args::block_size},
    Field{"max_num_seqs", &Args::max_num_seqs},
    Field{"max_num_batched_tokens", &Args::max_num_batched_tokens},
    Field{"enable_prefix_caching", &Args::enable_prefix_caching},
    Field{"enable_chunked_prefill", &Args::enable_chunked_prefill},
    Field{"speedup_ratio", &Args::speedup_ratio},
    Field{"decode_speedup_ratio", &Args::decode_speedup_ratio},
    Field{"dp_size", &Args::dp_size, "u32", kU32Max},
    Field{"startup_time", &Args::startup_time},
    Field{"worker_type", &Args::worker_type, "a string"},
    Field{"is_prefill", &Args::is_prefill},
    Field{"is_decode", &Args::is_decode},
    Field{"planner_profile_data", &Args::planner_profile_data, "path string"},
    Field{"aic_backend", &Args::aic_backend, "a string"},
    Field{"aic_system", &Args::aic_system, "a string"},
    Field{"aic_backend_version", &Args::aic_backend_version, "a string"},
    Field{"aic_tp_size", &Args::aic_tp_size},
    Field{"aic_model_path", &Args::aic_model_path, "a string"},
    Field{"aic_moe_tp_size", &Args::aic_moe_tp_size},
    Field{"aic_moe_ep_size", &Args::aic_moe_ep_size},
    Field{"aic_attention_dp_size", &Args::aic_attention_dp_size},
    Field{"aic_gemm_dtype", &Args::aic_gemm_dtype, "a string"},
    Field{"aic_moe_dtype", &Args::aic_moe_dtype, "a string"},
    Field{"aic_fmha_dtype", &Args::aic_fmha_dtype, "a string"},
    Field{"aic_kv_cache_dtype", &Args::aic_kv_cache_dtype, "a string"},
    Field{"aic_comm_dtype", &Args::aic_comm_dtype, "a string"},
    Field{"aic_nextn", &Args::aic_nextn},
    Field{"aic_nextn_accept_rates", &Args::aic_nextn_accept_rates, "a string"},
    Field{"aic_mtp_seed", &Args::aic_mtp_seed, "u64"},
    Field{"gpu_memory_utilization", &Args::gpu_memory_utilization},
    Field{"mem_fraction_static", &Args::mem_fraction_static},
    Field{"free_gpu_memory_fraction", &Args::free_gpu_memory_fraction},
    Field{"enable_local_indexer", &Args::enable_local_indexer},
    Field{"bootstrap_port", &Args::bootstrap_port, "u16", kU16Max},
    Field{"handoff_session_timeout_ms", &Args::handoff_session_timeout_ms, "u64"},
    Field{"kv_bytes_per_token", &Args::kv_bytes_per_token},
    Field{"kv_transfer_bandwidth", &Args::kv_transfer_bandwidth},
    Field{"kv_transfer_timing_mode", &Args::kv_transfer_timing_mode, "a string"},
    Field{"num_g2_blocks", &Args::num_g2_blocks},
    Field{"num_g3_blocks", &Args::num_g3_blocks},
    Field{"enable_g4_storage", &Args::enable_g4_storage},
    Field{"offload_batch_size", &Args::offload_batch_size},
    Field{"bandwidth_g1_to_g2_gbps", &Args::bandwidth_g1_to_g2_gbps},
    Field{"bandwidth_g2_to_g1_gbps", &Args::bandwidth_g2_to_g1_gbps},
    Field{"bandwidth_g2_to_g3_gbps", &Args::bandwidth_g2_to_g3_gbps},
    Field{"bandwidth_g3_to_g2_gbps", &Args::bandwidth_g3_to_g2_gbps},
    Field{"bandwidth_g2_to_g4_gbps", &Args::bandwidth_g2_to_g4_gbps},
    Field{"bandwidth_g4_to_g2_gbps", &Args::bandwidth_g4_to_g2_gbps},
    Field{"reasoning", &Args::reasoning},
    Field{"response_replay_trace_path", &Args::response_replay_trace_path, "path string"},
    Field{"zmq_kv_events_port", &Args::zmq_kv_events_port, "u16", kU16Max},
    Field{"zmq_replay_port", &Args::zmq_replay_port, "u16", kU16Max},
    Field{"preemption_mode", &Args::preemption_mode, "a string"},
    Field{"router_queue_policy", &Args::router_queue_policy, "a string"},
    Field{"sglang", &Args::sglang},
    Field{"trtllm", &Args::trtllm},
    Field{"has_perf_model", std::monostate{}},
};

static_assert(kFields.size() <= Members::kMembersMax);

std::string UnknownField(std::string_view key) {
  std::vector<std::string_view> names;
  for (const Field& field : kFields) {
    names.push_back(field.name);
  }
  return "unknown field `" + std::string(key) + "`, expected " + OneOf(names);
}

bool ReadSglangObject(JsonReader& reader, SglangArguments& out) {
  Members members(reader);
  const auto text = [&reader](std::string& value) { return reader.Text(value); };
  const auto count = [&reader](std::uint64_t& value) { return reader.Unsigned(value, "usize"); };
  const auto real = [&reader](double& value) { return reader.Real(value); };
  return reader.Object("struct SglangArgs", [&](std::string_view key) {
    if (members.Is(key, 0, "schedule_policy")) {
      return Optional(reader, out.schedule_policy, text);
    }
    if (members.Is(key, 1, "page_size")) {
      return Optional(reader, out.page_size, count);
    }
    if (members.Is(key, 2, "max_prefill_tokens")) {
      return Optional(reader, out.max_prefill_tokens, count);
    }
    if (members.Is(key, 3, "chunked_prefill_size")) {
      return Optional(reader, out.chunked_prefill_size, count);
    }
    if (members.Is(key, 4, "clip_max_new_tokens")) {
      return Optional(reader, out.clip_max_new_tokens, count);
    }
    if (members.Is(key, 5, "schedule_conservativeness")) {
      return Optional(reader, out.schedule_conservativeness, real);
    }
    return reader.Skip();
  });
}

bool ReadTrtllmObject(JsonReader& reader, TrtllmArguments& out) {
  Members members(reader);
  return reader.Object("struct TrtllmArgs", [&](std::string_view key) {
    return members.Is(key, 0, "capacity_scheduler_policy")
               ? Optional(reader,
                          out.capacity_scheduler_policy,
                          [&reader](std::string& value) { return reader.Text(value); })
               : reader.Skip();
  });
}

/// Reads one field's value into `args`.
class FieldReader {
 public:
  FieldReader(JsonReader& reader, const Field& field, EngineArguments& args)
      : reader_(reader), field_(field), args_(args) {}

  bool operator()(std::monostate) { return reader_.Skip(); }

  template <class T>
  bool operator()(Argument<T> Args::*member) {
    Argument<T>& argument = args_.*member;
    argument.given = true;
    return Optional(reader_, argument.value, [this](T& value) { return Read(value); });
  }

 private:
  bool Read(std::uint64_t& value) { return reader_.Unsigned(value, field_.expected, field_.max); }
  bool Read(double& value) { return reader_.Real(value); }
  bool Read(bool& value) { return reader_.Bool(value); }
  bool Read(std::string& value) { return reader_.Text(value, field_.expected); }
  bool Read(ReasoningOptions& value) { return ReadReasoningObject(reader_, value); }
  bool Read(SglangArguments& value) { return ReadSglangObject(reader_, value); }
  bool Read(TrtllmArguments& value) { return ReadTrtllmObject(reader_, value); }

  JsonReader& reader_;
  const Field& field_;
  EngineArguments& args_;
};

bool ReadArguments(JsonReader& reader, EngineArguments& args) {
  Members members(reader);
  return reader.Object("struct MockEngineArgsSerde", [&](std::string_view key) {
    for (std::size_t i = 0; i < kFields.size(); ++i) {
      if (members.Is(key, i, kFields[i].name)) {
        return std::visit(FieldReader(reader, kFields[i], args), kFields[i].member);
      }
    }
    return reader.FailKey(UnknownField(key));
  });
}

}  // namespace

bool IsFlatMember(std::string_view name) {
  return std::any_of(
      kFields.begin(), kFields.end(), [name](const Field& field) { return field.name == name; });
}

Result<EngineArguments> ReadEngineArguments(std::string_view json) {
  JsonReader reader(json);
  EngineArguments args;
  if (!ReadArguments(reader, args) || !reader.End()) {
    return Refuse(reader);
  }
  return args;
}

Result<ReasoningOptions> ReadReasoning(std::string_view json) {
  JsonReader reader(json);
  ReasoningOptions reasoning;
  if (!ReadReasoningObject(reader, reasoning) || !reader.End()) {
    return Refuse(reader);
  }
  return reasoning;
}

Result<EngineArgs> ParseEngineArgs(std::string_view json) {
  JsonReader reader(json);
  EngineArguments arguments;
  if (!ReadArguments(reader, arguments)) {
    return Refuse(reader);
  }
  UNDERSTUDY_TRY(auto args, ValidateEngineArgs(arguments));
  if (!reader.End()) {  // last, as in the original
    return Refuse(reader);
  }
  return args;
}

}  // namespace understudy::mocker
