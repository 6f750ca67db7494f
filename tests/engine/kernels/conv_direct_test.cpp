// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "engine/kernels/conv_reference.hpp"

namespace surefit::kernels::testing {
namespace {

constexpr double kRms = 7e-7;

ConvShape uneven() {
  // Keras 'same' with stride 2 on an even picture: padding at the bottom and right only.
  ConvShape s = conv_shape(16, 24, 12, 10, 3, 2);
  s.oh = 6;
  s.ow = 5;
  return s;
}

ConvShape oblong() {
  ConvShape s = conv_shape(8, 13, 9, 17, 3);
  s.kw = 5;
  s.stride_w = 3;
  s.pad_left = 2;
  s.pad_top = 1;
  s.oh = 9;
  s.ow = 6;
  s.dilation_h = 2;
  s.oh = (9 + 1 + 2 - 5) / 1 + 1;
  return s;
}

// Strips in both directions, with padding at the bottom and right only.
ConvShape uneven_strips() {
  ConvShape s = conv_shape(48, 56, 12, 10, 3, 2);
  s.oh = 6;
  s.ow = 5;
  return s;
}

std::vector<ConvShape> shapes() {
  return {conv_shape(8, 8, 6, 6, 3, 1, 1),
          conv_shape(13, 24, 9, 11, 3, 1, 1),
          conv_shape(64, 64, 14, 14, 3, 2, 1),
          conv_shape(24, 5, 15, 13, 5, 2, 2),
          conv_shape(9, 40, 17, 12, 7, 2, 3),
          conv_shape(16, 16, 13, 13, 3, 3, 1),
          conv_shape(16, 8, 12, 12, 3, 1, 2, 2),
          conv_shape(8, 8, 3, 2, 5, 1, 2),
          conv_shape(64, 24, 7, 7, 1),
          conv_shape(24, 72, 40, 33, 1),
          conv_shape(40, 16, 9, 8, 1, 2),
          conv_shape(16, 24, 11, 11, 1, 3),
          conv_shape(256, 576, 3, 3, 1),
          conv_shape(136, 128, 5, 6, 3, 2, 1),
          conv_shape(1, 1, 1, 1, 1),
          conv_shape(8, 8, 9, 250, 3, 1, 1),
          uneven(),
          oblong(),
          conv_shape(32, 32, 8, 8, 3, 1, 1, 1, 8),
          conv_shape(64, 64, 7, 9, 3, 2, 1, 1, 4),
          conv_shape(24, 48, 6, 5, 3, 1, 1, 1, 3),
          conv_shape(12, 18, 6, 6, 3, 1, 1, 2, 6),
          conv_shape(20, 30, 5, 5, 1, 1, 0, 1, 10),
          conv_shape(16, 48, 5, 5, 3, 1, 1, 1, 16),
          conv_shape(64, 48, 14, 13, 3, 1, 1),
          conv_shape(53, 101, 9, 11, 3, 2, 1),
          conv_shape(120, 136, 5, 4, 3, 1, 1),
          conv_shape(152, 264, 8, 6, 3, 2, 1),
          conv_shape(48, 48, 10, 12, 3, 3),
          conv_shape(48, 56, 9, 9, 3, 1, 2, 2),
          conv_shape(56, 48, 13, 7, 5, 4, 2),
          conv_shape(48, 48, 9, 9, 2, 3),
          conv_shape(48, 48, 11, 11, 5, 5),
          conv_shape(48, 96, 9, 7, 1, 2),
          conv_shape(48, 48, 1, 1, 3, 1, 1),
          uneven_strips()};
}

std::size_t band_at(const ConvShape& s, int o, int c, int kh, int kw) {
  const int width = direct_band_width(s.ic, s.oc, s.groups);
  const int first = direct_band_first(s.ic, s.oc, s.groups, o / 8, width);
  const int in = o / (s.oc / s.groups) * (s.ic / s.groups) + c;
  EXPECT_GE(in / 8, first);
  EXPECT_LT(in / 8, first + width);
  return ((std::size_t(o / 8 * width + in / 8 - first) * std::size_t(s.kh) + std::size_t(kh)) *
              std::size_t(s.kw) +
          std::size_t(kw)) *
             64 +
         std::size_t(in % 8 * 8 + o % 8);
}

template <class F>
void for_weights(const ConvShape& s, F&& f) {
  std::size_t plain = 0;
  for (int o = 0; o < s.oc; ++o)
    for (int c = 0; c < s.ic / s.groups; ++c)
      for (int kh = 0; kh < s.kh; ++kh)
        for (int kw = 0; kw < s.kw; ++kw) f(plain++, band_at(s, o, c, kh, kw));
}

Floats to_band(const Floats& plain, const ConvShape& s) {
  Floats out(direct_weights_floats(s));
  for_weights(s, [&](std::size_t from, std::size_t to) { out[to] = plain[from]; });
  return out;
}

Floats from_band(Floats packed, const ConvShape& s, std::size_t count) {
  Floats out(count);
  for_weights(s, [&](std::size_t to, std::size_t from) {
    out[to] = packed[from];
    packed[from] = 0.0F;
  });
  for (const float v : packed) EXPECT_EQ(v, 0.0F) << "padding or other group's lane";
  return out;
}

struct DirectRun {
  const KernelTable& table;
  const Problem& p;
  const ConvShape& s = p.shape;
  Floats x = to_blocked(p.x, p.n, s.ic, s.h, s.w);
  Floats dy = to_blocked(p.dy, p.n, s.oc, s.oh, s.ow);
  Floats w = to_band(p.w, s);
  Floats b = padded_bias(p.b);
  Floats scratch = poisoned(direct_scratch_bytes(s) / sizeof(float));
  std::ptrdiff_t xs = std::ptrdiff_t(x.size()) / p.n, ys = std::ptrdiff_t(dy.size()) / p.n;

  Floats forward(int step, bool reverse, bool relu = false) {
    Floats y = poisoned(dy.size());
    const ConvForward args{s, x.data(), xs, w.data(), b.data(), y.data(), ys, relu};
    for (int n = 0; n < p.n; n += step) {
      for_blocks(direct_forward_blocks(s), reverse, [&](int block) {
        table.direct.forward(args, {n, std::min(n + step, p.n)}, block, scratch.data());
      });
    }
    return y;
  }
  Floats backward_data(int step, bool reverse) {
    Floats dx = poisoned(x.size()), reversed = poisoned(direct_reversed_floats(s));
    for_blocks(direct_reverse_blocks(s), reverse, [&](int block) {
      table.direct.reverse_weights({s, w.data(), reversed.data()}, block);
    });
    const ConvBackwardData args{s, dy.data(), ys, reversed.data(), dx.data(), xs};
    for (int n = 0; n < p.n; n += step) {
      for_blocks(direct_backward_data_blocks(s), reverse, [&](int block) {
        table.direct.backward_data(args, {n, std::min(n + step, p.n)}, block, scratch.data());
      });
    }
    return dx;
  }
  std::pair<Floats, Floats> backward_weights(int step, bool reverse) {
    Floats dw = poisoned(w.size()), db = poisoned(b.size());
    ConvBackwardWeights args{s, x.data(), xs, dy.data(), ys, dw.data(), db.data(), true};
    for (int n = 0; n < p.n; n += step) {
      args.first = n == 0;
      for_blocks(direct_backward_weights_blocks(s), reverse, [&](int block) {
        table.direct.backward_weights(args, {n, std::min(n + step, p.n)}, block, scratch.data());
      });
    }
    return {dw, db};
  }
};

TEST(Direct, MatchesReference) {
  for (const KernelTable* table : tables()) {
    for (const ConvShape& s : shapes()) {
      const Problem p = make_problem(s, 3);
      SCOPED_TRACE(std::string(table->isa) + " " + p.name());
      DirectRun run{*table, p};
      const int taps = s.kh * s.kw;
      const Floats y = run.forward(3, false);
      expect_close(from_blocked(y, p.n, s.oc, s.oh, s.ow), p.y, taps * s.ic / s.groups, kRms, "y");
      expect_close(from_blocked(run.backward_data(3, false), p.n, s.ic, s.h, s.w), p.dx,
                   taps * s.oc / s.groups, kRms, "dx");
      auto [dw, db] = run.backward_weights(3, false);
      expect_close(from_band(dw, s, p.w.size()), p.dw, p.n * s.oh * s.ow, kRms, "dw");
      db.resize(std::size_t(s.oc));
      expect_close(db, p.db, p.n * s.oh * s.ow, kRms, "db");
      Floats rectified = y;
      for (float& v : rectified) v = v > 0.0F ? v : 0.0F;
      expect_same_bits(run.forward(3, false, true), rectified, "relu");
    }
  }
}

TEST(Direct, SameBitsForAnySplit) {
  for (const KernelTable* table : tables()) {
    for (const ConvShape& s : shapes()) {
      const Problem p = make_problem(s, 5);
      SCOPED_TRACE(std::string(table->isa) + " " + p.name());
      DirectRun run{*table, p};
      const Floats y = run.forward(5, false), dx = run.backward_data(5, false);
      const auto [dw, db] = run.backward_weights(5, false);
      for (const int step : {1, 3}) {
        expect_same_bits(run.forward(step, true), y, "y");
        expect_same_bits(run.backward_data(step, true), dx, "dx");
        const auto [dw2, db2] = run.backward_weights(step, true);
        expect_same_bits(dw2, dw, "dw");
        expect_same_bits(db2, db, "db");
      }
    }
  }
}

// Small pictures under large kernels: tiles go across samples, more of them than a tile holds.
TEST(Direct, TilesAcrossSamples) {
  struct Case {
    ConvShape shape;
    bool forward, back;
  };
  ConvShape oblong_kernel = conv_shape(20, 6, 6, 5, 3, 1, 1);
  oblong_kernel.kw = 5;
  oblong_kernel.pad_left = 3;
  oblong_kernel.ow = 7;
  // One output block, so several pixels at a time: rows of them that leave some, and more padding
  // on one side; kernels too narrow for that.
  ConvShape lopsided = conv_shape(8, 20, 6, 5, 5, 1, 2);
  lopsided.pad_left = 3;
  for (const auto& [s, forward, back] :
       {Case{conv_shape(6, 16, 14, 14, 5), false, true},       // LeNet-5
        Case{conv_shape(17, 26, 3, 3, 3, 1, 1), true, true},   // up to four output blocks
        Case{conv_shape(8, 8, 3, 2, 5, 1, 2), true, true},     // more taps outside than inside
        Case{conv_shape(9, 9, 5, 5, 3, 1, 2, 2), true, true},  // dilated
        Case{conv_shape(16, 5, 6, 3, 5, 1, 2), true, true}, Case{lopsided, true, true},
        Case{conv_shape(8, 5, 3, 3, 3, 1, 1), true, true},
        Case{conv_shape(16, 10, 8, 7, 5, 2), false, true}, Case{oblong_kernel, true, false}}) {
    EXPECT_EQ(direct_by_samples(s, false), forward) << s.w << " wide";
    EXPECT_EQ(direct_by_samples(s, true), back) << s.w << " wide";
    std::map<std::string, std::pair<Floats, Floats>> of_bits;  // the first table's with these bits
    for (const KernelTable* table : tables()) {
      const Problem p = make_problem(s, 14);
      SCOPED_TRACE(std::string(table->isa) + " " + p.name());
      DirectRun run{*table, p};
      const Floats y = run.forward(14, false, true), dx = run.backward_data(14, false);
      Exact rectified = p.y;
      for (double& v : rectified.value) v = std::max(v, 0.0);
      expect_close(from_blocked(y, p.n, s.oc, s.oh, s.ow), rectified, s.kh * s.kw * s.ic, kRms,
                   "y");
      expect_close(from_blocked(dx, p.n, s.ic, s.h, s.w), p.dx, s.kh * s.kw * s.oc, kRms, "dx");
      const auto& [y_first, dx_first] = of_bits.try_emplace(table->bits, y, dx).first->second;
      expect_same_bits(y, y_first, "y");
      expect_same_bits(dx, dx_first, "dx");
      for (const int step : {1, 2, 3, 4, 5, 8, 13}) {
        expect_same_bits(run.forward(step, true, true), y, "y");
        expect_same_bits(run.backward_data(step, true), dx, "dx");
      }
    }
  }
}

// More registers, the same sums: a run may move between such machines.
TEST(Direct, Avx512GivesTheBitsOfAvx2) {
  const KernelTable* wide = table_for("avx512");
  if (wide == nullptr) GTEST_SKIP() << "no AVX-512 here";
  EXPECT_STREQ(wide->bits, "avx2");
  EXPECT_NE(wide->direct.forward, table_for("avx2")->direct.forward);
  for (const ConvShape& s : shapes()) {
    const Problem p = make_problem(s, 4);
    SCOPED_TRACE(p.name());
    DirectRun run{*table_for("avx2"), p}, other{*wide, p};
    expect_same_bits(other.forward(4, false), run.forward(4, false), "y");
    expect_same_bits(other.backward_data(4, false), run.backward_data(4, false), "dx");
    const auto [dw, db] = run.backward_weights(4, false);
    const auto [dw2, db2] = other.backward_weights(4, false);
    expect_same_bits(dw2, dw, "dw");
    expect_same_bits(db2, db, "db");
  }
}

}  // namespace
}  // namespace surefit::kernels::testing
