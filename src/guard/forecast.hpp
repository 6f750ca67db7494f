// SPDX-License-Identifier: Apache-2.0
// Where a memory curve is going. Theil-Sen (the median of all pairwise slopes) shrugs off a third
// of outliers, so a garbage collector's teeth or one validation pass do not make a leak.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "guard/evidence.hpp"

namespace surefit::guard {

// A curve of bounded size over unbounded time: when full, neighbours merge (the higher survives)
// and the spacing doubles.
class History {
 public:
  explicit History(std::size_t capacity = 512) : capacity_(capacity) {}
  void add(double time, std::uint64_t bytes);
  const std::vector<Point>& points() const { return points_; }
  double spacing() const { return spacing_; }

 private:
  std::size_t capacity_;
  double spacing_ = 0;
  std::vector<Point> points_;
};

struct Slope {
  double bytes_per_second = 0;
  double residual = 0;  // median absolute distance from the line, bytes
  double z = 0;         // Mann-Kendall: growth above 3 is no accident on independent noise
};
Slope theil_sen(std::span<const Point> points);

struct Forecast {
  double seconds = 0;  // until the headroom is gone
  double bytes_per_second = 0;
  double window_s = 0;
};
// Nothing unless growth is steady: significant, in both halves of the window, and well above the
// noise. The window is the longest recent one, of a few tried, in which that holds.
std::optional<Forecast> forecast(std::span<const Point> points, std::uint64_t headroom_bytes);

// Believes a forecast only when it holds for three looks in a row: a wave that looks like a leak
// for a moment, or one tooth of a collector, is not worth a line.
class SteadyForecast {
 public:
  std::optional<Forecast> look(const std::optional<Forecast>& now) {
    looks_ = now ? looks_ + 1 : 0;
    return looks_ >= 3 ? now : std::nullopt;
  }

 private:
  int looks_ = 0;
};

Curve classify(std::span<const Point> points);

}  // namespace surefit::guard
