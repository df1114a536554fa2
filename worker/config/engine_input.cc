#include "worker/config/engine_input.h"

#include "worker/config/flag_names.h"
#include "worker/config/kv_bytes.h"
#include "worker/config/text_file.h"

#include <utility>

namespace understudy::worker {
namespace {

using mocker::ConfigForm;
using mocker::EngineArgs;
using mocker::SemanticsRelease;

constexpr std::size_t kEngineArgsBytesMax = 1U << 20;

/// A text in the form that the release does not read.
Status CheckForm(std::string_view json, const EngineRelease& release) {
  const auto form = mocker::FormOf(json);
  const bool flat = release.semantics == SemanticsRelease::k13;
  if (!form || (*form == ConfigForm::kFlat) == flat) {
    return {};
  }
  const std::string flag = release.flag;
  return Fail(Errc::kInvalidConfig,
              flat ? "these are nested arguments, of release 1.6: give " + flag +
                         " 1.6, or flat ones, like {\"engine_type\": \"vllm\", \"block_size\": 16}"
                   : "these are flat arguments, of release 1.3: give " + flag +
                         " 1.3, or nested ones, like {\"engine\": {\"backend\": \"vllm\", "
                         "\"block_size\": 16}}");
}

/// As given, or as the model's configuration says; without either none, and `warning` says why.
Result<std::optional<std::uint64_t>> KvBytes(const EngineFlags& flags,
                                             const std::optional<std::string>& model,
                                             std::string& warning) {
  if (flags.kv_bytes_per_token || !model) {
    return CountOf("--kv-bytes-per-token", flags.kv_bytes_per_token);
  }
  auto bytes = KvBytesPerToken(*model, flags.kv_cache_dtype);
  if (!bytes) {
    warning = "Could not compute kv_bytes_per_token from model config: " + bytes.error().message;
    return std::nullopt;
  }
  return *bytes;
}

/// What begins the errors of a file.
std::string FileName(const std::string& path) {
  return "--extra-engine-args " + path;
}

/// In the reference's words.
std::string ParseContext(const std::string& path, const EngineRelease& release) {
  return FileName(path) + (release.semantics == SemanticsRelease::k13
                               ? ": Failed to parse MockEngineArgs JSON"
                               : "");
}

Result<EngineInput> FromFile(const std::string& path, const EngineRelease& release) {
  const std::string name = FileName(path);
  auto json = ReadTextFile(path, kEngineArgsBytesMax);
  if (!json) {
    return FailWith(name, json.error());
  }
  const auto first = json->find_first_not_of(" \t\r\n");
  if (first != std::string::npos && (*json)[first] != '{') {
    return Fail(Errc::kInvalidConfig, name + ": extra engine args must be a JSON object");
  }
  auto input = EngineInput::OfJson(*json, release);
  if (!input) {
    return FailWith(ParseContext(path, release), input.error());
  }
  return input;
}

/// Of 1.3's engine, whose arguments have no such member.
Status SetMaxModelLen(const EngineFlags& flags, EngineArgs& args) {
  UNDERSTUDY_TRY(args.engine.max_model_len, CountOf("--max-model-len", flags.max_model_len));
  if (args.engine.max_model_len == 0U) {
    return Fail(Errc::kInvalidConfig, "--max-model-len must be at least 1, got 0");
  }
  if (args.engine.max_model_len && args.engine.engine_type == mocker::EngineType::kSglang) {
    return Fail(Errc::kInvalidConfig,
                "--max-model-len with --engine-type sglang needs the engine of release 1.6");
  }
  return {};
}

}  // namespace

Result<EngineInput> EngineInput::OfFlags(const EngineFlags& flags,
                                         const EngineRelease& release,
                                         const std::optional<std::string>& model) {
  if (release.semantics == SemanticsRelease::k13) {
    UNDERSTUDY_TRY(auto arguments, ArgumentsOf(flags, model));
    return EngineInput(std::move(arguments), true);
  }
  std::vector<std::string> warnings;
  UNDERSTUDY_TRY(auto config, ConfigOf(flags, model, warnings));
  EngineInput input(std::move(config), true);
  input.warnings_ = std::move(warnings);
  return input;
}

Result<EngineInput> EngineInput::OfJson(std::string_view json, const EngineRelease& release) {
  UNDERSTUDY_TRY_STATUS(CheckForm(json, release));
  if (release.semantics == SemanticsRelease::k13) {
    UNDERSTUDY_TRY(auto arguments, mocker::ReadEngineArguments(json));
    return EngineInput(std::move(arguments), false);
  }
  UNDERSTUDY_TRY(auto config, mocker::ReadEngineConfig(json));
  return EngineInput(std::move(config), false);
}

void EngineInput::SetWorkerType(mocker::WorkerType type) {
  if (auto* config = std::get_if<mocker::EngineConfig>(&arguments_)) {
    config->engine.worker_type = config->engine.worker_type.value_or(type);
    return;
  }
  auto& arguments = std::get<mocker::EngineArguments>(arguments_);
  if (!arguments.worker_type.given && !arguments.is_prefill.given && !arguments.is_decode.given) {
    arguments.worker_type = std::string(type == mocker::WorkerType::kPrefill  ? "prefill"
                                        : type == mocker::WorkerType::kDecode ? "decode"
                                                                              : "aggregated");
  }
}

void EngineInput::SetKvBytesPerToken(std::uint64_t bytes) {
  if (auto* config = std::get_if<mocker::EngineConfig>(&arguments_)) {
    config->engine.kv_transfer_bytes_per_token = bytes;
    if (of_flags_ && config->engine.native_host_offload) {
      config->engine.kv_cache_bytes_per_token = bytes;
    }
    return;
  }
  std::get<mocker::EngineArguments>(arguments_).kv_bytes_per_token = bytes;
}

Result<EngineArgs> EngineInput::Check() const {
  const auto* config = std::get_if<mocker::EngineConfig>(&arguments_);
  auto args = config != nullptr
                  ? mocker::MakeEngineArgs(*config)
                  : mocker::ValidateEngineArgs(std::get<mocker::EngineArguments>(arguments_));
  if (!args) {
    const Error& error = args.error();
    return Fail(error.code, of_flags_ ? WithFlag(error.message) : error.message);
  }
  args->warnings.insert(args->warnings.begin(), warnings_.begin(), warnings_.end());
  return args;
}

Status CheckPerfModel(const EngineArgs& args, const std::string& wanted_by) {
  if (args.aic.backend && args.engine.latency_model.empty()) {
    return Fail(Errc::kInvalidConfig,
                wanted_by + " '" + *args.aic.backend +
                    "': there is no AIC performance model here; give --latency-model, or leave it "
                    "out");
  }
  return {};
}

Result<EngineArgs> LoadEngineArgs(const EngineFlags& flags,
                                  const EngineRelease& release,
                                  const std::optional<std::string>& model) {
  const bool of_file = flags.extra_engine_args.has_value();
  const bool flat = release.semantics == SemanticsRelease::k13;
  std::string warning;
  UNDERSTUDY_TRY(const auto kv_bytes, KvBytes(flags, model, warning));
  UNDERSTUDY_TRY(auto input,
                 of_file ? FromFile(*flags.extra_engine_args, release)
                         : EngineInput::OfFlags(flags, release, model));
  if (kv_bytes) {
    input.SetKvBytesPerToken(*kv_bytes);
  }
  auto checked = input.Check();
  if (!checked && of_file) {
    return FailWith(ParseContext(*flags.extra_engine_args, release), checked.error());
  }
  UNDERSTUDY_TRY(EngineArgs args, std::move(checked));
  if (!warning.empty()) {
    args.warnings.push_back(warning);
  }
  if (flat) {
    UNDERSTUDY_TRY_STATUS(SetMaxModelLen(flags, args));
  }
  args.engine.latency_model = flags.latency_model.value_or(args.engine.latency_model);
  UNDERSTUDY_TRY_STATUS(CheckPerfModel(args,
                                       !of_file ? "--aic-perf-model"
                                       : flat   ? "aic_backend"
                                                : "engine.timing_model"));
  return args;
}

}  // namespace understudy::worker
