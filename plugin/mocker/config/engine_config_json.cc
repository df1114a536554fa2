// JSON -> EngineConfig: names and types, nothing about values.
#include "plugin/mocker/config/config_form.h"
#include "plugin/mocker/config/config_members.h"
#include "plugin/mocker/config/rank_config_json.h"
#include "understudy/mocker/engine_config.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

namespace understudy::mocker {

namespace {

using namespace std::string_view_literals;

constexpr Words<RouterQueuePolicy, 3> kQueuePolicies = {{{"fcfs"sv, RouterQueuePolicy::kFcfs},
                                                         {"lcfs"sv, RouterQueuePolicy::kLcfs},
                                                         {"wspt"sv, RouterQueuePolicy::kWspt}}};

using Launch = EngineConfig;
constexpr std::array kLaunchMembers = {
    ConfigMember<Launch>{"engine",
                         [](JsonReader& r, Launch& o) { return ReadRankObject(r, o.engine); }},
    ConfigMember<Launch>{"dp_size",
                         [](JsonReader& r, Launch& o) {
                           return r.Unsigned(
                               o.dp_size, "u32", std::numeric_limits<std::uint32_t>::max());
                         }},
    Plain<Launch, &Launch::tensor_parallel_size>("tensor_parallel_size"),
    Plain<Launch, &Launch::startup_time>("startup_time"),
    Plain<Launch, &Launch::num_gpu_blocks_is_explicit>("num_gpu_blocks_is_explicit"),
    Plain<Launch, &Launch::gpu_memory_utilization>("gpu_memory_utilization"),
    Plain<Launch, &Launch::mem_fraction_static>("mem_fraction_static"),
    Plain<Launch, &Launch::free_gpu_memory_fraction>("free_gpu_memory_fraction"),
    ConfigMember<Launch>{"cuda_graph_reserved_bytes",
                         [](JsonReader& r, Launch& o) {
                           return Optional(
                               r, o.cuda_graph_reserved_bytes, [&r](std::uint64_t& value) {
                                 return r.Unsigned(value, "u64");
                               });
                         }},
};

using Runtime = RuntimeConfig;
constexpr std::array kRuntimeMembers = {
    Plain<Runtime, &Runtime::enable_local_indexer>("enable_local_indexer"),
    Plain<Runtime, &Runtime::bootstrap_port>("bootstrap_port"),
    ConfigMember<Runtime>{
        "handoff_session_timeout_ms",
        [](JsonReader& r, Runtime& o) { return r.Unsigned(o.handoff_session_timeout_ms, "u64"); }},
    Plain<Runtime, &Runtime::reasoning>("reasoning"),
    ConfigMember<Runtime>{"response_replay_trace_path",
                          [](JsonReader& r, Runtime& o) {
                            return Optional(
                                r, o.response_replay_trace_path, [&r](std::string& path) {
                                  return r.Text(path, "path string");
                                });
                          }},
    Plain<Runtime, &Runtime::zmq_kv_events_port>("zmq_kv_events_port"),
    Plain<Runtime, &Runtime::zmq_replay_port>("zmq_replay_port"),
    ConfigMember<Runtime>{"router_queue_policy",
                          [](JsonReader& r, Runtime& o) {
                            return Optional(
                                r, o.router_queue_policy, [&r](RouterQueuePolicy& policy) {
                                  return ReadWord(r, kQueuePolicies, policy);
                                });
                          }},
};

/// The text is JSON and an object; `dynamo` gets that member as it stands there.
Status FindRuntime(std::string_view json, std::optional<std::string_view>& dynamo) {
  JsonReader syntax(json, JsonReader::Paths::kOmitted);
  std::string_view whole;
  if (!syntax.Raw(whole) || !syntax.End()) {
    return Refuse(syntax);
  }
  if (whole.front() != '{') {
    return Fail(Errc::kInvalidConfig, "Mocker config must be an object");
  }
  JsonReader members(whole, JsonReader::Paths::kNamed, JsonReader::Positions::kOmitted);
  const bool read = members.Object("", [&](std::string_view key) {
    if (key != "dynamo") {
      return members.Skip();
    }
    return dynamo ? members.FailDuplicate(key) : members.Raw(dynamo.emplace());
  });
  return read ? Status{} : Status(Refuse(members));
}

}  // namespace

bool IsNestedMember(std::string_view name) {
  return name == "dynamo" ||
         std::any_of(kLaunchMembers.begin(), kLaunchMembers.end(), [name](const auto& member) {
           return member.name == name;
         });
}

Result<EngineConfig> ReadEngineConfig(std::string_view json) {
  std::optional<std::string_view> dynamo;
  UNDERSTUDY_TRY_STATUS(FindRuntime(json, dynamo));
  EngineConfig config;
  if (dynamo) {
    JsonReader reader(*dynamo, JsonReader::Paths::kNamed, JsonReader::Positions::kOmitted);
    if (!ReadMembers(reader, "struct MockerRuntimeOptions", kRuntimeMembers, config.dynamo)) {
      return Refuse(reader);
    }
  }
  JsonReader reader(json, JsonReader::Paths::kNamed, JsonReader::Positions::kOmitted);
  Members seen(reader);
  const bool read = reader.Object("struct EngineLaunchConfig", [&](std::string_view key) {
    return key == "dynamo" ? reader.Skip() : ReadMember(reader, kLaunchMembers, key, seen, config);
  });
  if (!read) {
    return FailWith("invalid engine launch config", Refuse(reader).value());
  }
  if (!seen.seen(4)) {
    config.num_gpu_blocks_is_explicit = config.engine.num_gpu_blocks.has_value();
  }
  return config;
}

}  // namespace understudy::mocker
