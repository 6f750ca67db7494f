// SPDX-License-Identifier: Apache-2.0
// Ronneberger et al. 2015 with padding, half as wide: scores for every pixel.
#include <fmt/format.h>

#include "base/check.hpp"
#include "train/zoo/architectures.hpp"

namespace surefit::zoo {
namespace {

constexpr int kLevels = 4, kBase = 32;

Symbol twice(Symbol x, int filters, const std::string& name) {
  for (int i = 1; i <= 2; ++i) {
    x = Layer(Conv2D{.filters = filters,
                     .kernel_size = 3,
                     .padding = "same",
                     .activation = "relu",
                     .kernel_initializer = {"HeNormal"},
                     .name = fmt::format("{}_conv{}", name, i)})(x);
  }
  return x;
}

}  // namespace

// With one class the output is a probability per pixel, with more a softmax over them.
Model unet(const Shape& input, int classes) {
  constexpr int kGrain = 1 << kLevels;
  if (input[0] % kGrain != 0 || input[1] % kGrain != 0) {
    throw ConfigError(fmt::format("[unet] input; expected height and width divisible by {}; got {}",
                                  kGrain, input.to_string()));
  }
  const Symbol start = Input(input);
  Symbol x = start;
  std::vector<Symbol> skips;
  for (int level = 0; level < kLevels; ++level) {
    x = twice(x, kBase << level, fmt::format("down{}", level + 1));
    skips.push_back(x);
    x = Layer(MaxPooling2D{.name = fmt::format("down{}_pool", level + 1)})(x);
  }
  x = twice(x, kBase << kLevels, "bottom");
  for (int level = kLevels - 1; level >= 0; --level) {
    const std::string name = fmt::format("up{}", level + 1);
    x = Layer(Conv2DTranspose{.filters = kBase << level,
                              .kernel_size = 2,
                              .strides = 2,
                              .padding = "same",
                              .name = name + "_transpose"})(x);
    x = Layer(Concatenate{.name = name + "_concatenate"})(
        {skips[static_cast<std::size_t>(level)], x});
    x = twice(x, kBase << level, name);
  }
  x = Layer(Conv2D{.filters = classes,
                   .kernel_size = 1,
                   .activation = classes == 1 ? "sigmoid" : "softmax",
                   .name = "predictions"})(x);
  return Model({start}, {x}, "unet");
}

}  // namespace surefit::zoo
