// SPDX-License-Identifier: Apache-2.0
// The nodes around a convolution between blocked pictures, one factory each; layers use emit_conv.
#pragma once

#include "engine/kernels/conv_winograd.hpp"
#include "nn/ops/conv.hpp"

namespace surefit {

// Kernel -> transformed weights U.
std::shared_ptr<const Op> make_winograd_weights_op(const kernels::ConvShape& shape,
                                                   kernels::WinogradDirection direction);
std::size_t winograd_count(const kernels::ConvShape& shape, kernels::WinogradDirection direction);

// A node that reads transformed weights, and could as well read the kernel.
class WinogradReader {
 public:
  struct Pass {
    std::string_view kind;
    kernels::ConvShape shape;
    kernels::WinogradDirection direction = kernels::WinogradDirection::kForward;
    bool bias = false, relu = false;
    ValueType output;
  };
  virtual ~WinogradReader() = default;
  virtual Pass winograd_pass() const = 0;
};
// (kernel, picture or gradient, [bias]) -> what the pass gives, for batches of this many samples;
// null where they have many tiles.
std::shared_ptr<const Op> make_few_pass_op(const WinogradReader::Pass& pass, std::int64_t samples);
// (picture, gradient of the output) -> gradient of the kernel; takes the update in. The same.
std::shared_ptr<const Op> make_few_gradient_op(const kernels::ConvShape& shape,
                                               std::int64_t samples);
// (picture, gradient of the output, kernel, slots) -> nothing: direct convolution's gradient with
// the update `consumer`; null where the batch has many samples, or the node is no such update.
std::shared_ptr<const Op> make_direct_update_op(const kernels::ConvShape& shape, const Op& consumer,
                                                std::int64_t samples);

// Kernel -> what make_conv_backward_data_op reads as weights; null where that is the kernel itself.
std::shared_ptr<const Op> make_backward_weights_form_op(const kernels::ConvShape& shape,
                                                        ConvAlgorithm algorithm);
// (gradient of the output, prepared weights) -> gradient of the picture, of this type.
std::shared_ptr<const Op> make_conv_backward_data_op(const kernels::ConvShape& shape,
                                                     ConvAlgorithm algorithm,
                                                     const ValueType& picture);
// (picture, gradient of the output) -> gradient of the kernel.
std::shared_ptr<const Op> make_conv_backward_weights_op(const kernels::ConvShape& shape,
                                                        ConvAlgorithm algorithm);
// What that gives for Winograd is the gradient of U -> gradient of the kernel.
std::shared_ptr<const Op> make_winograd_gradient_op(const kernels::ConvShape& shape);
// Gradient of a blocked picture -> its sum per channel over pixels and samples.
std::shared_ptr<const Op> make_bias_gradient_op(std::int64_t channels, std::int64_t pixels);
// (picture, weights, [bias]) and, where the weights are a transform of it, the kernel last.
std::shared_ptr<const Op> make_blocked_conv_op(const kernels::ConvShape& shape,
                                               ConvAlgorithm algorithm, bool bias);

}  // namespace surefit
