// SPDX-License-Identifier: Apache-2.0
// After the first step training allocates nothing: every malloc of the process is counted, ours and
// the libraries'.
#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

#include "surefit/model.hpp"
#include "surefit/step.hpp"
#include "surefit/zoo.hpp"

#include "base/process_memory.hpp"
#include "support/malloc_counter.hpp"
#include "train/memory_watch.hpp"

namespace surefit {
namespace {

// Allocations between the ends of consecutive steps; the callback itself must not allocate.
class StepCounter final : public Callback {
 public:
  // `own`: only those of the training thread.
  explicit StepCounter(bool leak, bool own = false) : leak_(leak), own_(own) {
    per_step_.reserve(64);
  }
  void on_train_batch_end(TrainState&, const Logs&) override {
    const long now = own_ ? own_allocations : allocations.load();
    per_step_.push_back(now - last_);
    last_ = now;
    if (leak_)
      kept_.push_back(
          1);  // the negative control: allocates now and then, counted with the next step
  }
  const std::vector<long>& per_step() const { return per_step_; }

 private:
  bool leak_, own_;
  long last_ = 0;
  std::vector<long> per_step_;
  std::vector<int> kept_;
};

Tensor noise(const Shape& shape) {
  Tensor tensor(shape);
  unsigned state = 1;
  for (float& value : tensor.values<float>()) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) * 0x1p-24f;
  }
  return tensor;
}

long allocations_after_first_step(const std::string& name, const Shape& input, bool leak,
                                  Convolutions convolutions = kDefaultConvolutions) {
  Model model = zoo_model(name, {.input = input, .classes = 4});
  model.compile({.metrics = {"accuracy"}});
  std::vector<std::int32_t> labels;
  for (int i = 0; i < 30; ++i) labels.push_back(i % 4);
  StepCounter counter(leak);
  // Batches of 8, the last one ragged.
  model.fit(noise(input.prepend(30)), Tensor::of<std::int32_t>({30}, labels),
            {.batch_size = 8,
             .epochs = 3,
             .callbacks = {&counter},
             .threads = 2,
             .convolutions = convolutions});
  long sum = 0;
  // Between epochs the history grows; within one, nothing may.
  for (std::size_t step = 1; step < counter.per_step().size(); ++step) {
    if (step % 4 != 0) sum += counter.per_step()[step];
  }
  return sum;
}

TEST(Allocation, NothingAfterTheFirstStep) {
  EXPECT_EQ(allocations_after_first_step("seed_cnn", {28, 28, 1}, false), 0);
  EXPECT_EQ(allocations_after_first_step("lenet5", {28, 28, 1}, false), 0);
  EXPECT_EQ(allocations_after_first_step("resnet18", {16, 16, 3}, false, Convolutions::kExact), 0);
  EXPECT_EQ(allocations_after_first_step("resnet18", {16, 16, 3}, false, Convolutions::kWinograd),
            0);
}

// The thread that writes may allocate names and a header; the one that trains never waits for an
// allocator.
TEST(Allocation, CheckpointsCostTheTrainingThreadNone) {
  std::string directory =
      (std::filesystem::temp_directory_path() / "surefit-allocation-XXXXXX").string();
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  Model model = zoo_model("seed_cnn", {.input = {28, 28, 1}, .classes = 4});
  model.compile({.metrics = {"accuracy"}});
  std::vector<std::int32_t> labels(30, 1);
  StepCounter counter(false, true);
  FitOptions options{.batch_size = 8, .epochs = 3, .threads = 2};
  options.callbacks = {&counter, EarlyStopping{.monitor = "loss", .restore_best_weights = true}};
  options.run = directory;
  options.checkpoint_every = "1step";
  model.fit(noise({30, 28, 28, 1}), Tensor::of<std::int32_t>({30}, labels), options);
  EXPECT_GE(std::distance(std::filesystem::directory_iterator(directory + "/checkpoints"), {}), 2);
  std::filesystem::remove_all(directory);
  for (std::size_t step = 1; step < counter.per_step().size(); ++step) {
    if (step % 4 != 0) {
      EXPECT_EQ(counter.per_step()[step], 0) << "step " << step;
    }
  }
}

// Steps of a user's own: accumulate, clip, apply, over and over.
TEST(Allocation, TracedStepsTakeNothingFromTheHeap) {
  Sequential model({12, 12, 1}, {Conv2D{.filters = 8, .kernel_size = 3, .activation = "relu"},
                                 BatchNormalization{}, MaxPooling2D{}, Flatten{},
                                 Dense{.units = 2, .activation = "softmax"}});
  model.compile({});
  GradientSum sum(model);
  Step micro({.batch_size = 4, .threads = 1}, [&](Tape& tape) {
    const Traced x = tape.input({12, 12, 1}), y = tape.input({}, DType::kInt32);
    const LossValue loss = tape.loss("sparse_categorical_crossentropy", y, tape.call(model, x));
    tape.output("loss", loss);
    tape.accumulate(sum, tape.gradient(loss, model) * 0.5);
    return loss;
  });
  Step apply({.threads = 1},
             [&](Tape& tape) { tape.apply(model, clip_by_global_norm(tape.take(sum), 1)); });
  const Tensor x = noise({4, 12, 12, 1}), few = noise({3, 12, 12, 1});
  const Tensor y({4}, DType::kInt32), less({3}, DType::kInt32);
  const auto round = [&] {
    micro(x, y);
    micro(few, less);  // ragged
    apply();
  };
  for (int i = 0; i < 100; ++i) round();
  const long before = allocations.load();
  const std::uint64_t resident = read_process_memory().resident_bytes;
  constexpr int kRounds = 33334;  // a hundred thousand calls
  for (int i = 0; i < kRounds; ++i) round();
  // Reading the process's memory allocates; nothing else may.
  const long counted = allocations.load() - before;
  const long own = [] {
    const long start = allocations.load();
    read_process_memory();
    return allocations.load() - start;
  }();
  EXPECT_EQ(counted, own);
  EXPECT_LT(read_process_memory().resident_bytes, resident + (256 << 10));
  EXPECT_EQ(micro.calls(), 2 * (kRounds + 100));
}

// Between steps the loop reads a dozen small files of the kernel.
TEST(Allocation, LookingAtMemoryCostsNone) {
  const std::shared_ptr<HeadroomSource> source = system_headroom();
  source->read();
  const long before = own_allocations;
  for (int i = 0; i < 10; ++i) EXPECT_GT(source->read().bytes, 0u);
  EXPECT_EQ(own_allocations - before, 0);
}

TEST(Allocation, OneAllocationIsNoticed) {
  EXPECT_GT(allocations_after_first_step("seed_cnn", {28, 28, 1}, true), 0);
}

}  // namespace
}  // namespace surefit
