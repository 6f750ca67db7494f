// SPDX-License-Identifier: Apache-2.0
// A small training with everything that has state: batch normalization, dropout, Adam, shuffling,
// metrics.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <stdlib.h>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "surefit/model.hpp"

namespace surefit {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "surefit-train-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Numbers without a pattern that a kernel could be right about by chance.
inline Tensor waves(const Shape& shape, double step) {
  Tensor tensor(shape);
  for (std::size_t i = 0; i < tensor.count(); ++i)
    tensor.values<float>()[i] = static_cast<float>(std::sin(step * static_cast<double>(i + 1)));
  return tensor;
}

inline void expect_same_bits(const Model& a, const Model& b) {
  for (const std::string& name : a.parameter_names()) {
    const Tensor left = a.parameter(name), right = b.parameter(name);
    EXPECT_TRUE(std::equal(left.raw().begin(), left.raw().end(), right.raw().begin())) << name;
  }
}

struct TinyData {
  Tensor x{{44, 6, 6, 1}}, y{{44}, DType::kInt32};
  TinyData() {
    unsigned state = 7;
    for (float& value : x.values<float>()) {
      state = state * 1664525u + 1013904223u;
      value = static_cast<float>(state >> 8) * 0x1p-24f;
    }
    for (int n = 0; n < 44; ++n) {
      y.at<std::int32_t>({n}) = n % 3;
      x.at<float>({n, n % 3, 2, 0}) += 0.7f;
    }
  }
};

inline Sequential tiny_model(std::int64_t filters = 4) {
  Sequential model(
      {6, 6, 1},
      {Conv2D{.filters = static_cast<int>(filters), .kernel_size = 3, .activation = "relu"},
       BatchNormalization{}, Dropout{.rate = 0.25}, Flatten{},
       Dense{.units = 3, .activation = "softmax"}});
  model.compile({.optimizer = Adam{.learning_rate = 0.01},
                 .loss = "sparse_categorical_crossentropy",
                 .metrics = {"accuracy"}});
  return model;
}

// Batches of 8: six steps per epoch, the last one ragged.
inline FitOptions tiny_options(std::int64_t epochs = 3) {
  const TinyData data;
  FitOptions options{.batch_size = 8, .epochs = epochs, .seed = 5, .threads = 1};
  options.validation_data = Dataset::from_tensor_slices(data.x, data.y).batch(16);
  return options;
}

inline History tiny_fit(Model& model, const FitOptions& options) {
  const TinyData data;
  return model.fit(data.x, data.y, options);
}

// Every parameter's bytes.
inline std::vector<std::string> bits_of(const Model& model) {
  std::vector<std::string> bits;
  for (const std::string& name : model.parameter_names()) {
    const Tensor value = model.parameter(name);
    bits.emplace_back(reinterpret_cast<const char*>(value.raw().data()), value.bytes());
  }
  return bits;
}

// Stops behind a number of steps, as a signal would.
class InterruptAt final : public Callback {
 public:
  explicit InterruptAt(std::int64_t step, bool in_validation = false)
      : step_(step), in_validation_(in_validation) {}
  void on_train_batch_end(TrainState& state, const Logs&) override {
    if (!in_validation_ && state.step() == step_) state.interrupt("test");
  }
  void on_test_batch_end(TrainState& state) override {
    if (in_validation_ && state.step() == step_) state.interrupt("test");
  }

 private:
  std::int64_t step_;
  bool in_validation_;
};

}  // namespace surefit
