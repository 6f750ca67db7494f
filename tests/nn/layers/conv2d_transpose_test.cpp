// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/reference.hpp"

namespace surefit::conformance {
namespace {

// Every input pixel spreads the kernel over the output, strides apart; "same" cuts the sides off.
Reference transpose_reference(const Conv2DTranspose& spec) {
  return [spec](const std::vector<Array>& inputs, const Parameters& parameters) {
    const Array& x = inputs[0];
    const Array& kernel = parameters.at("kernel");
    const bool same = spec.padding == "same";
    const auto extent = [&](std::int64_t in, int k, int stride, int dilation) {
      const std::int64_t reach = std::int64_t{k - 1} * dilation + 1;
      return in * stride + (same ? 0 : std::max<std::int64_t>(reach - stride, 0));
    };
    Array y({x.shape[0],
             extent(x.shape[1], spec.kernel_size.h, spec.strides.h, spec.dilation_rate.h),
             extent(x.shape[2], spec.kernel_size.w, spec.strides.w, spec.dilation_rate.w),
             spec.filters});
    const Window window = {spec.kernel_size, spec.strides, spec.dilation_rate, same};
    // The taps of the convolution that leads from y to x.
    for_each_tap(y.shape, window, [&](auto n, auto oh, auto ow, int kh, int kw, auto h, auto w) {
      if (oh >= x.shape[1] || ow >= x.shape[2]) return;
      for (std::int64_t i = 0; i < x.shape[3]; ++i) {
        for (std::int64_t o = 0; o < spec.filters; ++o)
          y.at(n, h, w, o) += x.at(n, oh, ow, i) * kernel.at(kh, kw, o, i);
      }
    });
    if (spec.use_bias) add_bias(y, parameters.at("bias"));
    return activate(std::move(y), spec.activation);
  };
}

LayerCase conv(std::string name, Shape input, const Conv2DTranspose& spec) {
  return {.name = std::move(name),
          .layer = spec,
          .inputs = {std::move(input)},
          .reference = transpose_reference(spec)};
}

std::vector<LayerCase> cases() {
  std::vector<LayerCase> list = {
      conv("double", {4, 3, 8}, {.filters = 13, .kernel_size = 2, .strides = 2, .padding = "same"}),
      conv("double_valid_relu", {3, 4, 13},
           {.filters = 5, .kernel_size = 3, .strides = 2, .activation = "relu"}),
      conv("double_same", {4, 3, 5},
           {.filters = 8, .kernel_size = 3, .strides = 2, .padding = "same", .use_bias = false}),
      conv("plain_same", {5, 4, 3}, {.filters = 8, .kernel_size = 3, .padding = "same"}),
      conv("plain_valid", {4, 4, 1}, {.filters = 1, .kernel_size = {2, 3}}),
      conv("stride_beyond_kernel", {3, 3, 8}, {.filters = 5, .kernel_size = 2, .strides = 3}),
      conv("stride_beyond_kernel_same", {3, 2, 8},
           {.filters = 8, .kernel_size = 1, .strides = 2, .padding = "same"}),
      conv("dilated", {4, 5, 8}, {.filters = 3, .kernel_size = 3, .dilation_rate = 2}),
      conv("sigmoid_thirteen", {3, 3, 8},
           {.filters = 13, .kernel_size = 2, .strides = 2, .activation = "sigmoid"}),
  };
  list[0].invalid = {
      {"filters", std::int64_t{0}},         {"kernel_size", std::int64_t{0}},
      {"strides", std::int64_t{0}},         {"padding", std::string("full")},
      {"dilation_rate", std::int64_t{2}},  // not together with strides
      {"activation", std::string("reelu")}, {"data_format", std::string("channels_first")}};
  return list;
}

const bool kAdded = add_conformance("Conv2DTranspose", cases);

}  // namespace
}  // namespace surefit::conformance
