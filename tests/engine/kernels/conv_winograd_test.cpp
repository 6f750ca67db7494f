// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "engine/kernels/conv_reference.hpp"

namespace surefit::kernels::testing {
namespace {

// Transforms enlarge intermediate values: 3 to 5 times the rms error of direct convolution.
constexpr double kRms = 5e-6;

ConvShape uneven() {
  ConvShape s = conv_shape(16, 24, 9, 14, 3);
  s.pad_top = 1;
  s.oh = 8;
  s.pad_left = 2;
  s.ow = 16;
  return s;
}

std::vector<ConvShape> shapes() {
  return {conv_shape(16, 16, 8, 8, 3, 1, 1),   conv_shape(8, 24, 7, 9, 3, 1, 1),
          conv_shape(13, 5, 4, 4, 3, 1, 1),    conv_shape(64, 64, 14, 14, 3, 1, 1),
          conv_shape(24, 40, 31, 29, 3, 1, 1), conv_shape(3, 1, 5, 6, 3),
          conv_shape(72, 32, 12, 10, 3, 1, 0), conv_shape(8, 136, 6, 6, 3, 1, 1),
          conv_shape(520, 16, 5, 5, 3, 1, 1),  conv_shape(264, 80, 9, 6, 3, 1, 1),
          conv_shape(8, 16, 37, 40, 3, 1, 1),  uneven()};
}

struct WinogradRun {
  const KernelTable& table;
  const Problem& p;
  Floats x = to_blocked(p.x, p.n, p.shape.ic, p.shape.h, p.shape.w);
  Floats dy = to_blocked(p.dy, p.n, p.shape.oc, p.shape.oh, p.shape.ow);
  Floats w = to_blocked_weights(p.w, p.shape);
  Floats b = padded_bias(p.b);

  // step: samples per call; slice: groups whose transformed weights are present at a time.
  Floats pass(WinogradDirection d, int step, int slice, bool reverse, bool relu = false) {
    const ConvShape& s = p.shape;
    const bool back = d == WinogradDirection::kBackwardData;
    const Floats& in = back ? dy : x;
    Floats out = poisoned(back ? x.size() : dy.size());
    Floats scratch = poisoned(winograd_pass_scratch_bytes(s, d) / sizeof(float));
    const int groups = winograd_groups(s, d);
    Floats u = poisoned(winograd_group_floats(s, d) * std::size_t(std::min(slice, groups)));
    for (int begin = 0; begin < groups; begin += slice) {
      const int end = std::min(begin + slice, groups);
      for (int g = begin; g < end; ++g) {
        table.winograd.transform_weights({s, d, w.data(), u.data(), begin}, g);
      }
      const WinogradPass args{s,          d,
                              in.data(),  std::ptrdiff_t(in.size()) / p.n,
                              u.data(),   begin,
                              end,        back ? nullptr : b.data(),
                              out.data(), std::ptrdiff_t(out.size()) / p.n,
                              relu};
      for (int n = 0; n < p.n; n += step) {
        for_blocks(winograd_blocks(s, d), reverse, [&](int block) {
          table.winograd.pass(args, {n, std::min(n + step, p.n)}, block, scratch.data());
        });
      }
    }
    return out;
  }

  Floats weights(int step, bool reverse) {
    const ConvShape& s = p.shape;
    Floats scratch = poisoned(winograd_backward_weights_scratch_bytes(s) / sizeof(float));
    Floats du = poisoned(winograd_u_bytes(s, WinogradDirection::kForward) / sizeof(float));
    Floats dw = poisoned(w.size());
    WinogradBackwardWeights args{s,
                                 x.data(),
                                 std::ptrdiff_t(x.size()) / p.n,
                                 dy.data(),
                                 std::ptrdiff_t(dy.size()) / p.n,
                                 du.data(),
                                 true};
    for (int n = 0; n < p.n; n += step) {
      args.first = n == 0;
      for_blocks(winograd_backward_weights_blocks(s), reverse, [&](int block) {
        table.winograd.backward_weights(args, {n, std::min(n + step, p.n)}, block, scratch.data());
      });
    }
    for_blocks(winograd_groups(s, WinogradDirection::kForward), reverse, [&](int group) {
      table.winograd.weights_gradient({s, du.data(), dw.data()}, group);
    });
    return dw;
  }

  // step: samples per call, both of the transform and of the pass. Room for more samples than there
  // are, as in the last batch of an epoch.
  Floats few_pass(WinogradDirection d, int step, int parts, bool reverse, bool relu = false) {
    const ConvShape& s = p.shape;
    const bool back = d == WinogradDirection::kBackwardData;
    const Floats& in = back ? dy : x;
    Floats out = poisoned(back ? x.size() : dy.size());
    const int room = p.n + 1, tiles = winograd_plane(s, d).tiles * room;
    Floats v = poisoned(winograd_few_v_floats(s, d, room));
    const std::ptrdiff_t stride = std::ptrdiff_t(in.size()) / p.n;
    const WinogradFewPicture picture{s, d, tiles, in.data(), stride, v.data()};
    Floats scratch = poisoned(winograd_few_pass_scratch_bytes(s, d, room) / sizeof(float));
    WinogradFewPass args{.tiles = tiles, .v = v.data(), .weights = w.data()};
    args.pass.shape = s;
    args.pass.direction = d;
    args.pass.bias = back ? nullptr : b.data();
    args.pass.dst = out.data();
    args.pass.dst_stride = std::ptrdiff_t(out.size()) / p.n;
    args.pass.relu = relu;
    for (int n = 0; n < p.n; n += step) {
      const Samples samples{n, std::min(n + step, p.n)};
      for_blocks(parts, reverse, [&](int part) {
        table.winograd_few.transform_input(picture, samples, part, parts);
      });
      for_blocks(winograd_few_blocks(s, d), reverse,
                 [&](int block) { table.winograd_few.pass(args, samples, block, scratch.data()); });
    }
    return out;
  }

  // depth: blocks of input channels per call.
  Floats few_weights(int depth, int parts) {
    const ConvShape& s = p.shape;
    const auto d = WinogradDirection::kForward;
    const int per_sample = winograd_plane(s, d).tiles, room = p.n + 1, tiles = per_sample * room;
    Floats v = poisoned(winograd_few_v_floats(s, d, room));
    Floats m = poisoned(winograd_few_m_floats(s, room));
    const auto stride = [&](const Floats& all) { return std::ptrdiff_t(all.size()) / p.n; };
    for (int part = 0; part < parts; ++part) {
      table.winograd_few.transform_input({s, d, tiles, x.data(), stride(x), v.data()}, {0, p.n},
                                         part, parts);
      table.winograd_few.transform_gradient({s, d, tiles, dy.data(), stride(dy), m.data()},
                                            {0, p.n}, part, parts);
    }
    Floats scratch = poisoned(winograd_few_gradient_scratch_bytes() / sizeof(float));
    Floats dw = poisoned(w.size());
    const std::ptrdiff_t in_blocks = channel_blocks(s.ic);
    for (int block = 0; block < winograd_few_blocks(s, d); ++block) {
      for (int begin = 0; begin < in_blocks; begin += depth) {
        WinogradFewGradient args{s, tiles, per_sample * p.n, v.data(), m.data()};
        args.diff_weights =
            dw.data() + (block * 2 * kWinogradFewGroups * in_blocks + begin) * 9 * 64;
        args.apart = in_blocks * 9 * 64;
        table.winograd_few.backward_weights(
            args, block, begin, std::min(begin + depth, int(in_blocks)), scratch.data());
      }
    }
    return dw;
  }
};

TEST(Winograd, MatchesReference) {
  for (const KernelTable* table : tables()) {
    for (const ConvShape& s : shapes()) {
      ASSERT_TRUE(winograd_applies(s));
      const Problem p = make_problem(s, 3);
      SCOPED_TRACE(std::string(table->isa) + " " + p.name());
      WinogradRun run{*table, p};
      const Floats y = run.pass(WinogradDirection::kForward, 3, 99, false);
      expect_close(from_blocked(y, p.n, s.oc, s.oh, s.ow), p.y, 9 * s.ic, kRms, "y",
                   Scale::kLargest);
      const Floats dx = run.pass(WinogradDirection::kBackwardData, 3, 99, false);
      expect_close(from_blocked(dx, p.n, s.ic, s.h, s.w), p.dx, 9 * s.oc, kRms, "dx",
                   Scale::kLargest);
      expect_close(from_blocked_weights(run.weights(3, false), s), p.dw, p.n * s.oh * s.ow, kRms,
                   "dw", Scale::kLargest);
      Floats rectified = y;
      for (float& v : rectified) v = v > 0.0F ? v : 0.0F;
      expect_same_bits(run.pass(WinogradDirection::kForward, 3, 99, false, true), rectified,
                       "relu");
    }
  }
}

TEST(Winograd, SameBitsForAnySplitAndSlice) {
  for (const KernelTable* table : tables()) {
    for (const ConvShape& s : shapes()) {
      const Problem p = make_problem(s, 7);
      SCOPED_TRACE(std::string(table->isa) + " " + p.name());
      WinogradRun run{*table, p};
      const Floats dw = run.weights(7, false);
      for (const WinogradDirection d :
           {WinogradDirection::kForward, WinogradDirection::kBackwardData}) {
        const Floats out = run.pass(d, 7, 99, false);
        expect_same_bits(run.pass(d, 1, 1, true), out, "step 1, slice 1");
        expect_same_bits(run.pass(d, 3, 2, true), out, "step 3, slice 2");
      }
      expect_same_bits(run.weights(1, true), dw, "dw by 1");
      expect_same_bits(run.weights(3, false), dw, "dw by 3");
    }
  }
}

TEST(Winograd, SameBitsWithFewTiles) {
  for (const KernelTable* table : tables()) {
    for (const ConvShape& s : shapes()) {
      if (!winograd_few_applies(s)) continue;
      for (const int samples : {1, 3, 11}) {
        const Problem p = make_problem(s, samples);
        SCOPED_TRACE(std::string(table->isa) + " " + p.name());
        WinogradRun run{*table, p};
        for (const WinogradDirection d :
             {WinogradDirection::kForward, WinogradDirection::kBackwardData}) {
          const Floats out = run.pass(d, samples, 99, false);
          expect_same_bits(run.few_pass(d, samples, 1, false), out, "all at once");
          expect_same_bits(run.few_pass(d, 2, 3, true), out, "two samples, three parts");
        }
        expect_same_bits(run.few_pass(WinogradDirection::kForward, samples, 5, false, true),
                         run.pass(WinogradDirection::kForward, samples, 99, false, true), "relu");
        const Floats dw = run.weights(samples, false);
        expect_same_bits(run.few_weights(1, 3), dw, "dw, a block at a time");
        expect_same_bits(run.few_weights(4, 1), dw, "dw, four blocks at a time");
      }
    }
  }
}

TEST(Winograd, Avx512GivesTheBitsOfAvx2) {
  const KernelTable* wide = table_for("avx512");
  if (wide == nullptr) GTEST_SKIP() << "no AVX-512 here";
  EXPECT_NE(wide->winograd.pass, table_for("avx2")->winograd.pass);
  for (const ConvShape& s : shapes()) {
    const Problem p = make_problem(s, 4);
    SCOPED_TRACE(p.name());
    WinogradRun run{*table_for("avx2"), p}, other{*wide, p};
    for (const WinogradDirection d :
         {WinogradDirection::kForward, WinogradDirection::kBackwardData}) {
      expect_same_bits(other.pass(d, 4, 99, false), run.pass(d, 4, 99, false), "pass");
      expect_same_bits(other.few_pass(d, 4, 1, false), run.few_pass(d, 4, 1, false), "few");
    }
    expect_same_bits(other.weights(4, false), run.weights(4, false), "dw");
  }
}

TEST(ConvBias, GradientIsTheSumOverPixels) {
  for (const KernelTable* table : tables()) {
    const ConvShape s = conv_shape(8, 13, 7, 5, 1);
    const Problem p = make_problem(s, 5);
    const Floats dy = to_blocked(p.dy, p.n, s.oc, s.oh, s.ow);
    Floats whole = poisoned(16), split = poisoned(16);
    BiasGradient args{s.oh * s.ow, dy.data(), std::ptrdiff_t(dy.size()) / p.n, whole.data(), true};
    for (int block = 0; block < 2; ++block) {
      args.diff_bias = whole.data();
      args.first = true;
      table->conv_bias.gradient(args, {0, 5}, block);
      args.diff_bias = split.data();
      table->conv_bias.gradient(args, {0, 2}, block);
      args.first = false;
      table->conv_bias.gradient(args, {2, 5}, block);
    }
    expect_same_bits(whole, split, "db");
    whole.resize(13);
    expect_close(whole, p.db, p.n * s.oh * s.ow, 5e-7, "db");
  }
}

}  // namespace
}  // namespace surefit::kernels::testing
