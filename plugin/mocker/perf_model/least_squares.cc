#include "plugin/mocker/perf_model/least_squares.h"

#include "understudy/base/assert.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace understudy::mocker {

namespace {

constexpr int kSweepsMax = 16;  // a pair of columns is orthogonal after two or three

using Column = std::vector<double>;

double Dot(const Column& a, const Column& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

double Mean(std::span<const double> values) {
  double sum = 0.0;
  for (const double value : values) {
    sum += value;
  }
  return sum / static_cast<double>(values.size());
}

Column Centred(std::span<const double> values, double mean) {
  Column out(values.begin(), values.end());
  for (double& value : out) {
    value -= mean;
  }
  return out;
}

void Rotate(double& a, double& b, double cosine, double sine) {
  const double old = a;
  a = cosine * old - sine * b;
  b = sine * old + cosine * b;
}

/// The singular value decomposition of two columns by one-sided Jacobi rotations: afterwards the
/// columns are orthogonal, their lengths the singular values; `basis` holds the turned axes.
struct TurnedColumns {
  Column column[2];
  double basis[2][2] = {{1.0, 0.0}, {0.0, 1.0}};

  void MakeOrthogonal() {
    for (int sweep = 0; sweep < kSweepsMax; ++sweep) {
      const double aa = Dot(column[0], column[0]);
      const double bb = Dot(column[1], column[1]);
      const double ab = Dot(column[0], column[1]);
      if (std::abs(ab) <= std::numeric_limits<double>::epsilon() * std::sqrt(aa * bb)) {
        return;
      }
      const double zeta = (bb - aa) / (2.0 * ab);
      const double tangent = std::copysign(1.0, zeta) / (std::abs(zeta) + std::hypot(1.0, zeta));
      const double cosine = 1.0 / std::hypot(1.0, tangent);
      Turn(cosine, cosine * tangent);
    }
  }

 private:
  void Turn(double cosine, double sine) {
    for (std::size_t i = 0; i < column[0].size(); ++i) {
      Rotate(column[0][i], column[1][i], cosine, sine);
    }
    Rotate(basis[0][0], basis[1][0], cosine, sine);
    Rotate(basis[0][1], basis[1][1], cosine, sine);
  }
};

}  // namespace

Plane FitPlane(std::span<const double> x0, std::span<const double> x1, std::span<const double> y) {
  UNDERSTUDY_ASSERT(!y.empty() && x0.size() == y.size() && x1.size() == y.size());
  const double mean[2] = {Mean(x0), Mean(x1)};
  const double mean_y = Mean(y);
  const Column target = Centred(y, mean_y);
  TurnedColumns turned;
  turned.column[0] = Centred(x0, mean[0]);
  turned.column[1] = Centred(x1, mean[1]);
  turned.MakeOrthogonal();

  const double squares[2] = {Dot(turned.column[0], turned.column[0]),
                             Dot(turned.column[1], turned.column[1])};
  const double bound = static_cast<double>(std::max(y.size(), std::size_t{2})) *
                       std::numeric_limits<double>::epsilon();
  const double least = bound * std::sqrt(std::max(squares[0], squares[1]));
  Plane plane;
  for (std::size_t k = 0; k < 2; ++k) {
    if (std::sqrt(squares[k]) > least) {
      const double along = Dot(turned.column[k], target) / squares[k];
      plane.coefficient[0] += along * turned.basis[k][0];
      plane.coefficient[1] += along * turned.basis[k][1];
    }
  }
  plane.intercept = mean_y - plane.coefficient[0] * mean[0] - plane.coefficient[1] * mean[1];
  return plane;
}

}  // namespace understudy::mocker
