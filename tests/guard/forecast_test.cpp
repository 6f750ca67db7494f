// SPDX-License-Identifier: Apache-2.0
#include "guard/forecast.hpp"

#include <cmath>
#include <cstdio>

#include <gtest/gtest.h>

#include "base/philox.hpp"

namespace surefit::guard {
namespace {

constexpr double kMiB = 1 << 20;

class Noise {
 public:
  explicit Noise(std::uint64_t seed) : philox_(seed, Purpose::kTest, 0, 0, 0) {}
  double normal() {  // sum of twelve uniforms
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(philox_.uniform(at_++));
    return sum;
  }
  double uniform() { return static_cast<double>(philox_.uniform(at_++)); }

 private:
  Philox philox_;
  std::uint64_t at_ = 0;
};

std::uint64_t bytes(double value) {
  return static_cast<std::uint64_t>(std::max(0.0, value));
}

TEST(Forecast, LineWithinAFewPercent) {
  History history;
  Noise noise(1);
  for (int i = 0; i < 200; ++i)
    history.add(i * 0.25, bytes(100 * kMiB + 3 * kMiB * i * 0.25 + 2 * kMiB * noise.normal()));
  const auto coming = forecast(history.points(), bytes(300 * kMiB));
  ASSERT_TRUE(coming.has_value());
  EXPECT_NEAR(coming->seconds, 100, 5);
}

TEST(Forecast, OutliersDoNotMatter) {
  History history;
  Noise noise(2);
  for (int i = 0; i < 200; ++i) {
    const double spike = noise.uniform() < 0.15 ? 400 * kMiB : 0;
    history.add(i * 0.25, bytes(100 * kMiB + 2 * kMiB * i * 0.25 + spike));
  }
  const auto coming = forecast(history.points(), bytes(200 * kMiB));
  ASSERT_TRUE(coming.has_value());
  EXPECT_NEAR(coming->seconds, 100, 12);
}

// One look a second over ten minutes, as the guard does; an alarm is any forecast the guard would
// tell.
double false_alarm_rate(const char* name, int runs,
                        double (*curve)(double time, Noise& noise, double& state)) {
  int alarmed_runs = 0;
  long looks = 0, alarms = 0;
  for (int run = 0; run < runs; ++run) {
    History history;
    Noise noise(static_cast<std::uint64_t>(run) + 1000);
    double state = 0;
    SteadyForecast steady;
    bool alarmed = false;
    for (int i = 0; i < 2400; ++i) {
      history.add(i * 0.25, bytes(curve(i * 0.25, noise, state)));
      if (i % 4 != 3) continue;
      ++looks;
      if (steady.look(forecast(history.points(), bytes(500 * kMiB)))) {
        ++alarms;
        alarmed = true;
      }
    }
    alarmed_runs += alarmed ? 1 : 0;
  }
  std::printf("false alarms on %-28s %d of %d runs, %.4f %% of looks\n", name, alarmed_runs, runs,
              100.0 * static_cast<double>(alarms) / static_cast<double>(looks));
  return static_cast<double>(alarmed_runs) / runs;
}

TEST(Forecast, FalseAlarmsOnFlatCurves) {
  EXPECT_EQ(false_alarm_rate(
                "white noise of 20 MiB", 8,
                [](double, Noise& n, double&) { return 500 * kMiB + 20 * kMiB * n.normal(); }),
            0);
  EXPECT_EQ(false_alarm_rate("sawtooth of a collector", 8,
                             [](double t, Noise& n, double&) {
                               return 500 * kMiB + 60 * kMiB * std::fmod(t / 3, 1.0) +
                                      3 * kMiB * n.normal();
                             }),
            0);
  EXPECT_EQ(false_alarm_rate("validation plateaus", 8,
                             [](double t, Noise& n, double&) {
                               return 500 * kMiB + (std::fmod(t, 60) > 50 ? 150 * kMiB : 0) +
                                      2 * kMiB * n.normal();
                             }),
            0);
  EXPECT_LE(false_alarm_rate("slow wave (AR 0.98)", 8,
                             [](double, Noise& n, double& s) {
                               s = 0.98 * s + 4 * kMiB * n.normal();
                               return 500 * kMiB + s;
                             }),
            0.5);
}

TEST(Forecast, AHistoryOfDaysStaysSmall) {
  History history(512);
  for (int i = 0; i < 2'000'000; ++i) history.add(i * 0.25, 1000u + static_cast<std::uint64_t>(i));
  EXPECT_LE(history.points().size(), 512u);
  EXPECT_GE(history.points().size(), 250u);
  EXPECT_NEAR(history.points().back().time, 500000, 3000);
  const Slope slope = theil_sen(history.points());
  EXPECT_NEAR(slope.bytes_per_second, 4, 0.1);
}

Shape shape_of(double (*curve)(double time, Noise& noise)) {
  std::vector<Point> points;
  Noise noise(7);
  for (int i = 0; i < 400; ++i) points.push_back({i * 0.25, bytes(curve(i * 0.25, noise))});
  return classify(points).shape;
}

TEST(Curve, Shapes) {
  EXPECT_EQ(
      shape_of([](double t, Noise& n) { return 100 * kMiB + 4 * kMiB * t + kMiB * n.normal(); }),
      Shape::kLinear);
  EXPECT_EQ(shape_of([](double t, Noise& n) {
              return 100 * kMiB + 40 * kMiB * std::floor(t / 10) + 0.1 * kMiB * n.normal();
            }),
            Shape::kStaircase);
  EXPECT_EQ(shape_of([](double t, Noise& n) {
              return 100 * kMiB + (t > 90 ? 400 * kMiB : 0) + kMiB * n.normal();
            }),
            Shape::kSpike);
  EXPECT_EQ(shape_of([](double, Noise& n) { return 100 * kMiB + kMiB * n.normal(); }),
            Shape::kFlat);
  EXPECT_EQ(shape_of([](double t, Noise& n) {
              return 100 * kMiB + 80 * kMiB * std::fmod(t / 8, 1.0) + kMiB * n.normal();
            }),
            Shape::kSawtooth);
}

}  // namespace
}  // namespace surefit::guard
