#include "plugin/mocker/perf_model/grid.h"

#include "plugin/mocker/perf_model/number_text.h"
#include "understudy/base/assert.h"

#include <algorithm>

namespace understudy::mocker {

namespace {

double OnLine(double x1, double y1, double x2, double y2, double x) {
  const double slope = (y2 - y1) / (x2 - x1);
  return slope * (x - x1) + y1;
}

/// The segment that `x` lies in, or the one at the end that `x` lies beyond.
std::size_t SegmentOf(const std::vector<double>& points, double x) {
  if (points.size() < 3) {
    return 0;
  }
  // Inner points only: what is left of the second belongs to the first segment.
  const auto above = std::upper_bound(points.begin() + 1, points.end() - 1, x);
  return static_cast<std::size_t>(above - points.begin()) - 1;
}

/// False for NaN.
bool IsWithin(double value, double max) {
  return value >= 0.0 && value <= max;
}

Status CheckAxis(const GridAxis& axis, GridChecks checks) {
  if (axis.points.empty()) {
    return Fail(Errc::kMalformed, axis.name + " has no point");
  }
  for (std::size_t i = 0; i < axis.points.size(); ++i) {
    const double value = axis.points[i];
    const std::string place = axis.name + "[" + std::to_string(i) + "] is " + NumberText(value);
    if (checks == GridChecks::kAll && !IsWithin(value, kGridTokensMax)) {
      return Fail(Errc::kMalformed, place + ", allowed is 0 to " + NumberText(kGridTokensMax));
    }
    if (i > 0 && !(axis.points[i - 1] < value)) {
      return Fail(Errc::kMalformed,
                  place + " after " + NumberText(axis.points[i - 1]) + ", it must increase");
    }
  }
  return {};
}

/// "[2][7]": where value number `at` stands.
std::string Place(const std::vector<GridAxis>& axes, std::size_t at) {
  std::string place;
  for (std::size_t i = axes.size(); i > 0; --i) {
    const std::size_t size = axes[i - 1].points.size();
    place.insert(0, "[" + std::to_string(at % size) + "]");
    at /= size;
  }
  return place;
}

}  // namespace

Result<Grid> Grid::New(std::vector<GridAxis> axes,
                       const std::string& values_name,
                       std::vector<double> values,
                       GridChecks checks) {
  UNDERSTUDY_ASSERT(!axes.empty() && axes.size() <= kGridAxesMax);
  std::size_t count = 1;
  for (const GridAxis& axis : axes) {
    UNDERSTUDY_TRY_STATUS(CheckAxis(axis, checks));
    count *= axis.points.size();
  }
  if (values.size() != count) {
    return Fail(Errc::kMalformed,
                values_name + " has " + std::to_string(values.size()) + " values, its axes need " +
                    std::to_string(count));
  }
  for (std::size_t i = 0; i < count && checks == GridChecks::kAll; ++i) {
    if (!IsWithin(values[i], kGridMsMax)) {
      return Fail(Errc::kMalformed,
                  values_name + Place(axes, i) + " is " + NumberText(values[i]) +
                      ", allowed is 0 to " + NumberText(kGridMsMax) + " ms");
    }
  }
  return Grid(std::move(axes), std::move(values));
}

Grid::Grid(std::vector<GridAxis> axes, std::vector<double> values) : values_(std::move(values)) {
  for (GridAxis& axis : axes) {
    axes_.push_back(std::move(axis.points));
  }
  std::size_t stride = 1;
  for (std::size_t i = axes_.size(); i > 0; --i) {
    strides_[i - 1] = stride;
    stride *= axes_[i - 1].size();
  }
}

double Grid::At(std::span<const double> point) const {
  UNDERSTUDY_ASSERT(point.size() == axes_.size());
  Index lower{};
  std::size_t offset = 0;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    lower[i] = SegmentOf(axes_[i], point[i]);
    offset += lower[i] * strides_[i];
  }
  return Reduce(axes_.size(), offset, point, lower);
}

/// The value at `point` of the first `axes_left` axes' part of the grid that begins at `offset`.
double Grid::Reduce(std::size_t axes_left,
                    std::size_t offset,
                    std::span<const double> point,
                    const Index& lower) const {
  if (axes_left == 0) {
    return values_[offset];
  }
  const std::size_t axis = axes_left - 1;
  const double below = Reduce(axis, offset, point, lower);
  if (axes_[axis].size() == 1) {
    return below;
  }
  const double above = Reduce(axis, offset + strides_[axis], point, lower);
  const double* segment = &axes_[axis][lower[axis]];
  return OnLine(segment[0], below, segment[1], above, point[axis]);
}

}  // namespace understudy::mocker
