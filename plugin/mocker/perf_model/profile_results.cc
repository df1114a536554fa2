#include "plugin/mocker/perf_model/profile_results.h"

#include "plugin/mocker/perf_model/json_file.h"
#include "plugin/mocker/perf_model/least_squares.h"
#include "plugin/mocker/perf_model/number_text.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace understudy::mocker {

namespace {

namespace fs = std::filesystem;

constexpr double kMsPerSecond = 1000.0;
/// No fitted time is shorter, in seconds.
constexpr double kFittedSecondsMin = 1e-6;
/// A batch-size slope below zero by no more than this is kept as it is; a larger one becomes 0.
constexpr double kWeakSlopeTolerance = 1e-6;

/// Share of the pool's tokens; a profiler may measure a little beyond 1.
constexpr double kUsageMax = 10.0;

/// Where a folder keeps the results of one phase.
struct Phase {
  std::string_view name;
  std::string_view npz;
  std::string_view json;
};
constexpr Phase kPrefill{
    "prefill", "selected_prefill_interpolation/raw_data.npz", "prefill_raw_data.json"};
constexpr Phase kDecode{
    "decode", "selected_decode_interpolation/raw_data.npz", "decode_raw_data.json"};

/// The raw file of a phase, of either kind.
class RawFile {
 public:
  static Result<RawFile> Open(const fs::path& folder, const Phase& phase) {
    RawFile raw;
    std::error_code error;
    if (const fs::path path = folder / phase.npz; fs::exists(path, error)) {
      UNDERSTUDY_TRY(raw.npz_, NpzFile::Open(path.string()));
    } else {
      UNDERSTUDY_TRY(raw.json_, JsonFile::Open((folder / phase.json).string(), kRawJsonBytesMax));
    }
    return raw;
  }

  [[nodiscard]] const std::string& path() const { return npz_ ? npz_->path() : json_->path(); }

  [[nodiscard]] Result<std::vector<double>> Row(const std::string& name) const {
    if (json_) {
      return json_->Numbers(name);
    }
    UNDERSTUDY_TRY(NpyArray array, npz_->Read(name));
    if (array.shape.size() != 1) {
      return Fail(Errc::kMalformed,
                  path() + ": array '" + name + "': shape " + ShapeText(array.shape) +
                      ", expected 1 dimension");
    }
    return std::move(array.values);
  }

  /// A number, which an .npz holds as an array of one.
  [[nodiscard]] Result<double> Single(const std::string& name) const {
    if (json_) {
      return json_->Number(name);
    }
    UNDERSTUDY_TRY(const std::vector<double> row, Row(name));
    if (row.empty()) {
      return Fail(Errc::kMalformed, path() + ": array '" + name + "' is empty");
    }
    return row[0];
  }

 private:
  std::optional<NpzFile> npz_;
  std::optional<JsonFile> json_;
};

/// A row of the raw data, checked: numbers from 0 to `max`.
Result<std::vector<double>> CheckedRow(const RawFile& raw, const std::string& name, double max) {
  UNDERSTUDY_TRY(std::vector<double> row, raw.Row(name));
  if (row.empty()) {
    return Fail(Errc::kMalformed, raw.path() + ": " + name + " has no point");
  }
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (!(row[i] >= 0.0 && row[i] <= max)) {
      return Fail(Errc::kMalformed,
                  raw.path() + ": " + name + "[" + std::to_string(i) + "] is " +
                      NumberText(row[i]) + ", allowed is 0 to " + NumberText(max));
    }
  }
  return row;
}

Status CheckSameLength(const RawFile& raw,
                       const std::string& name,
                       const std::vector<double>& row,
                       std::size_t wanted) {
  if (row.size() == wanted) {
    return {};
  }
  return Fail(Errc::kMalformed,
              raw.path() + ": " + name + " has " + std::to_string(row.size()) +
                  " points, the first array has " + std::to_string(wanted));
}

/// Measured points in the features that a plane is fitted in. Points without a time are no
/// measurement.
struct Samples {
  std::vector<double> first;
  std::vector<double> second;
  std::vector<double> seconds;

  void Add(double a, double b, double ms) {
    if (ms != 0.0) {
      first.push_back(a);
      second.push_back(b);
      seconds.push_back(ms / kMsPerSecond);
    }
  }
};

tl::unexpected<Error> BadFit(const RawFile& raw, const Phase& phase, const std::string& why) {
  return Fail(Errc::kMalformed,
              raw.path() + ": Failed to fit " + std::string(phase.name) +
                  " regression from profiling data: " + why);
}

double FittedMs(const Plane& plane, double first, double second) {
  const double seconds =
      plane.coefficient[0] * first + plane.coefficient[1] * second + plane.intercept;
  return std::max(kFittedSecondsMin, seconds) * kMsPerSecond;
}

/// `count` points from `begin` to `end`, placed as NumPy's linspace places them.
std::vector<double> EvenPoints(double begin, double end, std::size_t count) {
  std::vector<double> points(count);
  const double step = (end - begin) / static_cast<double>(count - 1);
  for (std::size_t i = 0; i < count; ++i) {
    points[i] = static_cast<double>(i) * step + begin;
  }
  points.back() = end;
  return points;
}

Status AddPrefill(const fs::path& folder, PlannerProfile& profile) {
  UNDERSTUDY_TRY(const RawFile raw, RawFile::Open(folder, kPrefill));
  UNDERSTUDY_TRY(std::vector<double> isl, CheckedRow(raw, "prefill_isl", kGridTokensMax));
  UNDERSTUDY_TRY(const std::vector<double> ttft, CheckedRow(raw, "prefill_ttft", kGridMsMax));
  UNDERSTUDY_TRY_STATUS(CheckSameLength(raw, "prefill_ttft", ttft, isl.size()));
  Samples samples;
  for (std::size_t i = 0; i < isl.size(); ++i) {
    isl[i] = std::trunc(isl[i]);
    samples.Add(isl[i], 0.0, ttft[i]);
  }
  if (samples.seconds.empty()) {
    return BadFit(raw, kPrefill, "every time in prefill_ttft is 0");
  }
  const Plane line = FitPlane(samples.first, samples.second, samples.seconds);
  if (line.coefficient[0] < 0.0) {
    return BadFit(raw, kPrefill, "prefill_ttft falls as prefill_isl grows");
  }
  const auto [least, most] = std::minmax_element(isl.begin(), isl.end());
  profile.prefill_isl = EvenPoints(*least, *most, kProfileResolution);
  for (const double tokens : profile.prefill_isl) {
    profile.prefill_ttft_ms.push_back(FittedMs(line, tokens, 0.0));
  }
  return {};
}

/// What a decode measurement was taken at.
struct DecodePoint {
  double batch = 1.0;
  double tokens = 0.0;  ///< of the whole batch
};

/// Halves go to the even neighbour, as Python rounds.
DecodePoint PointOf(double usage, double tokens_max, double context) {
  DecodePoint point;
  point.tokens = std::nearbyint(usage * tokens_max);
  if (context > 0.0) {
    point.batch = std::max(1.0, std::nearbyint(point.tokens / context));
  }
  return point;
}

Result<Plane> FitDecode(const RawFile& raw, const Samples& samples) {
  if (samples.seconds.empty()) {
    return BadFit(raw, kDecode, "every time in z_itl is 0");
  }
  Plane plane = FitPlane(samples.first, samples.second, samples.seconds);
  if (plane.coefficient[1] < 0.0) {
    return BadFit(raw, kDecode, "z_itl falls as the number of active tokens grows");
  }
  if (plane.coefficient[0] < -kWeakSlopeTolerance) {
    plane.coefficient[0] = 0.0;
  }
  return plane;
}

void SampleDecode(const Plane& plane, double tokens_max, double context_max, PlannerProfile& out) {
  out.decode_active_kv_tokens = EvenPoints(0.0, tokens_max, kProfileResolution);
  out.decode_context_length = EvenPoints(1.0, context_max, kProfileResolution);
  out.decode_itl_rows = kProfileResolution;
  out.decode_itl_columns = kProfileResolution;
  for (const double tokens : out.decode_active_kv_tokens) {
    for (const double context : out.decode_context_length) {
      const double batch = context > 0.0 ? std::max(1.0, tokens / context) : 1.0;
      out.decode_itl.push_back(FittedMs(plane, batch, tokens));
    }
  }
}

Status AddDecode(const fs::path& folder, PlannerProfile& profile) {
  UNDERSTUDY_TRY(const RawFile raw, RawFile::Open(folder, kDecode));
  UNDERSTUDY_TRY(const std::vector<double> usage, CheckedRow(raw, "x_kv_usage", kUsageMax));
  UNDERSTUDY_TRY(const std::vector<double> context,
                 CheckedRow(raw, "y_context_length", kGridTokensMax));
  UNDERSTUDY_TRY(const std::vector<double> itl, CheckedRow(raw, "z_itl", kGridMsMax));
  UNDERSTUDY_TRY_STATUS(CheckSameLength(raw, "y_context_length", context, usage.size()));
  UNDERSTUDY_TRY_STATUS(CheckSameLength(raw, "z_itl", itl, usage.size()));
  UNDERSTUDY_TRY(double pool, raw.Single("max_kv_tokens"));
  if (!(pool >= 1.0 && pool <= kGridTokensMax)) {
    return Fail(Errc::kMalformed,
                raw.path() + ": max_kv_tokens is " + NumberText(pool) + ", allowed is 1 to " +
                    NumberText(kGridTokensMax));
  }
  pool = std::trunc(pool);
  Samples samples;
  double tokens_max = 0.0;
  double context_max = 0.0;
  for (std::size_t i = 0; i < usage.size(); ++i) {
    const DecodePoint point = PointOf(usage[i], pool, context[i]);
    samples.Add(point.batch, point.tokens, itl[i]);
    tokens_max = std::max(tokens_max, point.tokens);
    context_max = std::max(context_max, point.tokens / point.batch);
  }
  UNDERSTUDY_TRY(const Plane plane, FitDecode(raw, samples));
  SampleDecode(plane, tokens_max, context_max, profile);
  return {};
}

bool HasPhase(const fs::path& folder, const Phase& phase) {
  std::error_code error;
  return fs::exists(folder / phase.npz, error) || fs::exists(folder / phase.json, error);
}

}  // namespace

bool IsProfileResults(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error) && HasPhase(path, kPrefill) && HasPhase(path, kDecode);
}

Result<PlannerProfile> ConvertProfileResults(const std::string& folder) {
  PlannerProfile profile;
  UNDERSTUDY_TRY_STATUS(AddPrefill(folder, profile));
  UNDERSTUDY_TRY_STATUS(AddDecode(folder, profile));
  return profile;
}

}  // namespace understudy::mocker
