// SPDX-License-Identifier: Apache-2.0
#include "surefit/zoo.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace surefit {
namespace {

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

Symbol conv_bn(const Symbol& x, int filters, int kernel, int stride) {
  const Symbol y = Layer(Conv2D{.filters = filters,
                                .kernel_size = kernel,
                                .strides = stride,
                                .padding = "same",
                                .use_bias = false,
                                .kernel_initializer = {"HeNormal"}})(x);
  return Layer(BatchNormalization{})(y);
}

Symbol basic_block(const Symbol& x, int filters, int stride) {
  Symbol y = Layer(ReLU{})(conv_bn(x, filters, 3, stride));
  y = conv_bn(y, filters, 3, 1);
  const bool same = stride == 1 && x.shape()[2] == filters;
  const Symbol shortcut = same ? x : conv_bn(x, filters, 1, stride);
  return Layer(ReLU{})(Layer(Add{})({y, shortcut}));
}

// He et al. 2016. Small pictures keep their size in the stem: 3x3 without pooling up to 64 pixels,
// 7x7 above.
Model resnet18(const Shape& input, int classes) {
  const Symbol start = Input(input);
  const bool small = input[0] <= 64 && input[1] <= 64;
  Symbol x = Layer(ReLU{})(conv_bn(start, 64, small ? 3 : 7, small ? 1 : 2));
  if (!small) x = Layer(MaxPooling2D{.pool_size = 3, .padding = "same", .strides = Pair(2)})(x);
  for (int stage = 0; stage < 4; ++stage) {
    for (int block = 0; block < 2; ++block)
      x = basic_block(x, 64 << stage, stage > 0 && block == 0 ? 2 : 1);
  }
  x = Layer(GlobalAveragePooling2D{})(x);
  x = Layer(Dense{.units = classes, .activation = "softmax"})(x);
  return Model({start}, {x}, "resnet18");
}

struct Entry {
  const char* name;
  Shape input;
  int classes;
  Model (*make)(const Shape& input, int classes);
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> list = {{"seed_cnn", Shape{28, 28, 1}, 10, seed_cnn},
                                          {"lenet5", Shape{28, 28, 1}, 10, lenet5},
                                          {"resnet18", Shape{32, 32, 3}, 10, resnet18}};
  return list;
}

}  // namespace

std::vector<std::string> zoo_names() {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) names.emplace_back(entry.name);
  return names;
}

Model zoo_model(const std::string& name, const ZooOptions& options) {
  for (const Entry& entry : entries()) {
    if (name != entry.name) continue;
    const Shape input = options.input.rank() == 0 ? entry.input : options.input;
    if (input.rank() != 3)
      throw ConfigError(fmt::format("[input] expected HxWxC; got {}", input.to_string()));
    if (options.classes < 0 || options.classes == 1 || options.classes > 1000000) {
      throw ConfigError(fmt::format("[classes] expected 2 or more; got {}", options.classes));
    }
    return entry.make(input,
                      options.classes > 0 ? static_cast<int>(options.classes) : entry.classes);
  }
  throw ConfigError(fmt::format("[model] unknown model '{}'; expected a .json file or one of: {}",
                                name, fmt::join(zoo_names(), ", ")));
}

}  // namespace surefit
