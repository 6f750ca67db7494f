// SPDX-License-Identifier: Apache-2.0
// Convolution in double precision on plain [C][H][W] arrays, and the way from there to the kernels'
// layouts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/kernels/table.hpp"

namespace surefit::kernels::testing {

using Floats = std::vector<float>;

// A result in double with the sum of the absolute values of its terms, which is what rounding
// errors scale with.
struct Exact {
  std::vector<double> value;
  std::vector<double> magnitude;
};

struct Problem {
  ConvShape shape;
  int n = 1;
  Floats x, w, b, dy;   // [n][ic][h][w], [oc][ic/groups][kh][kw], [oc], [n][oc][oh][ow]
  Exact y, dx, dw, db;  // y without relu

  std::string name() const;
};

// Output size for a bottom/right padding; inputs drawn from the seed.
ConvShape conv_shape(int ic, int oc, int h, int w, int k, int stride = 1, int pad = 0,
                     int dilation = 1, int groups = 1);
// diff_dst: take this plain gradient instead of a random one.
Problem make_problem(const ConvShape& shape, int n, std::uint32_t seed = 1,
                     const Floats* diff_dst = nullptr);

// Plain [n][c][h][w] to [n][C8/8][h][w][8] and back; back also checks that the padding lanes are
// zero.
Floats to_blocked(const Floats& plain, int n, int c, int h, int w);
Floats from_blocked(const Floats& blocked, int n, int c, int h, int w);
// To and from [n][h][w][c].
Floats to_channels_last(const Floats& plain, int n, int c, int h, int w);
Floats from_channels_last(const Floats& last, int n, int c, int h, int w);

// [oc][ic][kh][kw] to [OC8/8][KH][KW][IC][8] and back.
Floats to_first_weights(const Floats& plain, const ConvShape& s);
Floats from_first_weights(const Floats& packed, const ConvShape& s);
// [oc][ic][kh][kw] to [OC8/8][IC8/8][KH][KW][8][8] and back; groups must be 1.
Floats to_blocked_weights(const Floats& plain, const ConvShape& s);
Floats from_blocked_weights(const Floats& packed, const ConvShape& s);
Floats padded_bias(const Floats& b);

// What an element's error may scale with: its own terms, or (Winograd mixes a window of outputs)
// the largest of all.
enum class Scale { kOwn, kLargest };

// Every element within the bound of a plain f32 sum of `terms` products, and the rms error relative
// to the rms value below `rms_limit`.
void expect_close(const Floats& got, const Exact& want, int terms, double rms_limit,
                  const std::string& what, Scale scale = Scale::kOwn);
void expect_same_bits(const Floats& a, const Floats& b, const std::string& what);

// The tables this machine can run.
std::vector<const KernelTable*> tables();

// NaN-filled scratch and outputs: whatever a kernel does not write shows.
Floats poisoned(std::size_t count);

// Calls f(block) for all blocks, in ascending or descending order.
template <class F>
void for_blocks(int blocks, bool reverse, F&& f) {
  for (int i = 0; i < blocks; ++i) f(reverse ? blocks - 1 - i : i);
}

}  // namespace surefit::kernels::testing
