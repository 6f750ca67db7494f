// SPDX-License-Identifier: Apache-2.0
// Plain double loops that several layers' references share.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "support/layer_conformance.hpp"

namespace surefit::conformance {

// Keras's window arithmetic, written down a second time.
struct Axis {
  std::int64_t out = 0, pad = 0;
};
inline Axis axis_of(std::int64_t in, int kernel, int stride, int dilation, bool same) {
  const std::int64_t reach = std::int64_t{kernel - 1} * dilation + 1;
  if (!same) return {(in - reach + stride) / stride, 0};
  const std::int64_t out = (in + stride - 1) / stride;
  return {out, std::max<std::int64_t>(0, (out - 1) * stride + reach - in) / 2};
}

struct Window {
  Pair kernel, stride, dilation = 1;
  bool same = false;
};

// Calls visit(n, oh, ow, kh, kw, h, w) for every tap inside the picture.
template <typename Visit>
void for_each_tap(const Shape& in, const Window& window, const Visit& visit) {
  const Axis v = axis_of(in[1], window.kernel.h, window.stride.h, window.dilation.h, window.same);
  const Axis u = axis_of(in[2], window.kernel.w, window.stride.w, window.dilation.w, window.same);
  for (std::int64_t n = 0; n < in[0]; ++n) {
    for (std::int64_t oh = 0; oh < v.out; ++oh) {
      for (std::int64_t ow = 0; ow < u.out; ++ow) {
        for (int kh = 0; kh < window.kernel.h; ++kh) {
          for (int kw = 0; kw < window.kernel.w; ++kw) {
            const std::int64_t h = oh * window.stride.h - v.pad + kh * window.dilation.h;
            const std::int64_t w = ow * window.stride.w - u.pad + kw * window.dilation.w;
            if (h < 0 || w < 0 || h >= in[1] || w >= in[2]) continue;
            visit(n, oh, ow, kh, kw, h, w);
          }
        }
      }
    }
  }
}

inline Shape pooled_shape(const Shape& in, const Window& window, std::int64_t channels) {
  return {in[0],
          axis_of(in[1], window.kernel.h, window.stride.h, window.dilation.h, window.same).out,
          axis_of(in[2], window.kernel.w, window.stride.w, window.dilation.w, window.same).out,
          channels};
}

// x convolved with a kernel (height, width, in, out).
inline Array convolve(const Array& x, const Array& kernel, const Window& window) {
  Array y(pooled_shape(x.shape, window, kernel.shape[3]));
  for_each_tap(x.shape, window, [&](auto n, auto oh, auto ow, int kh, int kw, auto h, auto w) {
    for (std::int64_t i = 0; i < x.shape[3]; ++i) {
      const double value = x.at(n, h, w, i);
      for (std::int64_t o = 0; o < kernel.shape[3]; ++o)
        y.at(n, oh, ow, o) += value * kernel.at(kh, kw, i, o);
    }
  });
  return y;
}

// Channel by channel, with a kernel (height, width, channels, multiples).
inline Array depthwise(const Array& x, const Array& kernel, const Window& window) {
  const std::int64_t multiples = kernel.shape[3];
  Array y(pooled_shape(x.shape, window, x.shape[3] * multiples));
  for_each_tap(x.shape, window, [&](auto n, auto oh, auto ow, int kh, int kw, auto h, auto w) {
    for (std::int64_t c = 0; c < x.shape[3]; ++c) {
      for (std::int64_t m = 0; m < multiples; ++m)
        y.at(n, oh, ow, c * multiples + m) += x.at(n, h, w, c) * kernel.at(kh, kw, c, m);
    }
  });
  return y;
}

inline void add_bias(Array& y, const Array& bias) {
  for (std::size_t i = 0; i < y.values.size(); ++i)
    y.values[i] += bias.values[i % bias.values.size()];
}

inline Array map(Array array, const std::function<double(double)>& function) {
  for (double& value : array.values) value = function(value);
  return array;
}

inline double relu(double x) {
  return std::max(x, 0.0);
}
inline double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

// Over the last axis.
inline Array softmax(Array array) {
  const auto classes = static_cast<std::size_t>(array.shape[array.shape.rank() - 1]);
  for (std::size_t row = 0; row < array.values.size(); row += classes) {
    const auto begin = array.values.begin() + static_cast<std::ptrdiff_t>(row);
    const double top = *std::max_element(begin, begin + static_cast<std::ptrdiff_t>(classes));
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c)
      sum += array.values[row + c] = std::exp(array.values[row + c] - top);
    for (std::size_t c = 0; c < classes; ++c) array.values[row + c] /= sum;
  }
  return array;
}

// The activations of Keras by name (keras.activations).
inline Array activate(Array x, const std::string& name) {
  if (name == "linear") return x;
  if (name == "softmax") return softmax(std::move(x));
  if (name == "relu") return map(std::move(x), relu);
  if (name == "relu6") return map(std::move(x), [](double v) { return std::clamp(v, 0.0, 6.0); });
  if (name == "leaky_relu") return map(std::move(x), [](double v) { return v > 0 ? v : 0.2 * v; });
  if (name == "sigmoid") return map(std::move(x), sigmoid);
  if (name == "tanh") return map(std::move(x), [](double v) { return std::tanh(v); });
  if (name == "elu") return map(std::move(x), [](double v) { return v > 0 ? v : std::expm1(v); });
  if (name == "gelu")
    return map(std::move(x), [](double v) { return v / 2 * (1 + std::erf(v / std::sqrt(2.0))); });
  if (name == "swish" || name == "silu")
    return map(std::move(x), [](double v) { return v * sigmoid(v); });
  if (name == "softplus")
    return map(std::move(x), [](double v) { return std::log1p(std::exp(v)); });
  if (name == "hard_sigmoid")
    return map(std::move(x), [](double v) { return std::clamp(v / 6 + 0.5, 0.0, 1.0); });
  throw InternalError("[reference] no activation " + name);
}

}  // namespace surefit::conformance
