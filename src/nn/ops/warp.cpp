// SPDX-License-Identifier: Apache-2.0
#include "nn/ops/warp.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "nn/ops/kernel.hpp"
#include "nn/ops/sample_op.hpp"

namespace surefit {
namespace {

// The pixel that stands for one outside the picture; -1 is the fill value.
std::int64_t inside(std::int64_t at, std::int64_t size, Fill fill) {
  if (at >= 0 && at < size) return at;
  switch (fill) {
    case Fill::kNearest:
      return std::clamp<std::int64_t>(at, 0, size - 1);
    case Fill::kWrap:
      return ((at % size) + size) % size;
    case Fill::kReflect: {  // d c b a | a b c d | d c b a
      const std::int64_t period = 2 * size, phase = ((at % period) + period) % period;
      return phase < size ? phase : period - 1 - phase;
    }
    default:
      return -1;
  }
}

struct Tap {
  std::int64_t pixel = -1;  // row * width + column of the source; -1: the fill value
  double weight = 0;
};

std::array<Tap, 4> taps_of(const Warp& warp, const Affine& map, std::int64_t h, std::int64_t w) {
  const auto row = static_cast<double>(h), column = static_cast<double>(w);
  const double y = map.a * row + map.b * column + map.c, x = map.d * row + map.e * column + map.f;
  const auto tap = [&](std::int64_t from_h, std::int64_t from_w, double weight) -> Tap {
    const std::int64_t r = inside(from_h, warp.input[0], warp.fill);
    const std::int64_t c = inside(from_w, warp.input[1], warp.fill);
    return {r < 0 || c < 0 ? -1 : r * warp.input[1] + c, weight};
  };
  if (!warp.bilinear) {
    return {tap(std::llround(y), std::llround(x), 1), Tap{}, Tap{}, Tap{}};
  }
  const double top = std::floor(y), left = std::floor(x), down = y - top, right = x - left;
  const auto r = static_cast<std::int64_t>(top), c = static_cast<std::int64_t>(left);
  return {tap(r, c, (1 - down) * (1 - right)), tap(r, c + 1, (1 - down) * right),
          tap(r + 1, c, down * (1 - right)), tap(r + 1, c + 1, down * right)};
}

template <typename Visit>
void for_taps(const Warp& warp, const Task& task, std::int64_t n, const Visit& visit) {
  const Affine map = warp.map(*task.step, n);
  for (std::int64_t h = 0; h < warp.output[0]; ++h) {
    for (std::int64_t w = 0; w < warp.output[1]; ++w) {
      for (const Tap& tap : taps_of(warp, map, h, w)) {
        if (tap.weight != 0)
          visit(h * warp.output[1] + w, tap.pixel, static_cast<float>(tap.weight));
      }
    }
  }
}

void forward(const Warp& warp, const Task& task, std::int64_t n) {
  const std::int64_t channels = warp.input[2];
  const float* x = task.inputs[0].at(n);
  float* y = task.outputs[0].at(n);
  std::fill_n(y, warp.output.count(), 0.0f);
  for_taps(warp, task, n, [&](std::int64_t to, std::int64_t from, float weight) {
    for (std::int64_t c = 0; c < channels; ++c)
      y[to * channels + c] += weight * (from < 0 ? warp.fill_value : x[from * channels + c]);
  });
}

// The same taps the other way round, in the same order.
void backward(const Warp& warp, const Task& task, std::int64_t n) {
  const std::int64_t channels = warp.input[2];
  const float* dy = task.inputs[0].at(n);
  float* dx = task.outputs[0].at(n);
  std::fill_n(dx, warp.input.count(), 0.0f);
  for_taps(warp, task, n, [&](std::int64_t to, std::int64_t from, float weight) {
    if (from < 0) return;
    for (std::int64_t c = 0; c < channels; ++c)
      dx[from * channels + c] += weight * dy[to * channels + c];
  });
}

using SampleFn = void (*)(const Warp&, const Task&, std::int64_t);

std::function<void(const Task&)> over_samples(const Warp& warp, SampleFn function) {
  return [warp, function](const Task& task) {
    for (std::int64_t n = task.begin; n < task.end; ++n) function(warp, task, n);
  };
}

ValueType plain(const Shape& shape) {
  ValueType type;
  type.shape = shape;
  return type;
}

}  // namespace

std::shared_ptr<const Op> make_warp_op(const Warp& warp) {
  const auto gradient = [warp](GradientBuilder& builder) {
    builder.set_input_gradient(0,
                               builder.emit1(make_sample_op({.kind = "warp_backward",
                                                             .outputs = {plain(warp.input)},
                                                             .layout = Layout::kPlain,
                                                             .flops_per_element = 10,
                                                             .run = over_samples(warp, backward)}),
                                             {builder.output_gradient(0)}));
  };
  return make_sample_op({.kind = "warp",
                         .outputs = {plain(warp.output)},
                         .layout = Layout::kPlain,
                         .flops_per_element = 10,
                         .run = over_samples(warp, forward),
                         .gradient = gradient});
}

}  // namespace surefit
