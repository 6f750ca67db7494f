// SPDX-License-Identifier: Apache-2.0
// A training that is stopped and resumed ends in the bits of one that never stopped.
#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>

#include "surefit/error.hpp"

#include "base/env.hpp"
#include "ckpt/generations.hpp"
#include "interop/json.hpp"
#include "train/model_impl.hpp"
#include "train/support.hpp"
#include "train/trainer.hpp"

namespace surefit {
namespace {

struct Result {
  std::vector<std::string> bits;
  History history;
};

Result uninterrupted(std::int64_t epochs = 3) {
  Sequential model = tiny_model();
  const History history = tiny_fit(model, tiny_options(epochs));
  return {bits_of(model), history};
}

void expect_same(const Result& got, const Result& want, const std::string& what) {
  EXPECT_TRUE(got.bits == want.bits) << what;
  EXPECT_EQ(got.history.names, want.history.names) << what;
  EXPECT_TRUE(got.history.epochs == want.history.epochs) << what;
}

Result resume(const std::string& run, FitOptions options = tiny_options()) {
  Sequential model = tiny_model();
  options.run = run;
  options.resume = true;
  const History history = tiny_fit(model, options);
  return {bits_of(model), history};
}

void interrupt_at(const std::string& run, std::int64_t step, bool in_validation,
                  FitOptions options = tiny_options()) {
  InterruptAt interrupt(step, in_validation);
  Sequential model = tiny_model();
  options.run = run;
  options.resume = true;
  options.callbacks.push_back(&interrupt);
  const History history = tiny_fit(model, options);
  EXPECT_TRUE(history.interrupted);
}

TEST(Resume, FromEveryStep) {
  const Result want = uninterrupted();
  for (std::int64_t step = 1; step <= 18; ++step) {
    for (const bool staging : {true, false}) {
      const TemporaryDirectory directory;
      FitOptions options = tiny_options();
      options.checkpoint_staging = staging;
      interrupt_at(directory / "run", step, false, options);
      expect_same(resume(directory / "run"), want, "step " + std::to_string(step));
    }
  }
}

TEST(Resume, FromWithinValidation) {
  const Result want = uninterrupted();
  for (const std::int64_t step : {6, 12, 18}) {
    const TemporaryDirectory directory;
    interrupt_at(directory / "run", step, true);
    expect_same(resume(directory / "run"), want, "step " + std::to_string(step));
  }
}

TEST(Resume, AgainAndAgain) {
  const TemporaryDirectory directory;
  for (std::int64_t step = 1; step < 18; ++step) interrupt_at(directory / "run", step, false);
  expect_same(resume(directory / "run"), uninterrupted(), "17 interruptions");
}

// Only what was saved on the way is there, as after a kill.
TEST(Resume, FromPeriodicCheckpoints) {
  const Result want = uninterrupted();
  for (const char* every : {"1step", "4steps", "1epoch"}) {
    const TemporaryDirectory directory;
    FitOptions options = tiny_options();
    options.run = directory / "run";
    options.checkpoint_every = every;
    options.keep = 100;
    Sequential model = tiny_model();
    tiny_fit(model, options);
    std::vector<std::string> names = Env::posix().list(directory / "run/checkpoints");
    EXPECT_GE(names.size(), 3u) << every;
    while (!names.empty()) {
      std::filesystem::remove(directory / "run/checkpoints/" + names.back());
      names.pop_back();
      expect_same(resume(directory / "run"), want,
                  every + std::string(", left ") + std::to_string(names.size()));
      // The resumed run wrote its own again.
      for (const std::string& name : Env::posix().list(directory / "run/checkpoints")) {
        if (std::find(names.begin(), names.end(), name) == names.end())
          std::filesystem::remove(directory / "run/checkpoints/" + name);
      }
    }
  }
}

// Negative control: with another position, or other sums, the bits or the history differ, and this
// test sees it.
TEST(Resume, TheStateIsNeeded) {
  const Result want = uninterrupted();
  for (const char* member : {"position", "scores", "learning_rate", "step"}) {
    const TemporaryDirectory directory;
    interrupt_at(directory / "run", 9, false);
    const FoundCheckpoint found = find_newest(Env::posix(), directory / "run/checkpoints");
    ASSERT_TRUE(found.file);
    Json state = parse_json(found.file->state(), "state");
    if (state[member].is_array()) {
      for (Json& number : state[member]) number = 0;
    } else {
      state[member] = std::string(member) == "learning_rate" ? Json(0.02) : Json(1);
    }
    // The same tensors, another state.
    class Copy final : public TensorSource {
     public:
      explicit Copy(const CheckpointFile& file) : file_(file) {}
      std::span<const std::byte> tensor(std::size_t index) override {
        bytes_.resize(file_.entry(file_.names()[index]).bytes);
        file_.read_into(file_.names()[index], bytes_);
        return bytes_;
      }

     private:
      const CheckpointFile& file_;
      std::vector<std::byte> bytes_;
    } copy(*found.file);
    std::vector<SafetensorsSpec> specs;
    for (const std::string& name : found.file->names())
      specs.push_back({name, DType::kFloat32, found.file->entry(name).shape});
    write_checkpoint(Env::posix(), found.file->path(),
                     {.tensors = specs, .step = 9, .state = dump_json(state)}, copy);
    const Result got = resume(directory / "run");
    EXPECT_FALSE(got.bits == want.bits && got.history.epochs == want.history.epochs) << member;
  }
}

TEST(Resume, ADamagedCheckpointIsSkippedAndTold) {
  const TemporaryDirectory directory;
  interrupt_at(directory / "run", 4, false);
  interrupt_at(directory / "run", 11, false);
  const std::string path = directory / "run/checkpoints/step-00000011.safetensors";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  std::vector<std::string> warnings;
  class Listener final : public Callback {
   public:
    explicit Listener(std::vector<std::string>& warnings) : warnings_(warnings) {}
    void on_warning(TrainState&, const std::string& text) override { warnings_.push_back(text); }
    void on_resume(TrainState& state) override {
      warnings_.push_back("resumed at " + std::to_string(state.step()));
    }

   private:
    std::vector<std::string>& warnings_;
  } listener(warnings);
  FitOptions options = tiny_options();
  options.callbacks.push_back(&listener);
  expect_same(resume(directory / "run", options), uninterrupted(), "fallback");
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_NE(warnings[0].find("step-00000011"), std::string::npos) << warnings[0];
  EXPECT_EQ(warnings[1], "resumed at 4");
}

TEST(Resume, WithoutACheckpointStartsAtTheBeginning) {
  const TemporaryDirectory directory;
  expect_same(resume(directory / "new"), uninterrupted(), "no checkpoint");
}

TEST(Resume, MoreEpochsAfterAFinishedRun) {
  const TemporaryDirectory directory;
  resume(directory / "run", tiny_options(2));
  expect_same(resume(directory / "run", tiny_options(4)), uninterrupted(4), "2 then 4");
  expect_same(resume(directory / "run", tiny_options(4)), uninterrupted(4), "nothing left to do");
}

TEST(Resume, MoreStepsAfterAStepLimit) {
  const TemporaryDirectory directory;
  FitOptions options = tiny_options();
  options.max_steps = 8;
  resume(directory / "run", options);
  expect_same(resume(directory / "run"), uninterrupted(), "8 steps, then all");
}

TEST(Resume, NothingIsOverwritten) {
  const TemporaryDirectory directory;
  interrupt_at(directory / "run", 3, false);
  FitOptions options = tiny_options();
  options.run = directory / "run";
  Sequential model = tiny_model();
  EXPECT_THROW(tiny_fit(model, options), ConfigError);
}

std::string refusal(const std::string& run, Model model, const FitOptions& given,
                    const TinyData& data = {}) {
  FitOptions options = given;
  options.run = run;
  options.resume = true;
  const auto before = bits_of(model);
  try {
    model.fit(data.x, data.y, options);
  } catch (const ConfigError& error) {
    EXPECT_TRUE(bits_of(model) == before) << "a refused resume must not touch the model";
    return error.what();
  }
  return "";
}

TEST(Resume, DifferencesAreShownAndRefused) {
  const TemporaryDirectory directory;
  interrupt_at(directory / "run", 9, false);
  const std::string run = directory / "run";
  EXPECT_NE(refusal(run, tiny_model(5), tiny_options()).find("layer conv2d: was Conv2D"),
            std::string::npos);
  FitOptions seed = tiny_options();
  seed.seed = 6;
  EXPECT_NE(refusal(run, tiny_model(), seed).find("seed: was 5, now 6"), std::string::npos);
  FitOptions batch = tiny_options();
  batch.batch_size = 9;
  EXPECT_NE(refusal(run, tiny_model(), batch).find("the pipeline differs"), std::string::npos);
  FitOptions exact = tiny_options();
  exact.convolutions = Convolutions::kExact;
  EXPECT_NE(refusal(run, tiny_model(), exact).find("convolutions: was winograd, now direct"),
            std::string::npos);
  Sequential optimizer = tiny_model();
  optimizer.compile({.optimizer = "sgd", .metrics = {"accuracy"}});
  EXPECT_NE(refusal(run, std::move(optimizer), tiny_options()).find("optimizer: was Adam"),
            std::string::npos);
  TinyData changed;
  changed.x.at<float>({3, 3, 3, 0}) += 1;
  EXPECT_NE(
      refusal(run, tiny_model(), tiny_options(), changed).find("changed since the checkpoint"),
      std::string::npos);
  // And all of it is still there.
  expect_same(resume(run), uninterrupted(), "after refusals");
}

TEST(Resume, AdaptingTakesWhatFits) {
  const TemporaryDirectory directory;
  interrupt_at(directory / "run", 9, false);
  Sequential model = tiny_model(5);
  FitOptions options = tiny_options();
  options.run = directory / "run";
  options.resume = options.adapt = true;
  const History history = tiny_fit(model, options);
  EXPECT_EQ(history.epochs.size(), 3u);
}

TEST(Resume, TwoTrainersInOneRunAreRefused) {
  const TemporaryDirectory directory;
  const RunLock lock(directory / "run");
  EXPECT_THROW(resume(directory / "run"), ConfigError);
}

TEST(Resume, MemoryForCheckpointsIsKnownBeforeTheFirstStep) {
  const TemporaryDirectory directory;
  const TinyData data;
  FitOptions options = tiny_options();
  options.run = directory / "run";
  options.callbacks.push_back(EarlyStopping{.restore_best_weights = true});
  Sequential model = tiny_model();
  const Dataset batches = Dataset::from_tensor_slices(data.x, data.y).batch(8);
  std::size_t weights = 0;
  for (const std::string& bits : bits_of(model)) weights += bits.size();
  {
    const Trainer trainer(model.impl(), batches, options);
    EXPECT_GE(trainer.checkpoint_staging_bytes(), 3 * weights);
    EXPECT_GE(trainer.kept_weights_bytes(), weights);
  }
  options.checkpoint_staging = false;
  const Trainer streaming(model.impl(), batches, options);
  EXPECT_LE(streaming.checkpoint_staging_bytes(), 4096u);
}

}  // namespace
}  // namespace surefit
