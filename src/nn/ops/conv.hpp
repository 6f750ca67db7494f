// SPDX-License-Identifier: Apache-2.0
// Convolution as graph nodes. Which algorithm runs is a fixed rule on shapes (choose_algorithm), never a timing.
#pragma once

#include <memory>

#include "engine/kernels/conv_shape.hpp"
#include "graph/op.hpp"
#include "nn/layer.hpp"

namespace surefit {

enum class ConvAlgorithm {
  kFirst,   // picture of at most seven plain channels, own kernel
  kOneDnn,  // blocked, oneDNN's direct kernel
  kDirect,  // blocked, own kernel, where oneDNN has only its reference loop: dilation, tiny pictures, uneven strides
};

// Pictures with at most this many channels are read as they come, channels last.
inline constexpr int kMaxPlainChannels = 7;

ConvAlgorithm choose_algorithm(const kernels::ConvShape& shape, Layout input);

// Keras's (kh, kw, in, out) to the layout of the algorithm, zero padded.
std::shared_ptr<const Packing> conv_kernel_packing(const kernels::ConvShape& shape, ConvAlgorithm algorithm);
// A vector of `count` channels padded with zeros to whole blocks.
std::shared_ptr<const Packing> channel_packing(std::int64_t count);

struct ConvOptions {
  bool bias = true;
  bool relu = false;
  // The picture comes from outside, so nobody will ever want its gradient.
  bool outer_picture = false;
};
// Inputs: picture, kernel and, with `bias`, bias. Absorbs a relu, and on outer pictures a 2x2 max pool behind it.
std::shared_ptr<const Op> make_conv_op(const kernels::ConvShape& shape, ConvAlgorithm algorithm,
                                       const ConvOptions& options);

}  // namespace surefit
