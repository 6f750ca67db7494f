// SPDX-License-Identifier: Apache-2.0
// Layers one after the other.
#include <fmt/format.h>

#include "train/zoo/architectures.hpp"

namespace surefit::zoo {

// The seeds' CNN.
Model seed_cnn(const Shape& input, int classes) {
  return Sequential(
      input,
      {Conv2D{.filters = 32, .kernel_size = 3, .activation = "relu"}, MaxPooling2D{.pool_size = 2},
       Flatten{}, Dense{.units = classes, .activation = "softmax"}},
      "seed_cnn");
}

// LeCun et al. 1998, with relu and max pooling as it is built today.
Model lenet5(const Shape& input, int classes) {
  return Sequential(
      input,
      {Conv2D{.filters = 6, .kernel_size = 5, .padding = "same", .activation = "relu"},
       MaxPooling2D{}, Conv2D{.filters = 16, .kernel_size = 5, .activation = "relu"},
       MaxPooling2D{}, Flatten{}, Dense{.units = 120, .activation = "relu"},
       Dense{.units = 84, .activation = "relu"}, Dense{.units = classes, .activation = "softmax"}},
      "lenet5");
}

// Simonyan and Zisserman 2015.
Model vgg16(const Shape& input, int classes) {
  struct Block {
    int filters, convolutions;
  };
  std::vector<Layer> layers;
  int number = 0;
  for (const Block& block : {Block{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}) {
    ++number;
    for (int i = 1; i <= block.convolutions; ++i) {
      layers.emplace_back(Conv2D{.filters = block.filters,
                                 .kernel_size = 3,
                                 .padding = "same",
                                 .activation = "relu",
                                 .name = fmt::format("block{}_conv{}", number, i)});
    }
    layers.emplace_back(MaxPooling2D{.pool_size = 2, .name = fmt::format("block{}_pool", number)});
  }
  layers.emplace_back(Flatten{.name = "flatten"});
  layers.emplace_back(Dense{.units = 4096, .activation = "relu", .name = "fc1"});
  layers.emplace_back(Dense{.units = 4096, .activation = "relu", .name = "fc2"});
  layers.emplace_back(Dense{.units = classes, .activation = "softmax", .name = "predictions"});
  return Sequential(input, layers, "vgg16");
}

}  // namespace surefit::zoo
