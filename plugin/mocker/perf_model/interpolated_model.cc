#include "plugin/mocker/perf_model/interpolated_model.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace understudy::mocker {

namespace {

constexpr std::size_t kPointsMin = 2;

Status CheckLengths(const PlannerProfile& profile) {
  if (profile.prefill_isl.size() != profile.prefill_ttft_ms.size()) {
    return Fail(Errc::kMalformed,
                "Prefill array length mismatch: isl=" + std::to_string(profile.prefill_isl.size()) +
                    ", ttft=" + std::to_string(profile.prefill_ttft_ms.size()));
  }
  const std::size_t active = profile.decode_active_kv_tokens.size();
  const std::size_t context = profile.decode_context_length.size();
  if (profile.decode_itl_rows != active || profile.decode_itl_columns != context) {
    return Fail(
        Errc::kMalformed,
        "Decode array dimension mismatch: itl shape=(" + std::to_string(profile.decode_itl_rows) +
            ", " + std::to_string(profile.decode_itl_columns) +
            "), active_kv=" + std::to_string(active) + ", context=" + std::to_string(context));
  }
  return {};
}

Status CheckPoints(const GridAxis& axis) {
  if (axis.points.size() < kPointsMin) {
    return Fail(Errc::kMalformed,
                axis.name + " has " + std::to_string(axis.points.size()) +
                    " points, at least 2 are needed");
  }
  return {};
}

/// Reads one array and checks how many dimensions it has.
Result<NpyArray> Array(const NpzFile& file,
                       const std::string& name,
                       std::size_t dimensions,
                       InterpolatedModel::Mode mode) {
  UNDERSTUDY_TRY(NpyArray array, file.Read(name));
  const std::string place = file.path() + ": array '" + name + "': ";
  if (array.shape.size() != dimensions) {
    return Fail(Errc::kMalformed,
                place + "shape " + ShapeText(array.shape) + ", expected " +
                    std::to_string(dimensions) + (dimensions == 1 ? " dimension" : " dimensions"));
  }
  if (mode == InterpolatedModel::Mode::kReference && array.dtype != "<f8") {
    return Fail(Errc::kUnsupported,
                place + "type '" + array.dtype + "', the reference reads '<f8' only");
  }
  return array;
}

Result<PlannerProfile> ReadProfile(const NpzFile& file, InterpolatedModel::Mode mode) {
  PlannerProfile profile;
  const std::array<std::pair<const char*, std::vector<double>*>, 4> rows{
      {{"prefill_isl", &profile.prefill_isl},
       {"prefill_ttft_ms", &profile.prefill_ttft_ms},
       {"decode_active_kv_tokens", &profile.decode_active_kv_tokens},
       {"decode_context_length", &profile.decode_context_length}}};
  for (const auto& [name, values] : rows) {
    UNDERSTUDY_TRY(NpyArray array, Array(file, name, 1, mode));
    *values = std::move(array.values);
  }
  UNDERSTUDY_TRY(NpyArray itl, Array(file, "decode_itl", 2, mode));
  profile.decode_itl_rows = itl.shape[0];
  profile.decode_itl_columns = itl.shape[1];
  profile.decode_itl = std::move(itl.values);
  return profile;
}

}  // namespace

InterpolatedModel::InterpolatedModel(Grid prefill, Grid decode)
    : prefill_(std::move(prefill)), decode_(std::move(decode)) {}

Result<std::unique_ptr<PerfModel>> InterpolatedModel::New(PlannerProfile profile, Mode mode) {
  UNDERSTUDY_TRY_STATUS(CheckLengths(profile));
  const GridChecks checks =
      mode == Mode::kReference ? GridChecks::kIncreasingOnly : GridChecks::kAll;
  std::vector<GridAxis> prefill_axes{{"prefill_isl", std::move(profile.prefill_isl)}};
  std::vector<GridAxis> decode_axes{
      {"decode_active_kv_tokens", std::move(profile.decode_active_kv_tokens)},
      {"decode_context_length", std::move(profile.decode_context_length)}};
  for (const auto* axes : {&prefill_axes, &decode_axes}) {
    for (const GridAxis& axis : *axes) {
      UNDERSTUDY_TRY_STATUS(CheckPoints(axis));
    }
  }
  UNDERSTUDY_TRY(
      Grid prefill,
      Grid::New(
          std::move(prefill_axes), "prefill_ttft_ms", std::move(profile.prefill_ttft_ms), checks));
  UNDERSTUDY_TRY(
      Grid decode,
      Grid::New(std::move(decode_axes), "decode_itl", std::move(profile.decode_itl), checks));
  return std::unique_ptr<PerfModel>(new InterpolatedModel(std::move(prefill), std::move(decode)));
}

Result<std::unique_ptr<PerfModel>> InterpolatedModel::FromNpz(const NpzFile& file, Mode mode) {
  UNDERSTUDY_TRY(PlannerProfile profile, ReadProfile(file, mode));
  auto model = New(std::move(profile), mode);
  if (!model) {
    return FailWith(file.path(), model.error());
  }
  return model;
}

double InterpolatedModel::PrefillMs(const PrefillBatch& batch) const {
  const MeanPrefill mean = MeanOf(batch);
  if (mean.new_tokens == 0) {
    return 0.0;
  }
  const auto tokens = static_cast<double>(mean.requests * mean.new_tokens);
  // The floor comes first: it also takes the place of what is not a number.
  return std::max(0.0, prefill_.At(std::array{tokens}));
}

double InterpolatedModel::DecodeMs(const DecodeBatch& batch) const {
  if (batch.requests == 0) {
    return 0.0;
  }
  const std::array point{static_cast<double>(batch.active_tokens),
                         static_cast<double>(batch.context_tokens)};
  return std::max(kDecodeMsMin, decode_.At(point));
}

}  // namespace understudy::mocker
