#include "plugin/mocker/perf_model/latency_table.h"

#include "plugin/mocker/perf_model/json_file.h"
#include "plugin/mocker/perf_model/npz.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace understudy::mocker {

namespace {

constexpr std::string_view kFormatName = "understudy-latency-table";
constexpr double kFormatVersion = 1.0;

struct PhaseTable {
  std::vector<GridAxis> axes;
  std::vector<double> ms;
};

using AxisNames = std::vector<std::string>;

const AxisNames& PrefillAxes() {
  static const AxisNames kNames = {"batch", "new_tokens", "prefix"};
  return kNames;
}

const AxisNames& DecodeAxes() {
  static const AxisNames kNames = {"batch", "context"};
  return kNames;
}

std::vector<std::size_t> ShapeOf(const std::vector<GridAxis>& axes) {
  std::vector<std::size_t> shape;
  shape.reserve(axes.size());
  for (const GridAxis& axis : axes) {
    shape.push_back(axis.points.size());
  }
  return shape;
}

Result<PhaseTable> FromJson(const JsonFile& file, const std::string& phase, const AxisNames& axes) {
  PhaseTable table;
  for (const std::string& axis : axes) {
    std::string name = phase;
    name.append(".").append(axis);
    UNDERSTUDY_TRY(std::vector<double> points, file.Numbers(name));
    table.axes.push_back({name, std::move(points)});
  }
  UNDERSTUDY_TRY(table.ms, file.Nested(phase + ".ms", ShapeOf(table.axes)));
  return table;
}

Status CheckFormat(const JsonFile& file) {
  UNDERSTUDY_TRY_STATUS(
      file.CheckMembers("", {"format", "version", "description", "prefill", "decode"}));
  UNDERSTUDY_TRY(const std::string format, file.Text("format"));
  UNDERSTUDY_TRY(const double version, file.Number("version"));
  if (format != kFormatName || version != kFormatVersion) {
    return Fail(
        Errc::kMalformed,
        file.path() + ": expected format \"" + std::string(kFormatName) + "\" and version 1");
  }
  UNDERSTUDY_TRY_STATUS(file.CheckMembers("prefill", {"batch", "new_tokens", "prefix", "ms"}));
  return file.CheckMembers("decode", {"batch", "context", "ms"});
}

Result<PhaseTable> FromNpz(const NpzFile& file, const std::string& phase, const AxisNames& axes) {
  PhaseTable table;
  for (const std::string& axis : axes) {
    std::string name = phase;
    name.append("_").append(axis);
    UNDERSTUDY_TRY(NpyArray array, file.Read(name));
    if (array.shape.size() != 1) {
      return Fail(Errc::kMalformed,
                  file.path() + ": array '" + name + "': shape " + ShapeText(array.shape) +
                      ", expected 1 dimension");
    }
    table.axes.push_back({name, std::move(array.values)});
  }
  UNDERSTUDY_TRY(NpyArray ms, file.Read(phase + "_ms"));
  if (ms.shape != ShapeOf(table.axes)) {
    return Fail(Errc::kMalformed,
                file.path() + ": array '" + phase + "_ms': shape " + ShapeText(ms.shape) +
                    ", its axes need " + ShapeText(ShapeOf(table.axes)));
  }
  table.ms = std::move(ms.values);
  return table;
}

struct Tables {
  PhaseTable prefill;
  PhaseTable decode;
  std::string ms_suffix;  ///< of the values' names in messages
};

Result<Tables> ReadTables(const std::string& path) {
  Tables tables;
  if (path.ends_with(".npz")) {
    UNDERSTUDY_TRY(const NpzFile file, NpzFile::Open(path));
    UNDERSTUDY_TRY(tables.prefill, FromNpz(file, "prefill", PrefillAxes()));
    UNDERSTUDY_TRY(tables.decode, FromNpz(file, "decode", DecodeAxes()));
    tables.ms_suffix = "_ms";
    return tables;
  }
  UNDERSTUDY_TRY(const JsonFile file, JsonFile::Open(path, kLatencyTableBytesMax));
  UNDERSTUDY_TRY_STATUS(CheckFormat(file));
  UNDERSTUDY_TRY(tables.prefill, FromJson(file, "prefill", PrefillAxes()));
  UNDERSTUDY_TRY(tables.decode, FromJson(file, "decode", DecodeAxes()));
  tables.ms_suffix = ".ms";
  return tables;
}

Result<Grid> MakeGrid(const std::string& path, PhaseTable table, const std::string& ms_name) {
  auto grid = Grid::New(std::move(table.axes), ms_name, std::move(table.ms), GridChecks::kAll);
  if (!grid) {
    return FailWith(path, grid.error());
  }
  return grid;
}

}  // namespace

LatencyTable::LatencyTable(Grid prefill, Grid decode)
    : prefill_(std::move(prefill)), decode_(std::move(decode)) {}

Result<std::unique_ptr<PerfModel>> LatencyTable::Load(const std::string& path) {
  UNDERSTUDY_TRY(Tables tables, ReadTables(path));
  UNDERSTUDY_TRY(Grid prefill,
                 MakeGrid(path, std::move(tables.prefill), "prefill" + tables.ms_suffix));
  UNDERSTUDY_TRY(Grid decode,
                 MakeGrid(path, std::move(tables.decode), "decode" + tables.ms_suffix));
  return std::unique_ptr<PerfModel>(new LatencyTable(std::move(prefill), std::move(decode)));
}

double LatencyTable::PrefillMs(const PrefillBatch& batch) const {
  const MeanPrefill mean = MeanOf(batch);
  if (mean.new_tokens == 0) {
    return 0.0;
  }
  const std::array point{static_cast<double>(mean.requests),
                         static_cast<double>(mean.new_tokens),
                         static_cast<double>(mean.cached_tokens)};
  return std::max(0.0, prefill_.At(point));
}

double LatencyTable::DecodeMs(const DecodeBatch& batch) const {
  if (batch.requests == 0) {
    return 0.0;
  }
  const std::array point{static_cast<double>(batch.requests),
                         static_cast<double>(batch.context_tokens)};
  return std::max(kDecodeMsMin, decode_.At(point));
}

}  // namespace understudy::mocker
