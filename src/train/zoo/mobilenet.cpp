// SPDX-License-Identifier: Apache-2.0
// Sandler et al. 2018, width 1.0, as in Keras's applications.
#include <fmt/format.h>

#include "train/zoo/architectures.hpp"

namespace surefit::zoo {
namespace {

Symbol normalise(const Symbol& x, const std::string& name) {
  return Layer(BatchNormalization{.momentum = 0.999, .name = name})(x);
}
Symbol relu6(const Symbol& x, const std::string& name) {
  return Layer(ReLU{.max_value = 6.0, .name = name})(x);
}
Symbol pointwise(const Symbol& x, int filters, const std::string& name) {
  return Layer(Conv2D{
      .filters = filters, .kernel_size = 1, .padding = "same", .use_bias = false, .name = name})(x);
}

// What a window of three with stride two needs to see all of an even or odd side.
Sides stride_padding(const Shape& picture) {
  const int top = picture[0] % 2 == 0 ? 0 : 1, left = picture[1] % 2 == 0 ? 0 : 1;
  return {top, 1, left, 1};
}

Symbol inverted_residual(const Symbol& x, int filters, int stride, int expansion, int number) {
  const std::string name = number == 0 ? "expanded_conv" : fmt::format("block_{}", number);
  const auto channels = static_cast<int>(x.shape()[2]);
  Symbol y = x;
  if (expansion != 1) {
    y = pointwise(y, channels * expansion, name + "_expand");
    y = relu6(normalise(y, name + "_expand_BN"), name + "_expand_relu");
  }
  if (stride == 2)
    y = Layer(ZeroPadding2D{.padding = stride_padding(y.shape()), .name = name + "_pad"})(y);
  y = Layer(DepthwiseConv2D{.kernel_size = 3,
                            .strides = stride,
                            .padding = stride == 1 ? "same" : "valid",
                            .use_bias = false,
                            .name = name + "_depthwise"})(y);
  y = relu6(normalise(y, name + "_depthwise_BN"), name + "_depthwise_relu");
  y = normalise(pointwise(y, filters, name + "_project"), name + "_project_BN");
  return stride == 1 && channels == filters ? Layer(Add{.name = name + "_add"})({x, y}) : y;
}

}  // namespace

Model mobilenet_v2(const Shape& input, int classes) {
  struct Stage {
    int filters, blocks, stride, expansion;
  };
  const Symbol start = Input(input);
  Symbol x = Layer(Conv2D{.filters = 32,
                          .kernel_size = 3,
                          .strides = 2,
                          .padding = "same",
                          .use_bias = false,
                          .name = "Conv1"})(start);
  x = relu6(normalise(x, "bn_Conv1"), "Conv1_relu");
  int number = 0;
  for (const Stage& stage : {Stage{16, 1, 1, 1},
                             {24, 2, 2, 6},
                             {32, 3, 2, 6},
                             {64, 4, 2, 6},
                             {96, 3, 1, 6},
                             {160, 3, 2, 6},
                             {320, 1, 1, 6}}) {
    for (int block = 0; block < stage.blocks; ++block) {
      x = inverted_residual(x, stage.filters, block == 0 ? stage.stride : 1, stage.expansion,
                            number++);
    }
  }
  x = relu6(
      normalise(
          Layer(Conv2D{.filters = 1280, .kernel_size = 1, .use_bias = false, .name = "Conv_1"})(x),
          "Conv_1_bn"),
      "out_relu");
  x = Layer(GlobalAveragePooling2D{})(x);
  x = Layer(Dense{.units = classes, .activation = "softmax", .name = "predictions"})(x);
  return Model({start}, {x}, "mobilenet_v2");
}

}  // namespace surefit::zoo
