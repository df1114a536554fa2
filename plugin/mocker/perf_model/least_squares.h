// A plane through points: ordinary least squares with two features.
#pragma once

#include <span>

namespace understudy::mocker {

/// y = coefficient[0] * x0 + coefficient[1] * x1 + intercept.
struct Plane {
  double coefficient[2] = {0.0, 0.0};
  double intercept = 0.0;
};

/// The plane with the least sum of squared errors; where several have it (points on one line), the
/// one with the smallest coefficients. Spans of equal, non-zero length. A feature that is constant
/// plays no part. Source: what LinearRegression of scikit-learn 1.7.2 gives, including its bound
/// below which a direction counts as none (singular value ratio: number of points * 2^-52).
[[nodiscard]] Plane FitPlane(std::span<const double> x0,
                             std::span<const double> x1,
                             std::span<const double> y);

}  // namespace understudy::mocker
