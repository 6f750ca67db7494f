// SPDX-License-Identifier: Apache-2.0
// Others take memory away while a training runs, and give it back: what the watch decides on curves
// of its own, and what the trainer makes of it.
#include "train/memory_watch.hpp"

#include <cmath>
#include <functional>

#include "base/check.hpp"
#include "base/process_memory.hpp"
#include "support.hpp"
#include "train/trainer.hpp"

namespace surefit {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

// A machine whose clock and memory follow a curve; the clock moves when somebody waits or a test
// says so.
class CurveSource final : public HeadroomSource {
 public:
  using Curve = std::function<double(double seconds)>;  // MiB left to the process
  explicit CurveSource(Curve curve) : curve_(std::move(curve)) {}
  double now_s() override { return now_; }
  Headroom read() override {
    ++reads;
    return {static_cast<std::uint64_t>(curve_(now_) * 0x1p20), stalled};
  }
  std::string limiter() override { return "a test"; }
  void wait(double seconds) override { now_ += seconds; }
  double stalled = 0;
  int reads = 0;

 private:
  Curve curve_;
  double now_ = 100;  // not zero, as on real machines
};

struct Seen {
  int shrinks = 0, grows = 0;
  bool stopped = false;
  double worst = 1e9;  // MiB left beyond what was held, at any time
  Holding holding;
};

// A trainer without a network: any budget above the floor is a plan that needs all of it.
Seen follow(const std::shared_ptr<CurveSource>& source, Holding holding, std::uint64_t real_floor,
            double seconds, double step_s = 0.1) {
  MemoryWatch watch(source, kNoLimit);
  Seen seen;
  const double end = source->now_s() + seconds;
  while (source->now_s() < end) {
    source->wait(step_s);
    const double left =
        static_cast<double>(source->read().bytes) - static_cast<double>(holding.bytes);
    seen.worst = std::min(seen.worst, left / 0x1p20);
    const auto change = watch.look(holding);
    if (!change) continue;
    ++(change->grows ? seen.grows : seen.shrinks);
    source->wait(0.3);  // searching
    std::uint64_t budget = change->wanted;
    if (budget < real_floor) {
      holding.floor = budget = real_floor;
      if (real_floor > change->most && !watch.wait_for(real_floor)) {
        seen.stopped = true;
        break;
      }
    }
    holding.budget = budget;
    holding.bytes = std::min(budget, holding.full_speed);
    watch.changed(0.3, change->grows);
  }
  seen.holding = holding;
  return seen;
}

Holding full(std::uint64_t mib) {
  return {.bytes = mib * kMiB, .budget = 4 * mib * kMiB, .full_speed = mib * kMiB};
}

TEST(MemoryWatch, NothingHappensWhileThereIsEnough) {
  const auto source =
      std::make_shared<CurveSource>([](double t) { return 400 + 40 * std::sin(t); });
  const Seen seen = follow(source, full(300), 150 * kMiB, 600);
  EXPECT_EQ(seen.shrinks + seen.grows, 0);
}

// A plan that was made for everything there is: caches and tables breathe by a few MiB.
TEST(MemoryWatch, NoiseOfATightGroupMovesNothing) {
  const auto source =
      std::make_shared<CurveSource>([](double t) { return 300 + 1.5 * std::sin(7 * t); });
  const Seen seen = follow(source, {300 * kMiB, 300 * kMiB, 500 * kMiB, 0}, 150 * kMiB, 600);
  EXPECT_EQ(seen.shrinks + seen.grows, 0);
}

TEST(MemoryWatch, ASiblingThatGrowsIsNeverMet) {
  for (const double step_s : {0.05, 0.5, 2.0}) {
    const auto source = std::make_shared<CurveSource>(
        [](double t) { return std::max(180.0, 600 - 20 * (t - 100)); });
    const Seen seen = follow(source, full(400), 150 * kMiB, 120, step_s);
    EXPECT_GE(seen.shrinks, 1) << step_s;
    EXPECT_LE(seen.shrinks, 6) << step_s;
    EXPECT_GT(seen.worst, -2.0) << "held more than there was, with steps of " << step_s;
    EXPECT_LT(seen.holding.bytes, 180 * kMiB) << step_s;
    EXPECT_FALSE(seen.stopped);
  }
}

TEST(MemoryWatch, GrowsBackOnceWhenMemoryIsBack) {
  const auto source = std::make_shared<CurveSource>([](double t) {
    return t < 110 ? 600 : t < 140 ? 200 : 600;
  });
  const Seen seen = follow(source, full(400), 150 * kMiB, 120);
  EXPECT_EQ(seen.shrinks, 1);
  EXPECT_EQ(seen.grows, 1);
  EXPECT_EQ(seen.holding.bytes, 400 * kMiB);
}

// A neighbour that comes and goes every 25 s: each time it is believed less.
TEST(MemoryWatch, DoesNotFlap) {
  const auto source =
      std::make_shared<CurveSource>([](double t) { return std::fmod(t, 25.0) < 12.5 ? 600 : 200; });
  const Seen seen = follow(source, full(400), 150 * kMiB, 1000);
  EXPECT_GE(seen.grows, 1);
  EXPECT_LE(seen.grows, 2);
  EXPECT_LE(seen.shrinks, 3);
}

TEST(MemoryWatch, NeverBeyondWhatTheUserAllowed) {
  const auto source = std::make_shared<CurveSource>([](double) { return 4000; });
  MemoryWatch watch(source, 200 * kMiB);
  for (int i = 0; i < 1000; ++i) {
    source->wait(0.1);
    const auto change = watch.look({100 * kMiB, 120 * kMiB, 400 * kMiB, 0});
    if (change) {
      EXPECT_LE(change->wanted, 200 * kMiB);
      return;
    }
  }
  FAIL() << "never grew";
}

TEST(MemoryWatch, WaitsAtTheFloorAndGoesOn) {
  const auto source = std::make_shared<CurveSource>([](double t) {
    return t < 110 ? 600 : t < 115 ? 100 : 220;
  });
  const Seen seen = follow(source, full(400), 150 * kMiB, 60);
  EXPECT_FALSE(seen.stopped);
  EXPECT_GE(seen.holding.bytes, 150 * kMiB);
  EXPECT_LE(seen.holding.bytes, 220 * kMiB);
}

// A neighbour that takes a lot at once and then nothing more is no trend.
TEST(MemoryWatch, OneGulpIsNotExtrapolated) {
  const auto source = std::make_shared<CurveSource>([](double t) { return t < 110 ? 900 : 420; });
  const Seen seen = follow(source, full(400), 150 * kMiB, 60);
  EXPECT_EQ(seen.shrinks, 0);
}

TEST(MemoryWatch, StopsBelowTheFloor) {
  const auto source = std::make_shared<CurveSource>([](double t) { return t < 110 ? 600 : 100; });
  EXPECT_TRUE(follow(source, full(400), 150 * kMiB, 60).stopped);
}

// At the floor with others still growing: the next step could be the last.
TEST(MemoryWatch, StopsBeforeTheFloorIsReached) {
  const auto source =
      std::make_shared<CurveSource>([](double t) { return std::max(20.0, 600 - 20 * (t - 100)); });
  const Seen seen = follow(source, full(400), 150 * kMiB, 120, 1.0);
  EXPECT_TRUE(seen.stopped);
  EXPECT_GT(seen.worst, -2.0);
}

TEST(MemoryWatch, StallsOfTheKernelArePressureToo) {
  const auto source = std::make_shared<CurveSource>([](double) { return 420; });
  source->stalled = 0.3;
  const Seen seen = follow(source, full(400), 150 * kMiB, 60);
  EXPECT_GE(seen.shrinks, 1);
  EXPECT_FALSE(seen.stopped);
  EXPECT_GE(seen.holding.bytes, 150 * kMiB);
  // With plenty left they are somebody else's.
  const auto plenty = std::make_shared<CurveSource>([](double) { return 4000; });
  plenty->stalled = 0.3;
  EXPECT_EQ(follow(plenty, full(400), 150 * kMiB, 60).shrinks, 0);
}

TEST(MemoryWatch, LooksFourTimesASecond) {
  const auto source = std::make_shared<CurveSource>([](double) { return 4000; });
  MemoryWatch watch(source, kNoLimit);
  for (int i = 0; i < 1000; ++i) {
    source->wait(0.01);
    watch.look(full(400));
  }
  EXPECT_LE(source->reads, 41);
}

// ---- the trainer

// Enough activations that plans differ by megabytes: 24x24x16 floats a sample and layer.
Sequential wide_model() {
  std::vector<Layer> layers;
  for (int i = 0; i < 5; ++i) {
    layers.emplace_back(
        Conv2D{.filters = 16, .kernel_size = 3, .padding = "same", .activation = "relu"});
    layers.emplace_back(BatchNormalization{});
  }
  layers.emplace_back(Dropout{.rate = 0.25});
  layers.emplace_back(GlobalAveragePooling2D{});
  layers.emplace_back(Dense{.units = 3, .activation = "softmax"});
  Sequential model({24, 24, 1}, layers);
  model.compile({.optimizer = Adam{.learning_rate = 0.01},
                 .loss = "sparse_categorical_crossentropy",
                 .metrics = {"accuracy"}});
  return model;
}

struct WideData {
  Tensor x{{144, 24, 24, 1}}, y{{144}, DType::kInt32};
  WideData() {
    unsigned state = 7;
    for (float& value : x.values<float>()) {
      state = state * 1664525u + 1013904223u;
      value = static_cast<float>(state >> 8) * 0x1p-24f;
    }
    for (int n = 0; n < 144; ++n) y.at<std::int32_t>({n}) = n % 3;
  }
  Dataset batches() const { return Dataset::from_tensor_slices(x, y).shuffle(144).batch(48); }
};

FitOptions wide_options() {
  const WideData data;
  FitOptions options{.epochs = 4, .seed = 5, .threads = 1};
  options.validation_data = Dataset::from_tensor_slices(data.x, data.y).batch(48);
  return options;
}

// Moves the clock by a second behind every batch, and notes the plans.
class Clockwork final : public Callback {
 public:
  explicit Clockwork(std::shared_ptr<CurveSource> source) : source_(std::move(source)) {}
  void on_train_begin(TrainState& state) override { note(state); }
  void on_train_batch_end(TrainState&, const Logs&) override { source_->wait(1); }
  void on_test_batch_end(TrainState&) override { source_->wait(1); }
  void on_plan_change(TrainState& state, const std::string& text) override {
    note(state);
    texts.push_back(text);
    resident.push_back(read_process_memory().resident_bytes);
  }
  std::vector<std::uint64_t> planned, resident;
  std::vector<std::string> texts;

 private:
  void note(const TrainState& state) { planned.push_back(state.memory().predicted_bytes); }
  std::shared_ptr<CurveSource> source_;
};

struct Squeezed {
  History history;
  std::vector<std::string> bits;
  std::vector<std::uint64_t> planned, resident;
  std::vector<std::string> texts;
};

Squeezed train(CurveSource::Curve curve, FitOptions options = wide_options()) {
  const auto source = std::make_shared<CurveSource>(std::move(curve));
  Clockwork clockwork(source);
  options.callbacks.push_back(&clockwork);
  Sequential model = wide_model();
  const WideData data;
  Squeezed squeezed;
  squeezed.history = Trainer(model.impl(), data.batches(), options, source).run();
  squeezed.bits = bits_of(model);
  squeezed.planned = clockwork.planned;
  squeezed.resident = clockwork.resident;
  squeezed.texts = clockwork.texts;
  return squeezed;
}

double mib(std::uint64_t bytes) {
  return static_cast<double>(bytes) / 0x1p20;
}

TEST(Squeeze, ShrinksReleasesGrowsBackAndKeepsTheBits) {
  const Squeezed free = train([](double) { return 4000; });
  ASSERT_EQ(free.planned.size(), 1u) << "an undisturbed training keeps its plan";
  const double full = mib(free.planned[0]);
  // Twelve steps and twelve batches of validation: scarce from the third second, back from the
  // eighth.
  const Squeezed squeezed =
      train([&](double t) { return t < 103 || t > 108 ? 4000 : 0.75 * full; });
  ASSERT_GE(squeezed.planned.size(), 3u);
  EXPECT_LT(mib(squeezed.planned[1]), 0.75 * full);
  EXPECT_EQ(squeezed.planned.back(), squeezed.planned.front());
  EXPECT_NE(squeezed.texts[0].find("getting scarce (a test leaves"), std::string::npos)
      << squeezed.texts[0];
  EXPECT_NE(squeezed.texts.back().find("memory is back"), std::string::npos);
  // The pages are given back, not only the addresses.
  const double released = mib(squeezed.resident.back()) - mib(squeezed.resident.front());
  EXPECT_GT(released, 0.7 * (full - mib(squeezed.planned[1])));
  EXPECT_EQ(squeezed.bits, free.bits);
  EXPECT_EQ(squeezed.history.epochs, free.history.epochs);
}

TEST(Squeeze, AnotherTrainingHasOtherBits) {  // the comparison above can fail
  FitOptions other = wide_options();
  other.seed = 6;
  EXPECT_NE(train([](double) { return 4000; }).bits,
            train([](double) { return 4000; }, other).bits);
}

TEST(Squeeze, BelowTheFloorItSavesAndStopsAndGoesOnLater) {
  const TemporaryDirectory directory;
  const Squeezed free = train([](double) { return 4000; });
  FitOptions options = wide_options();
  options.run = directory / "run";
  options.checkpoint_every = "1000steps";
  const Squeezed stopped = train([](double t) { return t < 104 ? 4000 : 5; }, options);
  EXPECT_TRUE(stopped.history.interrupted);
  EXPECT_NE(stopped.history.stop_reason.find("too little memory: a test leaves 5"),
            std::string::npos)
      << stopped.history.stop_reason;
  EXPECT_NE(stopped.history.stop_reason.find("smallest plan needs"), std::string::npos);
  EXPECT_NE(stopped.bits, free.bits);
  options.resume = true;
  const Squeezed resumed = train([](double) { return 4000; }, options);
  EXPECT_FALSE(resumed.history.interrupted);
  EXPECT_EQ(resumed.bits, free.bits);
}

TEST(Squeeze, APauseAtTheFloorIsNoEnd) {
  const Squeezed free = train([](double) { return 4000; });
  const Squeezed paused = train([](double t) { return t > 104 && t < 109 ? 5 : 4000; });
  EXPECT_FALSE(paused.history.interrupted) << paused.history.stop_reason;
  EXPECT_EQ(paused.bits, free.bits);
}

}  // namespace
}  // namespace surefit
