// Timing from a table that a user made: docs/latency-models.md describes the files.
#pragma once

#include "plugin/mocker/perf_model/grid.h"
#include "plugin/mocker/perf_model/timing.h"
#include "understudy/base/result.h"

#include <cstddef>
#include <memory>
#include <string>

namespace understudy::mocker {

/// Of a JSON table: about a million values.
inline constexpr std::size_t kLatencyTableBytesMax = std::size_t{32} << 20U;

/// Prefill over (batch, new tokens of a request, its cached prefix), decode over (batch, mean
/// context): the calls that an AIConfigurator session answers (engine.md 5.4). Interpolates along
/// every axis; beyond an axis' ends its first or last segment goes on.
class LatencyTable final : public PerfModel {
 public:
  /// Reads `path`: a table in JSON, or an .npz with the same arrays, told by the name's end.
  /// Errors: kMalformed, one line with file, array, index, value and what is allowed.
  [[nodiscard]] static Result<std::unique_ptr<PerfModel>> Load(const std::string& path);

  [[nodiscard]] double PrefillMs(const PrefillBatch& batch) const override;
  [[nodiscard]] double DecodeMs(const DecodeBatch& batch) const override;

 private:
  LatencyTable(Grid prefill, Grid decode);

  Grid prefill_;
  Grid decode_;
};

}  // namespace understudy::mocker
