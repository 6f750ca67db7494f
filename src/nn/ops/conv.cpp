// SPDX-License-Identifier: Apache-2.0
#include "nn/ops/conv.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "engine/kernels/conv_depthwise.hpp"
#include "engine/kernels/conv_direct.hpp"
#include "engine/kernels/conv_first.hpp"
#include "engine/kernels/conv_winograd.hpp"
#include "engine/onednn.hpp"
#include "nn/ops/conv_blocked.hpp"

namespace surefit {
namespace {

using kernels::ConvShape;

std::size_t at(std::size_t base, int extent, int index) {
  return base * static_cast<std::size_t>(extent) + static_cast<std::size_t>(index);
}

// Where element (h, w, i, o) of Keras's kernel lies; `i` counts within its group, `width` is that
// of the bands, where there are any.
std::size_t engine_index(const ConvShape& s, ConvAlgorithm algorithm, int width, int h, int w,
                         int i, int o) {
  const auto block = static_cast<std::size_t>(o / 8);
  switch (algorithm) {
    case ConvAlgorithm::kFirst:
      return at(at(at(at(block, s.kh, h), s.kw, w), s.ic, i), 8, o % 8);
    case ConvAlgorithm::kDepthwise:
      return at(at(at(block, s.kh, h), s.kw, w), 8, o % 8);
    default:
      break;
  }
  const int first = kernels::direct_band_first(s.ic, s.oc, s.groups, o / 8, width);
  const int channel = o / (s.oc / s.groups) * (s.ic / s.groups) + i;
  const std::size_t tile = at(at(at(block, width, channel / 8 - first), s.kh, h), s.kw, w);
  return at(at(tile, 8, channel % 8), 8, o % 8);
}

class ConvKernelPacking final : public Packing {
 public:
  ConvKernelPacking(const ConvShape& shape, ConvAlgorithm algorithm)
      : s_(shape), algorithm_(algorithm) {}
  std::size_t stored_count() const override { return conv_weights_count(s_, algorithm_); }
  // Keras stores a depthwise kernel as (kh, kw, channels, 1): the same order as one input per
  // group.
  std::size_t lines() const override {
    return static_cast<std::size_t>(s_.kh) * static_cast<std::size_t>(s_.kw) *
           static_cast<std::size_t>(s_.ic / s_.groups);
  }
  std::size_t line_length() const override { return static_cast<std::size_t>(s_.oc); }
  void write_line(std::size_t line, const float* keras, float* engine) const override {
    for_each(line, [&](std::size_t k, std::size_t e) { engine[e] = keras[k]; });
  }
  void read_line(std::size_t line, const float* engine, float* keras) const override {
    for_each(line, [&](std::size_t k, std::size_t e) { keras[k] = engine[e]; });
  }

 private:
  template <typename Visit>
  void for_each(std::size_t line, const Visit& visit) const {
    const int inputs = s_.ic / s_.groups, at = static_cast<int>(line);
    const int i = at % inputs, w = at / inputs % s_.kw, h = at / inputs / s_.kw;
    const int width = kernels::direct_band_width(s_.ic, s_.oc, s_.groups);
    std::size_t keras = 0;
    // Lanes of a block lie side by side unless they belong to different groups; the index is too
    // dear to be asked for every one of ten million weights.
    for (int o = 0; o < s_.oc; o += 8) {
      const int lanes = std::min(8, s_.oc - o), per_group = s_.oc / s_.groups;
      const bool together = o / per_group == (o + lanes - 1) / per_group;
      const std::size_t first = engine_index(s_, algorithm_, width, h, w, i, o);
      for (int lane = 0; lane < lanes; ++lane) {
        visit(keras++, together ? first + static_cast<std::size_t>(lane)
                                : engine_index(s_, algorithm_, width, h, w, i, o + lane));
      }
    }
  }
  ConvShape s_;
  ConvAlgorithm algorithm_;
};

class ChannelPacking final : public Packing {
 public:
  explicit ChannelPacking(std::int64_t count) : count_(static_cast<std::size_t>(count)) {}
  std::size_t stored_count() const override { return (count_ + 7) / 8 * 8; }
  std::size_t lines() const override { return 1; }
  std::size_t line_length() const override { return count_; }
  void write_line(std::size_t, const float* keras, float* engine) const override {
    std::memcpy(engine, keras, count_ * sizeof(float));
  }
  void read_line(std::size_t, const float* engine, float* keras) const override {
    std::memcpy(keras, engine, count_ * sizeof(float));
  }

 private:
  std::size_t count_;
};

}  // namespace

ConvAlgorithm choose_algorithm(const ConvShape& shape, Layout input, Convolutions convolutions) {
  if (shape.groups == shape.ic && shape.groups == shape.oc && shape.groups > 1)
    return ConvAlgorithm::kDepthwise;
  if (shape.groups > 1) return ConvAlgorithm::kDirect;
  if (input == Layout::kPlain && shape.ic <= kMaxPlainChannels) return ConvAlgorithm::kFirst;
  // Below sixteen channels the transforms cost more than the multiplications they save.
  if (convolutions == Convolutions::kWinograd && kernels::winograd_applies(shape) &&
      shape.ic >= 16 && shape.oc >= 16) {
    return ConvAlgorithm::kWinograd;
  }
  if (convolutions == Convolutions::kOneDnn && onednn_serves(shape)) return ConvAlgorithm::kOneDnn;
  return ConvAlgorithm::kDirect;
}

// Dilation, tiny pictures and uneven strides are not served.
bool onednn_serves(const ConvShape& shape) {
  using Direction = OneDnnConvolution::Direction;
  for (const Direction direction :
       {Direction::kForward, Direction::kBackwardData, Direction::kBackwardWeights}) {
    if (!OneDnnConvolution::available({direction, shape, false, false, 1})) return false;
  }
  return true;
}

ConvShape padded_shape(ConvShape shape, const Sides& pad) {
  shape.h -= pad.top + pad.bottom;
  shape.w -= pad.left + pad.right;
  shape.pad_top += pad.top;
  shape.pad_left += pad.left;
  return shape;
}

double conv_flops(const ConvShape& s) {
  return 2.0 * s.oc * s.oh * s.ow * s.kh * s.kw * s.ic / s.groups;
}

std::size_t conv_weights_count(const ConvShape& s, ConvAlgorithm algorithm) {
  if (algorithm == ConvAlgorithm::kFirst) return kernels::first_weights_floats(s);
  if (algorithm == ConvAlgorithm::kDepthwise) return kernels::depthwise_weights_floats(s);
  return kernels::direct_weights_floats(s);
}

std::shared_ptr<const Packing> conv_kernel_packing(const ConvShape& shape,
                                                   ConvAlgorithm algorithm) {
  return std::make_shared<ConvKernelPacking>(shape, algorithm);
}

std::shared_ptr<const Packing> channel_packing(std::int64_t count) {
  return std::make_shared<ChannelPacking>(count);
}

ValueId emit_conv(LayerBuilder& builder, const ConvShape& shape, ConvAlgorithm algorithm,
                  ValueId picture, ValueId kernel, ValueId bias) {
  std::vector<ValueId> inputs = {picture, kernel};
  if (bias != kNone) inputs.push_back(bias);
  if (algorithm == ConvAlgorithm::kFirst) {
    const bool outer = builder.graph().value(picture).origin == Origin::kInput;
    return builder.emit1(make_first_conv_op(shape, bias != kNone, outer), std::move(inputs));
  }
  if (algorithm == ConvAlgorithm::kWinograd) {
    inputs[1] = builder.emit1(make_winograd_weights_op(shape, kernels::WinogradDirection::kForward),
                              {kernel});
    inputs.push_back(kernel);
  }
  return builder.emit1(make_blocked_conv_op(shape, algorithm, bias != kNone), std::move(inputs));
}

}  // namespace surefit
