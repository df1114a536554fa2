// Numbers on a rectangular grid of one to three axes, and straight lines between them.
#pragma once

#include "understudy/base/result.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace understudy::mocker {

inline constexpr std::size_t kGridAxesMax = 3;
inline constexpr double kGridMsMax = 1e8;              ///< about 28 hours for one pass
inline constexpr double kGridTokensMax = 1ULL << 53U;  ///< whole numbers are exact up to here

/// Along which a grid is laid; `name` is for messages.
struct GridAxis {
  std::string name;
  std::vector<double> points;
};

/// How a grid's numbers are looked at before it is used.
enum class GridChecks : std::uint8_t {
  kAll,            ///< axes increase within 0..kGridTokensMax, values within 0..kGridMsMax
  kIncreasingOnly  ///< only that axes increase, as dynamo-mocker 1.3.0
};

/// Interpolates linearly along one axis after the other, the first axis first. Beyond an axis' ends
/// its first or last segment goes on. An axis of one point plays no part. Immutable, any thread;
/// looking up allocates nothing. Source: the order of operations is that of ndarray-interp 0.5
/// (Linear, Bilinear) as dynamo-mocker 1.3.0 uses it, so that results agree to the last bit.
class Grid {
 public:
  /// `values`: C order, the last axis runs fastest; `values_name` is for messages. Errors:
  /// kMalformed: name, index, value and what is allowed.
  [[nodiscard]] static Result<Grid> New(std::vector<GridAxis> axes,
                                        const std::string& values_name,
                                        std::vector<double> values,
                                        GridChecks checks);

  /// `point` has a coordinate per axis. May be negative or not a number: floors are the caller's.
  [[nodiscard]] double At(std::span<const double> point) const;

 private:
  using Index = std::array<std::size_t, kGridAxesMax>;

  Grid(std::vector<GridAxis> axes, std::vector<double> values);
  [[nodiscard]] double Reduce(std::size_t axes_left,
                              std::size_t offset,
                              std::span<const double> point,
                              const Index& lower) const;

  std::vector<std::vector<double>> axes_;
  Index strides_{};
  std::vector<double> values_;
};

}  // namespace understudy::mocker
