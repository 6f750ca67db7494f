// SPDX-License-Identifier: Apache-2.0
// He et al. 2016.
#include <fmt/format.h>

#include "train/zoo/architectures.hpp"

namespace surefit::zoo {
namespace {

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

// As in Keras's applications: biases although normalization follows, and an epsilon of its own.
Symbol named_conv_bn(const Symbol& x, int filters, int kernel, int stride,
                     const std::string& name) {
  const Symbol y = Layer(Conv2D{.filters = filters,
                                .kernel_size = kernel,
                                .strides = stride,
                                .padding = kernel == 3 ? "same" : "valid",
                                .name = name + "_conv"})(x);
  return Layer(BatchNormalization{.epsilon = 1.001e-5, .name = name + "_bn"})(y);
}

Symbol named_relu(const Symbol& x, const std::string& name) {
  return Layer(Activation{.activation = "relu", .name = name})(x);
}

Symbol bottleneck(const Symbol& x, int filters, int stride, bool project, const std::string& name) {
  const Symbol shortcut = project ? named_conv_bn(x, 4 * filters, 1, stride, name + "_0") : x;
  Symbol y = named_relu(named_conv_bn(x, filters, 1, stride, name + "_1"), name + "_1_relu");
  y = named_relu(named_conv_bn(y, filters, 3, 1, name + "_2"), name + "_2_relu");
  y = named_conv_bn(y, 4 * filters, 1, 1, name + "_3");
  return named_relu(Layer(Add{.name = name + "_add"})({shortcut, y}), name + "_out");
}

}  // namespace

// Small pictures keep their size in the stem: 3x3 without pooling up to 64 pixels, 7x7 above.
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

Model resnet50(const Shape& input, int classes) {
  const Symbol start = Input(input);
  Symbol x = Layer(ZeroPadding2D{.padding = 3, .name = "conv1_pad"})(start);
  x = named_relu(named_conv_bn(x, 64, 7, 2, "conv1"), "conv1_relu");
  x = Layer(ZeroPadding2D{.padding = 1, .name = "pool1_pad"})(x);
  x = Layer(MaxPooling2D{.pool_size = 3, .strides = Pair(2), .name = "pool1_pool"})(x);
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    for (int block = 0; block < blocks[stage]; ++block) {
      const bool first = block == 0;
      x = bottleneck(x, 64 << stage, first && stage > 0 ? 2 : 1, first,
                     fmt::format("conv{}_block{}", stage + 2, block + 1));
    }
  }
  x = Layer(GlobalAveragePooling2D{.name = "avg_pool"})(x);
  x = Layer(Dense{.units = classes, .activation = "softmax", .name = "predictions"})(x);
  return Model({start}, {x}, "resnet50");
}

}  // namespace surefit::zoo
