// SPDX-License-Identifier: Apache-2.0
#include "surefit/callbacks.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "base/env.hpp"
#include "ckpt/checkpoint.hpp"
#include "train/support.hpp"

namespace surefit {
namespace {

// A run that exists on paper only: callbacks see the logs we give them.
class PaperRun final : public TrainState {
 public:
  std::int64_t epoch() const override { return epoch_; }
  std::int64_t epochs() const override { return 100; }
  std::int64_t step() const override { return epoch_ * 10; }
  std::int64_t epoch_step() const override { return 0; }
  std::int64_t steps_per_epoch() const override { return 10; }
  double images_per_second() const override { return 1; }
  const MemoryReport& memory() const override { return memory_; }
  std::vector<LiveTensor> live_tensors(std::int64_t) const override { return {}; }
  std::int64_t moments() const override { return 0; }
  double learning_rate() const override { return rate; }
  void set_learning_rate(double value) override { rate = value; }
  const History& history() const override { return history_; }
  std::vector<std::string> log_names() const override {
    return {"loss", "accuracy", "val_loss", "val_accuracy"};
  }
  void request_stop(const std::string& reason) override { stopped = reason; }
  void interrupt(const std::string&) override {}
  void warn(const std::string& text) override { warnings.push_back(text); }
  void save_weights(const std::string& path) override {
    if (full) throw SystemError("[" + path + "] No space left on device", 28);
    saved.push_back("w " + path);
  }
  void save_checkpoint(const std::string& path) override { saved.push_back("c " + path); }
  void keep_weights(const Callback&) override { kept = epoch_; }
  void restore_weights(const Callback&) override { restored = true; }
  bool roll_back() override { return false; }

  // Epochs with this val_loss each; stops where the callback asks for it. Returns the number of
  // epochs run.
  std::int64_t run(Callback& callback, const std::vector<double>& losses) {
    callback.on_train_begin(*this);
    for (epoch_ = 0; epoch_ < static_cast<std::int64_t>(losses.size()) && stopped.empty();
         ++epoch_) {
      callback.on_epoch_begin(*this);
      const double loss = losses[static_cast<std::size_t>(epoch_)];
      const Logs logs = {{"loss", loss / 2},
                         {"accuracy", 1 - loss / 10},
                         {"val_loss", loss},
                         {"val_accuracy", 1 - loss / 10}};
      callback.on_epoch_end(*this, logs);
      rates.push_back(rate);
    }
    callback.on_train_end(*this);
    return epoch_;
  }

  double rate = 1;
  std::string stopped;
  std::vector<std::string> saved, warnings;
  bool full = false;
  std::vector<double> rates;
  std::int64_t kept = -1;
  bool restored = false;

 private:
  std::int64_t epoch_ = 0;
  History history_;
  MemoryReport memory_;
};

std::int64_t epochs_until_stop(const EarlyStopping& spec, const std::vector<double>& losses,
                               PaperRun& run) {
  return run.run(*make_callback(spec), losses);
}

TEST(EarlyStoppingTest, AsKeras) {
  const std::vector<double> losses = {5, 4, 4.1, 4.05, 3.9, 4, 4, 4};
  const auto stops = [&](const EarlyStopping& spec) {
    PaperRun run;
    return epochs_until_stop(spec, losses, run);
  };
  EXPECT_EQ(stops({}), 3);
  EXPECT_EQ(stops({.patience = 1}), 3);
  EXPECT_EQ(stops({.patience = 2}), 4);
  EXPECT_EQ(stops({.patience = 3}), 8);
  EXPECT_EQ(stops({.min_delta = 0.2, .patience = 3}), 5);
  EXPECT_EQ(stops({.patience = 1, .start_from_epoch = 4}), 6);
  EXPECT_EQ(stops({.monitor = "val_accuracy", .patience = 2}), 4);
  EXPECT_EQ(stops({.monitor = "val_loss", .patience = 1, .mode = "max"}), 2);
  EXPECT_EQ(stops({.patience = 2, .baseline = 1.0}), 3);
  EXPECT_EQ(stops({.patience = 100}), 8);
}

TEST(EarlyStoppingTest, BestWeights) {
  PaperRun run;
  EXPECT_EQ(epochs_until_stop({.patience = 2, .restore_best_weights = true}, {5, 3, 4, 6, 1}, run),
            4);
  EXPECT_EQ(run.kept, 1);
  EXPECT_TRUE(run.restored);
  EXPECT_NE(run.stopped.find("not become better than 3 of epoch 2"), std::string::npos)
      << run.stopped;
  PaperRun nan;
  EXPECT_EQ(
      epochs_until_stop({.patience = 2, .restore_best_weights = true}, {NAN, NAN, NAN, NAN}, nan),
      2);
  EXPECT_EQ(nan.kept, 0);
}

TEST(EarlyStoppingTest, BadArguments) {
  EXPECT_THROW(make_callback(EarlyStopping{.patience = -1}), ConfigError);
  EXPECT_THROW(make_callback(EarlyStopping{.mode = "up"}), ConfigError);
  PaperRun run;
  const auto callback = make_callback(EarlyStopping{.monitor = "val_f1"});
  EXPECT_THROW(callback->on_train_begin(run), ConfigError);
}

TEST(ReduceLROnPlateauTest, AsKeras) {
  PaperRun run;
  run.run(
      *make_callback(ReduceLROnPlateau{.factor = 0.5, .patience = 2, .cooldown = 1, .min_lr = 0.2}),
      {5, 5, 5, 5, 5, 5, 5, 5, 5, 5});
  EXPECT_EQ(run.rates, (std::vector<double>{1, 1, 0.5, 0.5, 0.25, 0.25, 0.2, 0.2, 0.2, 0.2}));
  EXPECT_THROW(make_callback(ReduceLROnPlateau{.factor = 1}), ConfigError);
}

TEST(LearningRateSchedulerTest, FunctionOrFactor) {
  PaperRun run;
  run.run(
      *make_callback(LearningRateScheduler{
          .schedule = [](std::int64_t epoch, double rate) { return epoch < 2 ? rate : rate / 2; }}),
      {1, 1, 1, 1});
  EXPECT_EQ(run.rates, (std::vector<double>{1, 1, 0.5, 0.25}));
  PaperRun other;
  other.run(*make_callback(LearningRateScheduler{.factor = 0.5, .start_from_epoch = 1}), {1, 1, 1});
  EXPECT_EQ(other.rates, (std::vector<double>{1, 0.5, 0.25}));
  PaperRun bad;
  EXPECT_THROW(bad.run(*make_callback(LearningRateScheduler{.factor = -1}), {1}), ConfigError);
}

TEST(ModelCheckpointTest, PatternsAndBest) {
  PaperRun all;
  all.run(*make_callback(ModelCheckpoint{.filepath = "w-{epoch:02d}-{val_loss:.2f}",
                                         .save_weights_only = true}),
          {3, 4, 2});
  EXPECT_EQ(all.saved, (std::vector<std::string>{"w w-01-3.00", "w w-02-4.00", "w w-03-2.00"}));
  PaperRun best;
  best.run(*make_callback(ModelCheckpoint{.filepath = "best", .save_best_only = true}),
           {3, 4, 2, 2, NAN});
  EXPECT_EQ(best.saved, (std::vector<std::string>{"c best", "c best"}));
  PaperRun threshold;
  threshold.run(*make_callback(ModelCheckpoint{
                    .filepath = "{{b}}", .save_best_only = true, .initial_value_threshold = 2.5}),
                {3, 4, 2});
  EXPECT_EQ(threshold.saved, (std::vector<std::string>{"c {b}"}));
  for (const char* pattern : {"", "{epoch", "{recall}", "{epoch:q}"}) {
    PaperRun run;
    EXPECT_THROW(run.run(*make_callback(ModelCheckpoint{.filepath = pattern}), {1}), ConfigError)
        << pattern;
  }
}

TEST(ModelCheckpointTest, AFullDiskIsNoReasonToLoseATraining) {
  PaperRun run;
  run.full = true;
  const auto callback = make_callback(
      ModelCheckpoint{.filepath = "best", .save_best_only = true, .save_weights_only = true});
  EXPECT_EQ(run.run(*callback, {3, 2}), 2);
  EXPECT_EQ(run.warnings.size(), 2u);
  EXPECT_TRUE(run.saved.empty());
}

TEST(ModelCheckpointTest, EveryFewSteps) {
  const TemporaryDirectory directory;
  Sequential model = tiny_model();
  FitOptions options = tiny_options(1);
  options.callbacks.push_back(
      ModelCheckpoint{.filepath = directory / "e{epoch}.safetensors", .save_freq = 4});
  tiny_fit(model, options);
  const CheckpointFile file = CheckpointFile::open(Env::posix(), directory / "e1.safetensors");
  EXPECT_EQ(file.step(), 4u);
  EXPECT_TRUE(file.contains("optimizer/velocity/dense/kernel"));
  // A checkpoint serves as weights too.
  Sequential other = tiny_model();
  other.load_weights(directory / "e1.safetensors");
}

TEST(CSVLoggerTest, OneLinePerEpoch) {
  const TemporaryDirectory directory;
  const std::string path = directory / "log.csv";
  FitOptions options = tiny_options(2);
  options.callbacks.push_back(CSVLogger{.filename = path});
  Sequential model = tiny_model();
  const History history = tiny_fit(model, options);
  std::ifstream file(path);
  std::string header, first;
  std::getline(file, header);
  std::getline(file, first);
  EXPECT_EQ(header, "epoch,accuracy,loss,val_accuracy,val_loss");
  EXPECT_EQ(first.substr(0, 2), "0,");
  const std::string before = read_file(Env::posix(), path);
  options.callbacks = {CSVLogger{.filename = path, .append = true}};
  tiny_fit(model, options);
  const std::string after = read_file(Env::posix(), path);
  EXPECT_TRUE(after.starts_with(before));
  EXPECT_EQ(std::count(after.begin(), after.end(), '\n'), 5);
}

TEST(LambdaCallbackTest, IsCalled) {
  std::string calls;
  Sequential model = tiny_model();
  FitOptions options = tiny_options(2);
  options.callbacks.push_back(
      LambdaCallback{.on_train_begin = [&](TrainState&) { calls += 'b'; },
                     .on_epoch_begin = [&](TrainState&) { calls += '<'; },
                     .on_train_end = [&](TrainState&) { calls += 'e'; },
                     .on_train_batch_end = [&](TrainState&, const Logs&) { calls += '.'; },
                     .on_epoch_end = [&](TrainState&, const Logs&) { calls += '>'; }});
  tiny_fit(model, options);
  EXPECT_EQ(calls, "b<......><......>e");
}

// A learning rate that makes the loss overflow after some steps.
class Explode final : public Callback {
 public:
  void on_train_batch_end(TrainState& state, const Logs&) override {
    if (state.step() == 8 && state.learning_rate() > 0.009) state.set_learning_rate(1e38);
  }
};

TEST(TerminateOnNaNTest, StopsOrRollsBack) {
  const auto fit = [](std::vector<CallbackHandle> callbacks, const std::string& run) {
    Sequential model = tiny_model();
    Explode explode;
    FitOptions options = tiny_options();
    options.run = run;
    options.checkpoint_every = "6steps";
    options.callbacks = std::move(callbacks);
    options.callbacks.push_back(&explode);
    return tiny_fit(model, options);
  };
  const TemporaryDirectory directory;
  EXPECT_THROW(fit({}, directory / "a"), NumericsError);
  const History stopped = fit({TerminateOnNaN{}}, directory / "b");
  EXPECT_EQ(stopped.epochs.size(), 2u);
  EXPECT_NE(stopped.stop_reason.find("NaN"), std::string::npos) << stopped.stop_reason;
  EXPECT_FALSE(stopped.interrupted);
  // Back to step 6 at half the rate, where nothing explodes.
  const History rolled = fit({TerminateOnNaN{.rollbacks = 2}}, directory / "c");
  EXPECT_EQ(rolled.epochs.size(), 3u);
  EXPECT_EQ(rolled.stop_reason, "");
  for (const auto& row : rolled.epochs) {
    for (const double value : row) EXPECT_TRUE(std::isfinite(value));
  }
}

// Each callback decides after a crash as without one.
TEST(CallbackState, SurvivesInterruptions) {
  const auto options_for = [](const std::string& csv) {
    FitOptions options = tiny_options(12);
    options.callbacks = {
        EarlyStopping{.monitor = "val_accuracy", .patience = 2, .restore_best_weights = true},
        ReduceLROnPlateau{.factor = 0.3, .patience = 1, .min_delta = 0.02},
        LearningRateScheduler{.factor = 1.3, .start_from_epoch = 1}, CSVLogger{.filename = csv}};
    return options;
  };
  const TemporaryDirectory directory;
  Sequential straight = tiny_model();
  const History want = tiny_fit(straight, options_for(directory / "want.csv"));
  EXPECT_LT(want.epochs.size(), 12u) << "the test needs an early stop";
  for (const std::int64_t every : {1, 5, 7}) {
    const std::string run = directory / ("run" + std::to_string(every)), csv = run + ".csv";
    for (std::int64_t step = every;; step += every) {
      FitOptions options = options_for(csv);
      InterruptAt interrupt(step);
      options.run = run;
      options.resume = true;
      options.callbacks.push_back(&interrupt);
      Sequential model = tiny_model();
      const History got = tiny_fit(model, options);
      if (got.interrupted) continue;
      EXPECT_TRUE(bits_of(model) == bits_of(straight)) << every;
      EXPECT_TRUE(got.epochs == want.epochs) << every;
      EXPECT_EQ(got.stop_reason, want.stop_reason);
      EXPECT_EQ(read_file(Env::posix(), csv), read_file(Env::posix(), directory / "want.csv"));
      break;
    }
  }
}

TEST(CallbackRegistry, ByName) {
  EXPECT_NE(
      CallbackHandle::from_config("early_stopping", {{"patience", ConfigValue(std::int64_t{3})}})
          .get(),
      nullptr);
  EXPECT_NE(CallbackHandle::from_config("ReduceLROnPlateau", {}).get(), nullptr);
  EXPECT_NE(
      CallbackHandle::from_config("model_checkpoint", {{"filepath", ConfigValue(std::string("x"))},
                                                       {"save_freq", ConfigValue(std::int64_t{5})}})
          .get(),
      nullptr);
  try {
    CallbackHandle::from_config("tensor_board", {});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("reduce_lr_on_plateau"), std::string::npos)
        << error.what();
  }
  EXPECT_THROW(
      CallbackHandle::from_config("early_stopping", {{"patients", ConfigValue(std::int64_t{3})}}),
      ConfigError);
}

}  // namespace
}  // namespace surefit
