#include "worker/replay/engines.h"

#include "understudy/mocker/engine_args.h"
#include "worker/config/text_file.h"

#include <algorithm>
#include <utility>

namespace understudy::worker {
namespace {

constexpr std::size_t kEngineArgsBytesMax = 1U << 20;
constexpr std::uint64_t kGpusMax = 1U << 20;

/// Arguments and the option whose JSON they are; empty = the flags.
struct Source {
  std::string option;
  EngineInput input;
};

Result<Source> FromJson(const std::string& option,
                        const std::string& text,
                        const EngineRelease& release) {
  UNDERSTUDY_TRY(const auto json, JsonOrFile(option, text));
  auto input = EngineInput::OfJson(json, release);
  if (!input) {
    return FailWith(option, input.error());
  }
  return Source{option, std::move(*input)};
}

Result<Source> FromFlags(const ReplayEngineFlags& flags) {
  if (flags.engine.extra_engine_args) {
    return FromJson("--extra-engine-args", *flags.engine.extra_engine_args, flags.release);
  }
  UNDERSTUDY_TRY(auto input, EngineInput::OfFlags(flags.engine, flags.release, std::nullopt));
  return Source{"", std::move(input)};
}

Result<mocker::EngineArgs> Checked(const Source& source,
                                   const ReplayEngineFlags& flags,
                                   const ReplayPlan& plan,
                                   std::vector<std::string>& warnings) {
  const std::string prefix = source.option.empty() ? "" : source.option + ": ";
  auto args = source.input.Check();
  if (!args) {
    return Fail(args.error().code, prefix + args.error().message);
  }
  const bool flat = flags.release.semantics == mocker::SemanticsRelease::k13;
  args->engine.latency_model = flags.engine.latency_model.value_or(args->engine.latency_model);
  args->engine.strict_reference = flags.strict_reference;
  args->engine.seed = plan.options.seed;
  UNDERSTUDY_TRY_STATUS(CheckPerfModel(*args,
                                       source.option.empty() ? "--aic-perf-model"
                                       : flat                ? prefix + "aic_backend"
                                                             : prefix + "engine.timing_model"));
  if (!args->response_replay_trace_path.empty()) {
    args->warnings.emplace_back(
        "response_replay_trace_path has no effect in a replay: a trace's output_token_ids are "
        "used");
  }
  for (const auto& warning : args->warnings) {
    const auto line = prefix + warning;
    if (std::find(warnings.begin(), warnings.end(), line) == warnings.end()) {
      warnings.push_back(line);
    }
  }
  return args;
}

std::uint32_t Gpus(const mocker::EngineArgs& args) {
  return static_cast<std::uint32_t>(std::min(mocker::GpusPerWorker(args.aic), kGpusMax));
}

/// Of prefill and decode workers.
Result<std::pair<Source, Source>> PoolSources(const ReplayEngineFlags& flags,
                                              const ReplayPlan& plan) {
  if (!plan.prefill_engine_args) {
    UNDERSTUDY_TRY(auto both, FromFlags(flags));
    return std::pair(both, both);
  }
  if (flags.engine.extra_engine_args) {
    return Fail(Errc::kInvalidConfig,
                "--extra-engine-args cannot be combined with --prefill-engine-args and "
                "--decode-engine-args");
  }
  UNDERSTUDY_TRY(auto prefill,
                 FromJson("--prefill-engine-args", *plan.prefill_engine_args, flags.release));
  UNDERSTUDY_TRY(auto decode,
                 FromJson("--decode-engine-args", *plan.decode_engine_args, flags.release));
  return std::pair(std::move(prefill), std::move(decode));
}

Status SetPools(const ReplayEngineFlags& flags,
                ReplayPlan& plan,
                std::vector<std::string>& warnings) {
  UNDERSTUDY_TRY(auto sources, PoolSources(flags, plan));
  auto& [prefill, decode] = sources;
  prefill.input.SetWorkerType(mocker::WorkerType::kPrefill);
  decode.input.SetWorkerType(mocker::WorkerType::kDecode);
  UNDERSTUDY_TRY(const auto prefill_args, Checked(prefill, flags, plan, warnings));
  UNDERSTUDY_TRY(const auto decode_args, Checked(decode, flags, plan, warnings));
  auto& o = plan.options;
  o.prefill_engine = prefill_args.engine;
  o.decode_engine = decode_args.engine;
  o.gpus_per_prefill_worker = Gpus(prefill_args);
  o.gpus_per_worker = Gpus(decode_args);
  o.router.router_queue_policy =
      prefill_args.router_queue_policy.value_or(o.router.router_queue_policy);
  return {};
}

Status SetAggregated(const ReplayEngineFlags& flags,
                     ReplayPlan& plan,
                     std::vector<std::string>& warnings) {
  UNDERSTUDY_TRY(const auto source, FromFlags(flags));
  UNDERSTUDY_TRY(const auto args, Checked(source, flags, plan, warnings));
  auto& o = plan.options;
  o.engine = args.engine;
  o.gpus_per_worker = Gpus(args);
  o.router.router_queue_policy = args.router_queue_policy.value_or(o.router.router_queue_policy);
  return {};
}

}  // namespace

Result<std::string> JsonOrFile(const std::string& option, const std::string& text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin != std::string::npos && text[begin] == '{') {
    return text;
  }
  auto content = ReadTextFile(text, kEngineArgsBytesMax);
  if (!content) {
    return FailWith(option + " '" + text.substr(0, 200) + "' is no JSON object, and as a file",
                    content.error());
  }
  return content;
}

Status SetReplayEngines(const ReplayEngineFlags& flags,
                        ReplayPlan& plan,
                        std::vector<std::string>& warnings) {
  UNDERSTUDY_TRY_STATUS(plan.disaggregated ? SetPools(flags, plan, warnings)
                                           : SetAggregated(flags, plan, warnings));
  auto& o = plan.options;
  o.gpus_per_worker = plan.gpus_per_worker.value_or(o.gpus_per_worker);
  o.gpus_per_prefill_worker = plan.gpus_per_prefill_worker.value_or(o.gpus_per_prefill_worker);
  plan.synthetic.block_size = (o.engine ? *o.engine : *o.prefill_engine).block_size;
  plan.synthetic.merge_prefix_groups = flags.strict_reference;
  return {};
}

}  // namespace understudy::worker
