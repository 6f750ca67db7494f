// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "ckpt/saver.hpp"

namespace surefit {

inline const std::vector<SafetensorsSpec>& test_tensors() {
  static const std::vector<SafetensorsSpec> specs = {
      {"conv2d/kernel", DType::kFloat32, {3, 3, 1, 40}},
      {"conv2d/bias", DType::kFloat32, {40}},
      {"empty", DType::kFloat32, {0}},
      {"optimizer/m/conv2d/kernel", DType::kFloat32, {3, 3, 1, 40}}};
  return specs;
}

// Tensors whose every number tells their step.
class TestSource final : public TensorSource {
 public:
  explicit TestSource(std::uint64_t step, bool finite = true) {
    for (std::size_t t = 0; t < test_tensors().size(); ++t) {
      std::vector<float> values(test_tensors()[t].shape.count());
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] =
            static_cast<float>(step) + static_cast<float>(i) * 0.001f + static_cast<float>(t) * 100;
      }
      if (!finite && t == 1) values[7] = std::numeric_limits<float>::infinity();
      tensors_.push_back(std::move(values));
    }
  }
  std::span<const std::byte> tensor(std::size_t index) override {
    return std::as_bytes(std::span(tensors_[index]));
  }

 private:
  std::vector<std::vector<float>> tensors_;
};

inline std::string test_state(std::uint64_t step) {
  return "{\"step\":" + std::to_string(step) + ",\"text\":\"" +
         std::string(700, static_cast<char>('a' + step % 26)) + "\"}";
}

// Whether the file holds exactly what was saved at its step: no mixture of two.
inline bool is_whole(const CheckpointFile& file) {
  TestSource expected(file.step());
  if (file.state() != test_state(file.step()) || file.names().size() != test_tensors().size())
    return false;
  for (std::size_t i = 0; i < test_tensors().size(); ++i) {
    const auto want = expected.tensor(i);
    std::vector<std::byte> got(want.size());
    file.read_into(test_tensors()[i].name, got);
    if (!std::equal(got.begin(), got.end(), want.begin())) return false;
  }
  return true;
}

}  // namespace surefit
