// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace surefit {

// One way to run the blocks [begin, end) of a chain, forward and backward.
struct ChainOption {
  int begin = 0, end = 0;
  double seconds = 0;       // more than the fastest way
  std::size_t kept = 0;     // bytes that stay from its forward to its backward pass
  std::size_t working = 0;  // bytes needed while it runs, besides what the blocks before it keep
};

// Options that tile the chain [0, blocks) in order so that at each of them what the earlier ones
// keep and its own working bytes stay within `bytes`, in the least time. Indices into `options`, or
// nothing where no tiling fits. Dynamic programming over (block, bytes kept so far), the bytes
// counted in `levels` steps, rounded up.
std::optional<std::vector<int>> tile_chain(int blocks, const std::vector<ChainOption>& options,
                                           std::size_t bytes, int levels = 256);

}  // namespace surefit
