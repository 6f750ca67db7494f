// SPDX-License-Identifier: Apache-2.0
// Elementwise kernels on flat ranges of floats; a range may be cut anywhere without a change of
// bits, outputs may be inputs. NaN in, NaN out; relu's backward lets the gradient through where the
// output is NaN.
#pragma once

#include <cstdint>

namespace surefit::kernels {

enum class Activation : std::int32_t {
  kLinear,
  kRelu,
  kRelu6,
  kLeakyRelu,  // alpha: slope below 0 (>= 0)
  kSigmoid,
  kTanh,
  kElu,          // alpha (> 0) times e^x - 1 below 0
  kGelu,         // x/2 (1 + erf(x / sqrt 2))
  kGeluTanh,     // x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
  kSwish,        // x sigmoid(x), Keras's silu
  kSoftplus,     // log(1 + e^x)
  kHardSigmoid,  // Keras 3: relu6(x + 3) / 6
  kExponential,  // e^x
  kSelu,         // 1.0507 x above 0, 1.0507 * 1.6733 (e^x - 1) below
  kHardSwish,    // x relu6(x + 3) / 6, Keras's hard_silu
  kMish,         // x tanh(softplus(x))
  kSoftsign,     // x / (1 + |x|)
  kCount,
};

// What the backward kernel wants as `saved`: the input (true) or the output (false).
constexpr bool activation_saves_input(Activation kind) {
  return kind == Activation::kGelu || kind == Activation::kGeluTanh || kind == Activation::kSwish ||
         kind == Activation::kSoftplus || kind == Activation::kHardSwish ||
         kind == Activation::kMish;
}
// Whether f(0) is 0. If not, the padding lanes of a blocked tensor must be kept zero with
// `live_lanes`.
constexpr bool activation_keeps_zero(Activation kind) {
  return kind != Activation::kSigmoid && kind != Activation::kSoftplus &&
         kind != Activation::kHardSigmoid && kind != Activation::kExponential;
}

struct ActivationArgs {
  Activation kind = Activation::kLinear;
  float alpha = 0.0f;
  const float* src = nullptr;
  float* dst = nullptr;
  std::int64_t count = 0;
  // Fewer than 8: the range is whole blocks of 8 lanes (a last channel block) and the other lanes
  // get 0.
  int live_lanes = 8;
};

struct ActivationBackwardArgs {
  Activation kind = Activation::kLinear;
  float alpha = 0.0f;
  const float* saved = nullptr;  // input or output, see activation_saves_input
  const float* diff_dst = nullptr;
  float* diff_src = nullptr;
  std::int64_t count = 0;
};

struct ElementwiseKernels {
  void (*activation)(const ActivationArgs&) = nullptr;
  void (*activation_backward)(const ActivationBackwardArgs&) = nullptr;
  void (*relu)(const float* x, float* y, std::int64_t count) = nullptr;
  // dx = dy where y > 0, else 0.
  void (*relu_backward)(const float* y, const float* dy, float* dx, std::int64_t count) = nullptr;
  void (*add)(const float* a, const float* b, float* y, std::int64_t count) = nullptr;
  void (*add_relu)(const float* a, const float* b, float* y, std::int64_t count) = nullptr;
  void (*multiply)(const float* a, const float* b, float* y, std::int64_t count) = nullptr;
  // y += x
  void (*accumulate)(const float* x, float* y, std::int64_t count) = nullptr;
  // dx = a + b where y > 0, else 0: two gradients meet behind a relu.
  void (*add_relu_backward)(const float* y, const float* a, const float* b, float* dx,
                            std::int64_t count) = nullptr;
  void (*scale)(const float* x, float factor, float* y, std::int64_t count) = nullptr;
};

}  // namespace surefit::kernels
