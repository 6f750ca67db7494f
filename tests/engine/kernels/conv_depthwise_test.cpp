// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "engine/kernels/conv_reference.hpp"

namespace surefit::kernels::testing {
namespace {

constexpr double kRms = 5e-7;

ConvShape depthwise(int c, int h, int w, int k, int stride = 1, int pad = 0, int dilation = 1) {
  return conv_shape(c, c, h, w, k, stride, pad, dilation, c);
}

ConvShape uneven() {
  ConvShape s = depthwise(13, 12, 10, 3, 2);
  s.oh = 6;
  s.ow = 5;
  return s;
}

ConvShape oblong() {
  ConvShape s = depthwise(8, 9, 17, 3, 1, 1);
  s.kw = 5;
  s.stride_h = 2;
  s.pad_left = 2;
  s.oh = 5;
  s.ow = 17;
  return s;
}

std::vector<ConvShape> shapes() {
  return {depthwise(8, 7, 7, 3, 1, 1),
          depthwise(13, 9, 11, 3, 1, 1),
          depthwise(24, 14, 15, 3, 2, 1),
          depthwise(5, 12, 30, 5, 1, 2),
          depthwise(16, 17, 12, 5, 2, 2),
          depthwise(8, 11, 16, 7, 1, 3),
          depthwise(8, 15, 13, 7, 2, 3),
          depthwise(16, 13, 13, 3, 3, 1),
          depthwise(8, 12, 12, 3, 1, 2, 2),
          depthwise(1, 1, 1, 1),
          depthwise(24, 8, 9, 2),
          depthwise(64, 60, 40, 3, 1, 1),
          depthwise(8, 2, 3, 5, 1, 2),
          uneven(),
          oblong()};
}

Floats to_packed(const Floats& plain, const ConvShape& s) {
  Floats out(depthwise_weights_floats(s));
  const std::size_t taps = std::size_t(s.kh * s.kw);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const std::size_t c = i / taps;
    out[(c / 8 * taps + i % taps) * 8 + c % 8] = plain[i];
  }
  return out;
}

Floats from_packed(Floats packed, const ConvShape& s, std::size_t count) {
  Floats out(count);
  const std::size_t taps = std::size_t(s.kh * s.kw);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t c = i / taps, at = (c / 8 * taps + i % taps) * 8 + c % 8;
    out[i] = packed[at];
    packed[at] = 0.0F;
  }
  for (const float v : packed) EXPECT_EQ(v, 0.0F) << "padding lane";
  return out;
}

struct DepthwiseRun {
  const KernelTable& table;
  const Problem& p;
  const ConvShape& s = p.shape;
  Floats x = to_blocked(p.x, p.n, s.ic, s.h, s.w);
  Floats dy = to_blocked(p.dy, p.n, s.oc, s.oh, s.ow);
  Floats w = to_packed(p.w, s);
  Floats b = padded_bias(p.b);
  Floats scratch = poisoned(depthwise_scratch_bytes(s) / sizeof(float));
  std::ptrdiff_t xs = std::ptrdiff_t(x.size()) / p.n, ys = std::ptrdiff_t(dy.size()) / p.n;

  Floats forward(int step, bool reverse, bool relu = false) {
    Floats y = poisoned(dy.size());
    const ConvForward args{s, x.data(), xs, w.data(), b.data(), y.data(), ys, relu};
    for (int n = 0; n < p.n; n += step) {
      for_blocks(depthwise_blocks(s), reverse, [&](int block) {
        table.depthwise.forward(args, {n, std::min(n + step, p.n)}, block, scratch.data());
      });
    }
    return y;
  }
  Floats backward_data(int step, bool reverse) {
    Floats dx = poisoned(x.size());
    const ConvBackwardData args{s, dy.data(), ys, w.data(), dx.data(), xs};
    for (int n = 0; n < p.n; n += step) {
      for_blocks(depthwise_blocks(s), reverse, [&](int block) {
        table.depthwise.backward_data(args, {n, std::min(n + step, p.n)}, block, scratch.data());
      });
    }
    return dx;
  }
  std::pair<Floats, Floats> backward_weights(int step, bool reverse) {
    Floats dw = poisoned(w.size()), db = poisoned(b.size());
    ConvBackwardWeights args{s, x.data(), xs, dy.data(), ys, dw.data(), db.data(), true};
    for (int n = 0; n < p.n; n += step) {
      args.first = n == 0;
      for_blocks(depthwise_backward_weights_blocks(s), reverse, [&](int block) {
        table.depthwise.backward_weights(args, {n, std::min(n + step, p.n)}, block, scratch.data());
      });
    }
    return {dw, db};
  }
};

TEST(Depthwise, MatchesReference) {
  for (const KernelTable* table : tables()) {
    for (const ConvShape& s : shapes()) {
      const Problem p = make_problem(s, 3);
      SCOPED_TRACE(std::string(table->isa) + " " + p.name());
      DepthwiseRun run{*table, p};
      const Floats y = run.forward(3, false);
      expect_close(from_blocked(y, p.n, s.oc, s.oh, s.ow), p.y, s.kh * s.kw, kRms, "y");
      expect_close(from_blocked(run.backward_data(3, false), p.n, s.ic, s.h, s.w), p.dx,
                   s.kh * s.kw, kRms, "dx");
      auto [dw, db] = run.backward_weights(3, false);
      expect_close(from_packed(dw, s, p.w.size()), p.dw, p.n * s.oh * s.ow, kRms, "dw");
      db.resize(std::size_t(s.oc));
      expect_close(db, p.db, p.n * s.oh * s.ow, kRms, "db");
      Floats rectified = y;
      for (float& v : rectified) v = v > 0.0F ? v : 0.0F;
      expect_same_bits(run.forward(3, false, true), rectified, "relu");
    }
  }
}

TEST(Depthwise, SameBitsForAnySplit) {
  for (const KernelTable* table : tables()) {
    for (const ConvShape& s : shapes()) {
      const Problem p = make_problem(s, 5);
      SCOPED_TRACE(std::string(table->isa) + " " + p.name());
      DepthwiseRun run{*table, p};
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

}  // namespace
}  // namespace surefit::kernels::testing
