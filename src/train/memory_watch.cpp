// SPDX-License-Identifier: Apache-2.0
#include "train/memory_watch.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.hpp"
#include "base/memory_limit.hpp"

namespace surefit {
namespace {

constexpr double kInterval = 0.25;  // between looks; one costs about a tenth of a millisecond
constexpr double kWindow = 2;       // over which a loss is measured
constexpr std::uint64_t kNoise = std::uint64_t{4} << 20;  // caches and tables of the kernel breathe
constexpr double kFirstChange = 1;                        // until one has been measured
constexpr double kCalm = 10, kCalmMost = 640;  // seconds of enough memory before it grows
constexpr double kFlapping = 60;    // a squeeze so soon after growing makes the next wait longer
constexpr double kStalled = 0.1;    // this share of the time stalled is pressure
constexpr double kStallPause = 15;  // PSI's average looks back 10 s
constexpr double kPatience = 10;    // seconds without memory before a training gives up

class SystemHeadroom final : public HeadroomSource {
 public:
  double now_s() override { return monotonic_seconds(); }
  Headroom read() override {
    const MemoryFacts& facts = gauge_.read();
    return {memory_limit_bytes(facts), facts.stalled};
  }
  std::string limiter() override { return memory_limit(gauge_.read()).source; }
  void wait(double seconds) override {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }

 private:
  MemoryGauge gauge_;
};

std::uint64_t less(std::uint64_t bytes, double amount) {
  return static_cast<double>(bytes) > amount ? bytes - static_cast<std::uint64_t>(amount) : 0;
}

// Between a budget and what there is, so that a small change of the latter changes nothing.
double band(const Holding& holding) {
  return static_cast<double>(holding.bytes) / 8;
}

}  // namespace

std::shared_ptr<HeadroomSource> system_headroom() {
  return std::make_shared<SystemHeadroom>();
}

MemoryWatch::MemoryWatch(std::shared_ptr<HeadroomSource> source, std::uint64_t ceiling)
    : source_(std::move(source)),
      ceiling_(ceiling),
      change_s_(kFirstChange),
      calm_needed_s_(kCalm) {
  last_call_s_ = source_->now_s();
  sample(last_call_s_);
  calm_since_s_ = last_call_s_;
}

void MemoryWatch::sample(double now) {
  const Headroom headroom = source_->read();
  stalled_ = headroom.stalled;
  samples_[taken_ % kSamples] = {now, headroom.bytes};
  ++taken_;
}

// By which what is left falls, over the last seconds or the last two looks. In both halves, or it
// was one gulp and says nothing about what comes.
double MemoryWatch::loss_per_second() const {
  const auto ago = [&](std::size_t looks) -> const Sample& {
    return samples_[(taken_ - 1 - looks) % kSamples];
  };
  std::size_t looks = std::min<std::size_t>(taken_ - 1, 2);
  while (looks + 1 < std::min(taken_, kSamples) &&
         newest().time_s - ago(looks + 1).time_s <= kWindow)
    ++looks;
  const Sample &then = ago(looks), &between = ago(looks / 2), &now = newest();
  if (then.bytes < now.bytes + kNoise) return 0;
  const auto rate = [](const Sample& from, const Sample& to) {
    return from.bytes > to.bytes
               ? static_cast<double>(from.bytes - to.bytes) / (to.time_s - from.time_s)
               : 0;
  };
  return looks < 2 ? rate(then, now) : std::min(rate(then, between), rate(between, now));
}

// What will be left when a change that begins at the next look is done.
std::uint64_t MemoryWatch::forecast() const {
  const double horizon = 2 * std::max(kInterval, longest_gap_s_) + change_s_;
  return less(newest().bytes, loss_per_second() * horizon);
}

std::optional<BudgetChange> MemoryWatch::look(const Holding& holding) {
  const double now = source_->now_s();
  longest_gap_s_ = std::max(now - last_call_s_, 0.9 * longest_gap_s_);
  last_call_s_ = now;
  if (now - newest().time_s < kInterval) return std::nullopt;
  sample(now);
  if (newest().bytes == kNoLimit) return std::nullopt;
  if (auto change = shrink(holding)) return change;
  return grow(holding);
}

std::optional<BudgetChange> MemoryWatch::shrink(const Holding& holding) {
  const std::uint64_t left = forecast();
  // Half of what the limit keeps back for the kernel, so that a plan that was made for all there
  // is does not move with every page of its tables.
  const std::uint64_t slack = kNoise / 2 + holding.bytes / 200;
  if (left + slack < holding.bytes) {
    const double more = std::max(band(holding), kWindow * loss_per_second());
    return BudgetChange{.wanted = less(left, more), .most = left};
  }
  // The kernel still finds memory, but it takes time from us: a little less often helps it.
  const bool near = left < holding.bytes + holding.bytes / 2;
  if (stalled_ < kStalled || !near || holding.bytes <= holding.floor ||
      newest().time_s < stalled_until_s_)
    return std::nullopt;
  stalled_until_s_ = newest().time_s + kStallPause;
  return BudgetChange{.wanted = less(holding.bytes, band(holding)), .most = holding.bytes};
}

std::optional<BudgetChange> MemoryWatch::grow(const Holding& holding) {
  const std::uint64_t top = std::min(holding.full_speed, ceiling_);
  const std::uint64_t room = std::min(less(newest().bytes, band(holding)), top);
  const bool pays =
      holding.budget < top && room >= std::min(top, holding.budget + holding.budget / 4);
  const double now = newest().time_s;
  if (!pays || loss_per_second() > 0 || stalled_ >= kStalled / 2) {
    calm_since_s_ = now;
    calm_room_ = kNoLimit;
    return std::nullopt;
  }
  calm_room_ = std::min(calm_room_, room);
  if (now - calm_since_s_ < calm_needed_s_) return std::nullopt;
  return BudgetChange{.wanted = calm_room_, .most = calm_room_, .grows = true};
}

void MemoryWatch::changed(double seconds, bool grew) {
  const double now = source_->now_s();
  change_s_ = seconds;
  last_call_s_ = calm_since_s_ = now;  // the time of the change is no step's
  calm_room_ = kNoLimit;
  if (!grew && grown_s_) {
    calm_needed_s_ = now - *grown_s_ < kFlapping ? std::min(2 * calm_needed_s_, kCalmMost) : kCalm;
    grown_s_.reset();
  }
  if (grew) grown_s_ = now;
}

bool MemoryWatch::wait_for(std::uint64_t bytes) {
  const double until = source_->now_s() + kPatience;
  do {
    source_->wait(kInterval);
    sample(source_->now_s());
    if (forecast() >= bytes) return true;
  } while (source_->now_s() < until);
  return false;
}

}  // namespace surefit
