#include "plugin/mocker/perf_model/load.h"

#include "plugin/mocker/perf_model/fixed_model.h"
#include "plugin/mocker/perf_model/interpolated_model.h"
#include "plugin/mocker/perf_model/latency_plugin.h"
#include "plugin/mocker/perf_model/latency_table.h"
#include "plugin/mocker/perf_model/npz.h"
#include "plugin/mocker/perf_model/profile_results.h"

#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

namespace understudy::mocker {

namespace {

using Model = Result<std::unique_ptr<PerfModel>>;

constexpr std::string_view kPluginEnd = ".so";
constexpr std::string_view kPluginWithConfig = ".so:";

Model LoadLatencyModel(const std::string& text) {
  if (text.starts_with(FixedModel::kPrefix)) {
    return FixedModel::Parse(text);
  }
  if (const std::size_t end = text.find(kPluginWithConfig); end != std::string::npos) {
    return LoadLatencyPlugin(text.substr(0, end + kPluginEnd.size()),
                             std::string_view(text).substr(end + kPluginWithConfig.size()));
  }
  if (text.ends_with(kPluginEnd)) {
    return LoadLatencyPlugin(text, "");
  }
  if (text.ends_with(".json") || text.ends_with(".npz")) {
    return LatencyTable::Load(text);
  }
  return Fail(Errc::kInvalidConfig,
              text +
                  ": expected a table (.json, .npz), a plugin (.so, .so:CONFIG) or "
                  "fixed:PREFILL_MS,DECODE_MS");
}

Model LoadProfileResults(const std::string& folder) {
  UNDERSTUDY_TRY(PlannerProfile profile, ConvertProfileResults(folder));
  auto model = InterpolatedModel::New(std::move(profile), InterpolatedModel::Mode::kOurs);
  if (!model) {
    return FailWith(folder, model.error());
  }
  return model;
}

Model LoadProfileNpz(const std::string& path, InterpolatedModel::Mode mode) {
  std::error_code error;
  if (!std::filesystem::exists(path, error) || std::filesystem::is_directory(path, error)) {
    return Fail(Errc::kInvalidConfig,
                "Path '" + path +
                    "' is neither a mocker-format NPZ file nor a valid profiler results directory: "
                    "expected an .npz with prefill_isl, prefill_ttft_ms, decode_active_kv_tokens, "
                    "decode_context_length and decode_itl, or a folder with "
                    "selected_prefill_interpolation/raw_data.npz and "
                    "selected_decode_interpolation/raw_data.npz, or with prefill_raw_data.json and "
                    "decode_raw_data.json");
  }
  UNDERSTUDY_TRY(const NpzFile file, NpzFile::Open(path));
  return InterpolatedModel::FromNpz(file, mode);
}

tl::unexpected<Error> BadOption(const char* option, const Error& error) {
  return Fail(Errc::kInvalidConfig, std::string(option) + ": " + error.message);
}

Result<LoadedPerfModel> LoadProfile(const MockerOptions& options) {
  constexpr const char* kOption = "planner_profile_data";
  const std::string& path = options.planner_profile_data;
  const bool is_folder = IsProfileResults(path);
  auto model = is_folder
                   ? LoadProfileResults(path)
                   : LoadProfileNpz(path,
                                    options.strict_reference ? InterpolatedModel::Mode::kReference
                                                             : InterpolatedModel::Mode::kOurs);
  LoadedPerfModel loaded;
  if (model) {
    loaded.model = std::move(*model);
    return loaded;
  }
  const bool falls_back = options.strict_reference && options.semantics == SemanticsRelease::k13;
  if (is_folder || !falls_back) {
    return BadOption(kOption, model.error());
  }
  loaded.model = std::make_unique<PolynomialModel>();
  loaded.warnings.push_back("Failed to load performance model: " + model.error().message +
                            ". Falling back to polynomial model.");
  return loaded;
}

}  // namespace

Result<LoadedPerfModel> LoadPerfModel(const MockerOptions& options) {
  LoadedPerfModel loaded;
  if (options.latency_model.empty() && options.planner_profile_data.empty()) {
    loaded.model = std::make_unique<PolynomialModel>();
    return loaded;
  }
  if (options.latency_model.empty()) {
    return LoadProfile(options);
  }
  auto model = LoadLatencyModel(options.latency_model);
  if (!model) {
    return BadOption("latency_model", model.error());
  }
  loaded.model = std::move(*model);
  if (!options.planner_profile_data.empty()) {
    loaded.warnings.emplace_back("planner_profile_data is ignored: latency_model takes precedence");
  }
  return loaded;
}

}  // namespace understudy::mocker
