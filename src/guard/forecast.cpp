// SPDX-License-Identifier: Apache-2.0
#include "guard/forecast.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace surefit::guard {
namespace {

double median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// At most `count` points, evenly taken: slopes are quadratic in their number.
std::vector<Point> thinned(std::span<const Point> points, std::size_t count) {
  std::vector<Point> result;
  if (points.empty()) return result;
  const std::size_t taken = std::min(points.size(), count);
  for (std::size_t i = 0; i < taken; ++i) {
    result.push_back(points[taken == 1 ? 0 : i * (points.size() - 1) / (taken - 1)]);
  }
  return result;
}

double bytes(const Point& point) {
  return static_cast<double>(point.bytes);
}

// A leak walks into new territory; a wave comes back to where it was.
bool above_all_before(std::span<const Point> before, std::span<const Point> window) {
  const auto lower = [](const Point& a, const Point& b) { return a.bytes < b.bytes; };
  if (before.empty()) return true;
  const auto highest = std::max_element(before.begin(), before.end(), lower);
  const auto latest = window.last(std::max<std::size_t>(1, window.size() / 4));
  const auto lowest = std::min_element(latest.begin(), latest.end(), lower);
  return lowest->bytes > highest->bytes;
}

}  // namespace

void History::add(double time, std::uint64_t value) {
  if (!points_.empty() && time - points_.back().time < spacing_ * 0.999) {
    points_.back().bytes = std::max(points_.back().bytes, value);
    return;
  }
  if (points_.size() == capacity_) {
    for (std::size_t i = 0; i < capacity_ / 2; ++i) {
      const Point& a = points_[2 * i];
      const Point& b = points_[2 * i + 1];
      points_[i] = {b.time, std::max(a.bytes, b.bytes)};
    }
    points_.resize(capacity_ / 2);
    spacing_ = 2 * (points_.back().time - points_.front().time) /
               static_cast<double>(2 * points_.size() - 1);
  }
  points_.push_back({time, value});
}

Slope theil_sen(std::span<const Point> all) {
  Slope result;
  const std::vector<Point> points = thinned(all, 80);
  const std::size_t n = points.size();
  if (n < 3) return result;
  static thread_local std::vector<double> slopes;
  slopes.clear();
  double s = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      const double dt = points[j].time - points[i].time;
      if (dt <= 0) continue;
      const double dy = bytes(points[j]) - bytes(points[i]);
      slopes.push_back(dy / dt);
      s += dy > 0 ? 1 : dy < 0 ? -1 : 0;
    }
  }
  result.bytes_per_second = median(slopes);
  const double count = static_cast<double>(n);
  result.z = s / std::sqrt(count * (count - 1) * (2 * count + 5) / 18);
  std::vector<double> offsets, distances;
  for (const Point& p : points) offsets.push_back(bytes(p) - result.bytes_per_second * p.time);
  std::vector<double> copy = offsets;
  const double offset = median(copy);
  for (const double value : offsets) distances.push_back(std::abs(value - offset));
  result.residual = median(distances);
  return result;
}

std::optional<Forecast> forecast(std::span<const Point> points, std::uint64_t headroom_bytes) {
  constexpr std::size_t kLeastPoints = 16;
  constexpr double kLeastSeconds = 3;
  constexpr double kLeastGrowth = 8.0 * (1 << 20);
  if (headroom_bytes == kNoLimit || points.size() < kLeastPoints) return std::nullopt;
  for (const std::size_t part : {1, 2, 4}) {
    const std::span<const Point> window = points.last(points.size() / part);
    if (window.size() < kLeastPoints) break;
    const double seconds = window.back().time - window.front().time;
    if (seconds < kLeastSeconds) break;
    const Slope whole = theil_sen(window);
    const double growth = whole.bytes_per_second * seconds;
    // Twelve times the noise: with correlated noise (a slow wave) the Mann-Kendall figure alone
    // cries wolf.
    if (whole.z < 5 || growth < std::max(kLeastGrowth, 12 * whole.residual)) continue;
    if (!above_all_before(points.first(points.size() - window.size()), window)) continue;
    const Slope first = theil_sen(window.first(window.size() / 2));
    const Slope second = theil_sen(window.last(window.size() / 2));
    const bool steady = first.bytes_per_second > 0.4 * whole.bytes_per_second &&
                        second.bytes_per_second > 0.4 * whole.bytes_per_second;
    if (!steady) continue;
    return Forecast{static_cast<double>(headroom_bytes) / whole.bytes_per_second,
                    whole.bytes_per_second, seconds};
  }
  return std::nullopt;
}

Curve classify(std::span<const Point> all) {
  Curve curve;
  if (all.size() < 12) return curve;
  const std::vector<Point> points = thinned(all, 240);
  const std::size_t n = points.size();
  curve.seconds = points.back().time - points.front().time;
  const auto [low, high] =
      std::minmax_element(points.begin(), points.end(),
                          [](const Point& a, const Point& b) { return a.bytes < b.bytes; });
  const double range = bytes(*high) - bytes(*low);
  // The first tenth is start-up (imports, weights): growth there is no leak.
  const std::span<const Point> settled = std::span(points).subspan(n / 10);
  const Slope slope = theil_sen(settled);
  const double settled_s = settled.back().time - settled.front().time;
  curve.bytes_per_second = slope.bytes_per_second;
  curve.grown_bytes = slope.bytes_per_second * settled_s;
  if (range < 0.05 * bytes(*high) || range < 4.0 * (1 << 20)) {
    curve.shape = Shape::kFlat;
    return curve;
  }
  double up = 0, down = 0, largest_up = 0;
  int jumps = 0;
  int still = 0;
  for (std::size_t i = 1; i < settled.size(); ++i) {
    const double change = bytes(settled[i]) - bytes(settled[i - 1]);
    (change > 0 ? up : down) += std::abs(change);
    largest_up = std::max(largest_up, change);
    if (std::abs(change) < 0.01 * range) ++still;
    const double before = i >= 2 ? bytes(settled[i - 1]) - bytes(settled[i - 2]) : 0;
    if (change > 0.04 * range && before < 0.01 * range) ++jumps;
  }
  const double count = static_cast<double>(settled.size() - 1);
  const double rise = bytes(settled.back()) - bytes(settled.front());
  if (up > 0 && largest_up > 0.6 * range && static_cast<double>(still) > 0.6 * count) {
    curve.shape = Shape::kSpike;
  } else if (rise > 0.5 * range && down < 0.15 * up && jumps >= 3 &&
             static_cast<double>(still) > 0.5 * count) {
    curve.shape = Shape::kStaircase;
    curve.steps = jumps;
  } else if (slope.z > 5 && rise > 0.5 * range && down < 0.3 * up &&
             curve.grown_bytes > 6 * slope.residual) {
    curve.shape = Shape::kLinear;
  } else if (down > 0.4 * up && up > 2 * range) {
    curve.shape = Shape::kSawtooth;
  } else if (slope.z < 3 || curve.grown_bytes < 0.1 * bytes(*high)) {
    curve.shape = Shape::kFlat;
  }
  return curve;
}

}  // namespace surefit::guard
