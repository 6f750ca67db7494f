// SPDX-License-Identifier: Apache-2.0
// What changes bits: by consent or policy only, the same bits under every plan, written down.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>

#include "base/env.hpp"
#include "engine/executable.hpp"
#include "engine/onednn.hpp"
#include "train/ladder.hpp"
#include "train/planned_step.hpp"
#include "train/support.hpp"

namespace surefit {
namespace {

Sequential normalised_model(const Optimizer& optimizer = SGD{.learning_rate = 0.1}) {
  Sequential model({6, 6, 1},
                   {Conv2D{.filters = 9, .kernel_size = 3}, BatchNormalization{}, ReLU{},
                    Conv2D{.filters = 8, .kernel_size = 3, .activation = "relu"},
                    BatchNormalization{}, Flatten{}, Dense{.units = 3, .activation = "softmax"}});
  model.compile({.optimizer = optimizer, .loss = "sparse_categorical_crossentropy"});
  return model;
}

StepOutcome step_on(const Lossy& lossy, std::int64_t first, std::int64_t samples,
                    std::int64_t batch, const PlanOptions& how) {
  return planned_step(normalised_model(), lossy, first, samples, batch, how);
}

constexpr Lossy kGhost{.ghost_batch = 4};

TEST(GhostBatchNorm, EachGhostIsABatchOfItsOwn) {
  const StepOutcome whole = step_on(kGhost, 0, 12, 12, {});
  std::vector<StepOutcome> parts;
  for (const std::int64_t first : {0, 4, 8}) parts.push_back(step_on({}, first, 4, 4, {}));
  for (std::size_t n = 0; n < 12; ++n)
    EXPECT_EQ(whole.losses[n], parts[n / 4].losses[n % 4]) << "sample " << n;
  const Sequential start = normalised_model();
  const std::vector<std::string> names = start.parameter_names();
  for (std::size_t p = 0; p < names.size(); ++p) {
    if (names[p].find("moving") != std::string::npos) continue;
    const Tensor before = start.parameter(names[p]);
    for (std::size_t i = 0; i < before.count(); ++i) {
      double mean = 0;  // of the three steps
      for (const StepOutcome& part : parts) {
        mean +=
            static_cast<double>(part.parameters[p].values<float>()[i] - before.values<float>()[i]) /
            3;
      }
      const float got = whole.parameters[p].values<float>()[i] - before.values<float>()[i];
      EXPECT_NEAR(got, mean, 2e-7) << names[p] << " " << i;
    }
  }
}

TEST(GhostBatchNorm, TheLastGhostOfARaggedBatchIsSmaller) {
  const StepOutcome whole = step_on(kGhost, 0, 10, 12, {}), rest = step_on({}, 8, 2, 2, {});
  EXPECT_EQ(whole.losses[8], rest.losses[0]);
  EXPECT_EQ(whole.losses[9], rest.losses[1]);
}

// The running statistics are those of the whole batch, with or without ghosts.
TEST(GhostBatchNorm, RunningStatisticsAreTheBatchs) {
  const StepOutcome ghost = step_on(kGhost, 0, 12, 12, {}), exact = step_on({}, 0, 12, 12, {});
  const std::vector<std::string> names = normalised_model().parameter_names();
  const auto at = static_cast<std::size_t>(
      std::find(names.begin(), names.end(), "batch_normalization/moving_variance") - names.begin());
  ASSERT_LT(at, names.size());
  EXPECT_EQ(ghost.state[at], exact.state[at]);
  EXPECT_NE(ghost.losses, exact.losses);
}

TEST(LossyNumerics, EveryPlanGivesTheSameBits) {
  const Lossy ways[] = {kGhost,
                        {.storage = Half::kFloat16},
                        {.storage = Half::kBfloat16, .ghost_batch = 8},
                        {.storage = Half::kFloat16, .ghost_batch = 2}};
  for (const Lossy& lossy : ways) {
    const StepOutcome base = step_on(lossy, 0, 23, 24, {});
    EXPECT_NE(base.losses, step_on({}, 0, 23, 24, {}).losses);
    for (const std::int64_t group : {1, 3, 8, 20}) {
      for (const int threads : {1, 3}) {
        const StepOutcome other = step_on(lossy, 0, 23, 24, {.threads = threads, .group = group});
        EXPECT_EQ(other.losses, base.losses) << group;
        EXPECT_EQ(other.state, base.state) << "group " << group << " threads " << threads;
      }
    }
  }
}

// Values that wait in 16 bits, recomputed ones, kept ones: all the same.
TEST(LossyNumerics, AnyMixtureOfSavingGivesTheSameBits) {
  const Lossy lossy{.storage = Half::kFloat16};
  const Sequential model = normalised_model();
  const Program program = training_program(model.impl(), {}, {lossy});
  const StepOutcome base = step_on(lossy, 0, 24, 24, {});
  const Graph& graph = program.graph();
  int halves = 0;
  for (const Value& value : graph.values()) {
    if (value.producer == kNone || value.view_of != kNone) continue;
    const Node& node = graph.node(value.producer);
    if (node.op->kind() != "round") continue;
    for (const Saving how : {Saving::kHalf, Saving::kRecompute}) {
      PlanOptions options = {.threads = 2, .group = 8};
      options.saving.assign(graph.values().size(), Saving::kKeep);
      options.saving[static_cast<std::size_t>(value.id)] = how;
      EXPECT_EQ(step_on(lossy, 0, 24, 24, options).state, base.state) << value.name;
    }
    ++halves;
  }
  EXPECT_GE(halves, 4);
}

TEST(GhostBatchNorm, NothingWaitsForTheBatch) {
  const StepOutcome exact = step_on({}, 0, 24, 24, {.group = 4}),
                    ghost = step_on(kGhost, 0, 24, 24, {.group = 4});
  EXPECT_LT(2 * ghost.live_bytes, exact.live_bytes);
}

std::vector<std::string> rungs(std::initializer_list<const char*> names) {
  return {names.begin(), names.end()};
}

// Few activations, many weights: the slots of Adam are what does not fit.
Sequential heavy_model() {
  Sequential model({6, 6, 1}, {Flatten{}, Dense{.units = 1200, .activation = "relu"},
                               Dense{.units = 1000, .activation = "relu"},
                               Dense{.units = 3, .activation = "softmax"}});
  model.compile(
      {.optimizer = AdamW{.learning_rate = 0.002}, .loss = "sparse_categorical_crossentropy"});
  return model;
}

FitOptions heavy_options(std::uint64_t budget, const std::string& run = {}) {
  return {.batch_size = 22,
          .epochs = 3,
          .seed = 5,
          .threads = 1,
          .memory_budget = budget,
          .allow = {"factored-optimizer"},
          .run = run,
          .checkpoint_every = run.empty() ? "never" : "1steps"};
}

constexpr std::uint64_t kAmple = std::uint64_t{256} << 20;

// Less than the exact training needs, more than it needs with Adafactor.
std::uint64_t too_little_for_adam() {
  return heavy_model()
             .memory_plan({.batch_size = 22, .threads = 1, .memory_budget = kAmple})
             .floor_bytes -
         (std::uint64_t{2} << 20);
}

TEST(FactoredOptimizer, OnlyByConsentAndOnlyIfNeeded) {
  const std::uint64_t budget = too_little_for_adam();
  {
    Sequential model = heavy_model();
    FitOptions options = heavy_options(budget);
    options.allow.clear();
    try {
      tiny_fit(model, options);
      FAIL() << "fitted";
    } catch (const MemoryRefused& refused) {
      EXPECT_NE(std::string(refused.what()).find("--allow factored-optimizer"), std::string::npos)
          << refused.what();
    }
  }
  Sequential ample = heavy_model();
  EXPECT_EQ(tiny_fit(ample, heavy_options(kAmple)).lossy, rungs({}));
  Sequential tight = heavy_model();
  std::vector<std::string> reported;
  FitOptions options = heavy_options(budget);
  options.callbacks.push_back(LambdaCallback{.on_train_begin = [&](TrainState& state) {
    reported = state.memory().lossy;
    EXPECT_LE(state.memory().predicted_bytes, budget);
  }});
  const History history = tiny_fit(tight, options);
  EXPECT_EQ(history.lossy, rungs({"factored-optimizer"}));
  EXPECT_EQ(reported, history.lossy);
  EXPECT_LT(history.series("loss").back(), history.series("loss").front());
  EXPECT_NE(bits_of(tight), bits_of(ample));
}

TEST(FactoredOptimizer, AResumedRunKeepsItWhateverTheBudget) {
  const TemporaryDirectory directory;
  const std::uint64_t budget = too_little_for_adam();
  Sequential straight = heavy_model();
  tiny_fit(straight, heavy_options(budget));
  {
    Sequential first = heavy_model();
    InterruptAt stop(3);
    // Writing checkpoints takes room for the largest tensor, with either optimizer.
    FitOptions options = heavy_options(budget + (std::uint64_t{4} << 20), directory / "run");
    options.callbacks.emplace_back(&stop);
    ASSERT_TRUE(tiny_fit(first, options).interrupted);
  }
  FitOptions options = heavy_options(kAmple, directory / "run");
  options.resume = true;
  {
    FitOptions without = options;
    without.allow.clear();
    Sequential second = heavy_model();
    try {
      tiny_fit(second, without);
      FAIL() << "resumed";
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("rungs that change bits: was factored-optimizer"),
                std::string::npos)
          << error.what();
    }
  }
  Sequential second = heavy_model();
  EXPECT_EQ(tiny_fit(second, options).lossy, rungs({"factored-optimizer"}));
  EXPECT_EQ(bits_of(second), bits_of(straight));
}

TEST(Ladder, TriesFewerRungsFirst) {
  FitOptions options;
  options.allow = {"factored-optimizer", "ghost-batch-norm", "f16-activations"};
  std::vector<std::string> tried;
  for (const Lossy& lossy : lossy_ladder(options, 16))
    tried.push_back(fmt::format("{}", fmt::join(lossy.rungs(), "+")));
  const std::vector<std::string> expected = {
      "",
      "f16-activations",
      "ghost-batch-norm:8",
      "ghost-batch-norm:4",
      "factored-optimizer",
      "f16-activations+ghost-batch-norm:8",
      "f16-activations+ghost-batch-norm:4",
      "f16-activations+factored-optimizer",
      "ghost-batch-norm:8+factored-optimizer",
      "ghost-batch-norm:4+factored-optimizer",
      "f16-activations+ghost-batch-norm:8+factored-optimizer",
      "f16-activations+ghost-batch-norm:4+factored-optimizer"};
  EXPECT_EQ(tried, expected);
  for (const Lossy& lossy : lossy_ladder(options, 16))
    EXPECT_EQ(parse_rungs(fmt::format("{}", fmt::join(lossy.rungs(), ", ")), options), lossy);
}

Sequential wide_model() {
  std::vector<Layer> layers;
  for (int i = 0; i < 4; ++i) {
    layers.emplace_back(Conv2D{.filters = 16, .kernel_size = 3, .padding = "same"});
    layers.emplace_back(BatchNormalization{});
    layers.emplace_back(ReLU{});
  }
  layers.emplace_back(GlobalAveragePooling2D{});
  layers.emplace_back(Dense{.units = 3, .activation = "softmax"});
  Sequential model({32, 32, 1}, layers);
  model.compile({.optimizer = "sgd", .loss = "sparse_categorical_crossentropy"});
  return model;
}

History wide_fit(Model& model, FitOptions options) {
  Tensor x({64, 32, 32, 1}), y({64}, DType::kInt32);
  for (std::size_t i = 0; i < x.count(); ++i)
    x.values<float>()[i] = std::sin(static_cast<float>(i * i % 1013));
  for (std::size_t i = 0; i < 64; ++i) y.values<std::int32_t>()[i] = static_cast<int>(i % 3);
  options.batch_size = 64;
  options.epochs = 2;
  return model.fit(x, y, options);
}

TEST(GhostBatchNorm, OnlyByConsentAndOnlyIfNeeded) {
  const FitOptions plain = {.batch_size = 64, .threads = 2, .memory_budget = kAmple};
  const std::uint64_t budget = wide_model().memory_plan(plain).floor_bytes - (1 << 20);
  FitOptions tight = plain;
  tight.memory_budget = budget;
  EXPECT_THROW(wide_model().memory_plan(tight), MemoryRefused);
  FitOptions allowed = tight;
  allowed.allow = {"ghost-batch-norm"};
  Sequential model = wide_model(), other = wide_model();
  const History history = wide_fit(model, allowed);
  ASSERT_EQ(history.lossy.size(), 1U);
  EXPECT_TRUE(history.lossy[0].starts_with("ghost-batch-norm:")) << history.lossy[0];
  allowed.threads = 1;
  EXPECT_EQ(wide_fit(other, allowed).lossy, history.lossy);
  EXPECT_EQ(bits_of(model), bits_of(other));
  allowed.memory_budget = kAmple;
  Sequential free = wide_model();
  EXPECT_EQ(wide_fit(free, allowed).lossy, rungs({}));
}

// `count` convolutions with an activation behind each, and the layers that end the model.
Sequential conv_chain(int count, const char* activation, std::int64_t size, const Layer& end) {
  std::vector<Layer> layers;
  for (int i = 0; i < count; ++i) {
    layers.emplace_back(
        Conv2D{.filters = 16, .kernel_size = 3, .padding = "same", .activation = activation});
  }
  layers.push_back(end);
  layers.emplace_back(Dense{.units = 3, .activation = "softmax"});
  Sequential model({size, size, 1}, layers);
  model.compile({.optimizer = "sgd", .loss = "sparse_categorical_crossentropy"});
  return model;
}

// A file takes what is saved long before this rung is asked for: little is left for it to save.
TEST(HalfActivations, OnlyByConsentAndOnlyIfNeeded) {
  Sequential model = conv_chain(8, "sigmoid", 64, Flatten{});
  FitOptions options = {.batch_size = 64, .threads = 1, .memory_budget = kAmple};
  options.policy = "mixed_float16";
  const std::uint64_t smaller = model.memory_plan(options).floor_bytes;
  options.policy = "float32";
  const std::uint64_t exact = model.memory_plan(options).floor_bytes;
  ASSERT_LT(smaller, exact);
  options.memory_budget = (smaller + exact) / 2;
  EXPECT_THROW(model.memory_plan(options), MemoryRefused);
  options.allow = {"f16-activations"};
  const MemoryReport report = model.memory_plan(options);
  EXPECT_EQ(report.lossy, rungs({"f16-activations"}));
  EXPECT_LE(report.predicted_bytes, options.memory_budget);
  options.memory_budget = exact;
  EXPECT_EQ(model.memory_plan(options).lossy, rungs({}));
}

// With the whole batch in flight, what is saved is most of what there is.
TEST(Policy, SavedActivationsTakeHalfTheRoom) {
  Sequential model = conv_chain(12, "relu", 32, GlobalAveragePooling2D{});
  const auto activations = [&](const char* policy) {
    const MemoryReport report = model.memory_plan(
        {.batch_size = 64, .threads = 1, .group = 64, .memory_budget = kAmple, .policy = policy});
    double bytes = 0;
    for (const auto& [name, size] : report.categories)
      if (name == "activations") bytes += static_cast<double>(size);
    return bytes;
  };
  // And some room to work in.
  EXPECT_LT(activations("mixed_float16"), 0.75 * activations("float32"));
  EXPECT_EQ(activations("mixed_float16"), activations("mixed_bfloat16"));
}

TEST(Policy, GivesTheSameBitsUnderAnyBudget) {
  FitOptions options = {.batch_size = 64, .threads = 1, .memory_budget = kAmple};
  const MemoryReport plain = wide_model().memory_plan(options);
  EXPECT_EQ(plain.numbers, "float32");
  std::map<std::string, std::vector<std::string>> bits;
  for (const char* policy : {"float32", "mixed_float16", "mixed_bfloat16"}) {
    options.policy = policy;
    const MemoryReport report = wide_model().memory_plan(options);
    Sequential model = wide_model(), again = wide_model();
    const History history = wide_fit(model, options);
    bits[policy] = bits_of(model);
    if (options.policy == "float32") continue;
    EXPECT_EQ(history.lossy, rungs({policy}));
    EXPECT_NE(report.to_text().find("this build has no native 16-bit kernels"), std::string::npos);
    EXPECT_NE(bits[policy], bits["float32"]);
    FitOptions tight = options;
    tight.threads = 2;
    tight.memory_budget = report.floor_bytes + (4 << 20);
    ASSERT_LT(tight.memory_budget, report.predicted_bytes);
    EXPECT_EQ(wide_fit(again, tight).lossy, history.lossy);
    EXPECT_EQ(bits_of(again), bits[policy]) << policy;
  }
  EXPECT_NE(bits["mixed_float16"], bits["mixed_bfloat16"]);
}

TEST(Policy, TheGlobalOneIsTakenWhereNoneIsNamed) {
  mixed_precision::set_global_policy("mixed_bfloat16");
  EXPECT_EQ(wide_model().memory_plan().lossy, rungs({"mixed_bfloat16"}));
  EXPECT_EQ(wide_model().memory_plan({.policy = "float32"}).lossy, rungs({}));
  mixed_precision::set_global_policy("float32");
  EXPECT_EQ(mixed_precision::global_policy(), "float32");
  EXPECT_THROW(mixed_precision::set_global_policy("mixed_float8"), ConfigError);
  EXPECT_THROW(wide_model().memory_plan({.policy = "float64"}), ConfigError);
}

TEST(Policy, OverflowIsNamed) {
  Sequential model({6, 6, 1}, {Conv2D{.filters = 4, .kernel_size = 3, .name = "loud"}, Flatten{},
                               Dense{.units = 3, .activation = "softmax"}});
  model.compile({.optimizer = "sgd", .loss = "sparse_categorical_crossentropy"});
  TinyData data;
  for (float& value : data.x.values<float>()) value *= 1e6f;
  try {
    model.fit(data.x, data.y, {.batch_size = 8, .policy = "mixed_float16"});
    FAIL() << "trained";
  } catch (const NumericsError& error) {
    EXPECT_NE(std::string(error.what()).find("[loud]"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("65504"), std::string::npos) << error.what();
  }
  EXPECT_NO_THROW(
      model.fit(data.x, data.y, {.batch_size = 8, .max_steps = 1, .policy = "mixed_bfloat16"}));
}

TEST(Policy, AResumeWithAnotherOneIsRefusedUnlessAdapted) {
  const TemporaryDirectory directory;
  FitOptions options = tiny_options();
  options.run = directory / "run";
  options.checkpoint_every = "1steps";
  options.policy = "mixed_float16";
  {
    Sequential model = tiny_model();
    InterruptAt stop(4);
    FitOptions interrupted = options;
    interrupted.callbacks.emplace_back(&stop);
    ASSERT_TRUE(tiny_fit(model, interrupted).interrupted);
  }
  options.resume = true;
  options.policy = "float32";
  Sequential model = tiny_model();
  try {
    tiny_fit(model, options);
    FAIL() << "resumed";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what())
                  .find("numbers: was float32, saved activations float16, now float32"),
              std::string::npos)
        << error.what();
  }
  options.adapt = true;
  // What came before stays in the history.
  EXPECT_EQ(tiny_fit(model, options).lossy, rungs({"mixed_float16"}));
}

TEST(Policy, HistoryFilesSayWhatChangedBits) {
  const TemporaryDirectory directory;
  FitOptions options = tiny_options(1);
  options.policy = "mixed_float16";
  options.callbacks.push_back(CSVLogger{.filename = directory / "log.csv"});
  Sequential model = tiny_model();
  tiny_fit(model, options);
  const std::string text = read_file(Env::posix(), directory / "log.csv");
  EXPECT_NE(text.find(",lossy\n"), std::string::npos) << text;
  EXPECT_NE(text.find(",mixed_float16\n"), std::string::npos) << text;
}

TEST(LiveTensors, AddUpToTheLedgerAtAnyMoment) {
  const TemporaryDirectory directory;
  FitOptions options = tiny_options(1);
  options.run = directory / "run";
  int seen = 0;
  options.callbacks.push_back(LambdaCallback{.on_epoch_begin = [&](TrainState& state) {
    const MemoryReport& report = state.memory();
    for (std::int64_t moment = TrainState::kFullestMoment; moment < state.moments(); ++moment) {
      std::map<std::string, std::uint64_t> sums;
      std::uint64_t all = 0;
      for (const LiveTensor& tensor : state.live_tensors(moment)) {
        sums[tensor.category] += tensor.bytes;
        all += tensor.bytes;
      }
      ASSERT_EQ(all, report.predicted_bytes) << moment;
      if (moment != TrainState::kFullestMoment) continue;
      for (const auto& [name, bytes] : report.categories) EXPECT_EQ(sums[name], bytes) << name;
    }
    for (const LiveTensor& tensor : state.live_tensors()) {
      if (tensor.what != "conv2d/kernel") continue;
      ++seen;
      EXPECT_EQ(tensor.layer, "conv2d");
      EXPECT_EQ(tensor.category, "weights");
    }
    EXPECT_THROW(state.live_tensors(state.moments()), ConfigError);
  }});
  Sequential model = tiny_model();
  tiny_fit(model, options);
  EXPECT_EQ(seen, 1);
}

TEST(LargestBatch, FitsAndOneMoreDoesNot) {
  const Sequential model = wide_model();
  FitOptions options = {.threads = 1, .memory_budget = std::uint64_t{20} << 20};
  const std::int64_t batch = model.largest_batch(options);
  ASSERT_GT(batch, 1);
  options.batch_size = batch;
  EXPECT_LE(model.memory_plan(options).predicted_bytes, options.memory_budget);
  options.batch_size = batch + 1;
  EXPECT_THROW(model.memory_plan(options), MemoryRefused);
  options.allow = {"ghost-batch-norm"};
  EXPECT_GT(model.largest_batch(options), batch);
  EXPECT_EQ(model.largest_batch({.memory_budget = 1 << 20}), 0);
}

}  // namespace
}  // namespace surefit
