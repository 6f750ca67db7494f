// SPDX-License-Identifier: Apache-2.0
// Convolutions by oneDNN, one sample per call, single-threaded: the atom of the design. The only
// code that includes dnnl.hpp is behind this header. Scratchpads are the caller's, layouts are
// fixed (nChw8c, weights OIhw8i8o), so no hidden reorders and no hidden memory.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "engine/kernels/conv_shape.hpp"

namespace surefit {

// To be called once on every thread before it first touches oneDNN; otherwise OpenMP would start
// threads of its own.
void prepare_compute_thread();
// "2.6.3", for fingerprints.
std::string onednn_version();

// A bound oneDNN convolution. execute() may run on several threads at once, each with its own
// thread index and scratchpad.
class OneDnnConvolution {
 public:
  enum class Direction { kForward, kBackwardData, kBackwardWeights };
  struct Options {
    Direction direction = Direction::kForward;
    kernels::ConvShape shape;
    bool bias = false;
    bool relu = false;
    int threads = 1;
  };
  // Throws InternalError when oneDNN has no implementation or only its reference loop: that is a
  // defect of the rule that chose it.
  explicit OneDnnConvolution(const Options& options);
  ~OneDnnConvolution();

  // Whether oneDNN has more than its reference loop for this. A function of shape, instruction set
  // and version.
  static bool available(const Options& options);
  static std::size_t scratchpad_bytes(const Options& options);
  std::string implementation() const;

  // kForward: dst = src * weights + bias. kBackwardData: src = gradient, from dst = gradient and
  // weights (OIhw8o8i). kBackwardWeights: weights and bias = gradients, from src and dst =
  // gradient.
  void execute(int thread, float* src, float* weights, float* bias, float* dst,
               std::byte* scratchpad) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace surefit
