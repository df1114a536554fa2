// A folder of profiling results, turned into a planner profile.
#pragma once

#include "plugin/mocker/perf_model/interpolated_model.h"
#include "understudy/base/result.h"

#include <string>

namespace understudy::mocker {

/// Points along each axis of the profile that is made.
inline constexpr std::size_t kProfileResolution = 100;
/// The raw JSON files of a folder are a few kilobytes; the arrays in them are bound like those of
/// an .npz file.
inline constexpr std::size_t kRawJsonBytesMax = std::size_t{16} << 20U;

/// True when `path` is a folder with prefill and decode results, each as
/// `selected_{prefill,decode}_interpolation/raw_data.npz` or `{prefill,decode}_raw_data.json`.
[[nodiscard]] bool IsProfileResults(const std::string& path);

/// Fits a line through the prefill points and a plane in (batch, active tokens) through the decode
/// points, then samples both on kProfileResolution points an axis. Of a pair of files the .npz is
/// read. Errors: kMalformed with file, array and what is wrong; a slope that says "more work takes
/// less time" is refused, but the weak one of the decode's batch size becomes 0.
/// Source: convert_profile_results_to_npz of the Python package dynamo.mocker 1.3.0
/// (engine.md 5.3); golden vectors tests/vectors/engine/profile_results. Agrees to 1e-9 relative:
/// sums are taken in another order.
[[nodiscard]] Result<PlannerProfile> ConvertProfileResults(const std::string& folder);

}  // namespace understudy::mocker
