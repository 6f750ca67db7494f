// SPDX-License-Identifier: Apache-2.0
// Convolution as graph nodes. Which algorithm runs is a fixed rule on shapes (choose_algorithm),
// never a timing.
#pragma once

#include <memory>
#include <vector>

#include "engine/kernels/conv_shape.hpp"
#include "graph/op.hpp"
#include "nn/layer.hpp"

namespace surefit {

enum class ConvAlgorithm {
  kFirst,      // picture of at most seven plain channels, own kernel
  kDirect,     // blocked, own kernel by the definition
  kWinograd,   // blocked 3x3 stride 1, own kernel F(4x4, 3x3)
  kSliced,     // the frugal form of kWinograd: weights are transformed within, a slice at a time
  kOneDnn,     // blocked, oneDNN's direct kernel
  kDepthwise,  // one filter per channel, own kernel
};

// Pictures with at most this many channels are read as they come, channels last.
inline constexpr int kMaxPlainChannels = 7;

ConvAlgorithm choose_algorithm(const kernels::ConvShape& shape, Layout input,
                               Convolutions convolutions);

double conv_flops(const kernels::ConvShape& shape);  // of one sample
std::size_t conv_weights_count(const kernels::ConvShape& shape,
                               ConvAlgorithm algorithm);  // stored floats

// Keras's (kh, kw, in / groups, out) to the layout of the algorithm, zero padded.
std::shared_ptr<const Packing> conv_kernel_packing(const kernels::ConvShape& shape,
                                                   ConvAlgorithm algorithm);
// A vector of `count` channels padded with zeros to whole blocks.
std::shared_ptr<const Packing> channel_packing(std::int64_t count);

// Whether oneDNN has more than its reference loop for all three passes.
bool onednn_serves(const kernels::ConvShape& shape);

// A convolution node.
class ConvOp : public Op {
 public:
  // The same convolution reading the picture before `pad` zeros were put around it; nothing where
  // no kernel serves that.
  virtual std::shared_ptr<const Op> with_padding(const Sides& pad, bool outer_picture) const = 0;
};
// The shape seen from inside the padding.
kernels::ConvShape padded_shape(kernels::ConvShape shape, const Sides& pad);

// Emits the convolution; `bias` may be kNone. The result absorbs a relu, and on the model's own
// picture a 2x2 max pool behind it.
ValueId emit_conv(LayerBuilder& builder, const kernels::ConvShape& shape, ConvAlgorithm algorithm,
                  ValueId picture, ValueId kernel, ValueId bias);

// The families behind emit_conv. Inputs: picture, weights, then bias if there is one.
// `outer_picture`: it comes from outside, so nobody will ever want its gradient, and a 2x2 max pool
// may be absorbed.
std::shared_ptr<const Op> make_first_conv_op(const kernels::ConvShape& shape, bool bias,
                                             bool outer_picture);
}  // namespace surefit
