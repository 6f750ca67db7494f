// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/conv_reference.hpp"

namespace surefit::kernels::testing {
namespace {

constexpr double kRms = 5e-7;

ConvShape uneven() {
  // Keras 'same' with stride 2 on an even picture: one row of padding at the bottom, none on top.
  ConvShape s = conv_shape(3, 24, 12, 11, 3, 2);
  s.pad_top = 0;
  s.pad_left = 1;
  s.oh = 6;
  s.ow = 6;
  return s;
}

ConvShape oblong() {
  ConvShape s = conv_shape(2, 8, 9, 17, 3);
  s.kw = 5;
  s.stride_w = 2;
  s.pad_left = 2;
  s.ow = (17 + 4 - 5) / 2 + 1;
  return s;
}

std::vector<ConvShape> shapes() {
  return {conv_shape(1, 32, 28, 28, 3),
          conv_shape(3, 64, 33, 31, 7, 2, 3),
          conv_shape(1, 6, 12, 13, 5, 1, 2),
          conv_shape(3, 13, 7, 5, 3, 1, 1),
          conv_shape(5, 40, 10, 10, 3, 3, 1),
          conv_shape(7, 8, 11, 14, 3, 1, 2, 2),
          conv_shape(4, 1, 1, 1, 1),
          conv_shape(3, 72, 40, 70, 3, 1, 1),
          uneven(),
          oblong()};
}

struct FirstRun {
  const KernelTable& table;
  const Problem& p;
  Floats x = to_channels_last(p.x, p.n, p.shape.ic, p.shape.h, p.shape.w);
  Floats w = to_first_weights(p.w, p.shape);
  Floats b = padded_bias(p.b);
  Floats dy = to_blocked(p.dy, p.n, p.shape.oc, p.shape.oh, p.shape.ow);
  Floats scratch = poisoned(first_scratch_bytes(p.shape) / sizeof(float));
  std::ptrdiff_t x_stride = std::ptrdiff_t(x.size()) / p.n;
  std::ptrdiff_t y_stride = std::ptrdiff_t(dy.size()) / p.n;

  // step: samples per call.
  Floats forward(int step, bool reverse, bool relu = false) {
    Floats y = poisoned(dy.size());
    const ConvForward args{p.shape,  x.data(), x_stride, w.data(),
                           b.data(), y.data(), y_stride, relu};
    for (int n = 0; n < p.n; n += step) {
      for_blocks(first_forward_blocks(p.shape), reverse, [&](int block) {
        table.first.forward(args, {n, std::min(n + step, p.n)}, block, scratch.data());
      });
    }
    return y;
  }
  std::pair<Floats, Floats> backward_weights(int step, bool reverse) {
    Floats dw = poisoned(w.size()), db = poisoned(b.size());
    ConvBackwardWeights args{p.shape,  x.data(),  x_stride,  dy.data(),
                             y_stride, dw.data(), db.data(), true};
    for (int n = 0; n < p.n; n += step) {
      args.first = n == 0;
      for_blocks(first_backward_weights_blocks(p.shape), reverse, [&](int block) {
        table.first.backward_weights(args, {n, std::min(n + step, p.n)}, block, scratch.data());
      });
    }
    return {dw, db};
  }
};

TEST(FirstConv, MatchesReference) {
  for (const KernelTable* table : tables()) {
    for (const ConvShape& s : shapes()) {
      const Problem p = make_problem(s, 3);
      SCOPED_TRACE(std::string(table->isa) + " " + p.name());
      FirstRun run{*table, p};
      expect_close(from_blocked(run.forward(3, false), p.n, s.oc, s.oh, s.ow), p.y,
                   s.kh * s.kw * s.ic, kRms, "y");
      const auto [dw, db] = run.backward_weights(3, false);
      expect_close(from_first_weights(dw, s), p.dw, p.n * s.oh * s.ow, kRms, "dw");
      Floats plain_db(db.begin(), db.begin() + s.oc);
      expect_close(plain_db, p.db, p.n * s.oh * s.ow, kRms, "db");
      Floats dx = poisoned(p.x.size());
      table->first.backward_data(
          {s, run.dy.data(), run.y_stride, run.w.data(), dx.data(), run.x_stride}, {0, p.n}, 0,
          run.scratch.data());
      expect_close(from_channels_last(dx, p.n, s.ic, s.h, s.w), p.dx, s.kh * s.kw * s.oc, kRms,
                   "dx");
    }
  }
}

TEST(FirstConv, SameBitsForAnySplit) {
  for (const KernelTable* table : tables()) {
    for (const ConvShape& s : shapes()) {
      const Problem p = make_problem(s, 5);
      SCOPED_TRACE(std::string(table->isa) + " " + p.name());
      FirstRun run{*table, p};
      const Floats y = run.forward(5, false);
      const auto [dw, db] = run.backward_weights(5, false);
      for (const int step : {1, 2, 3}) {
        expect_same_bits(run.forward(step, true), y, "y");
        const auto [dw2, db2] = run.backward_weights(step, true);
        expect_same_bits(dw2, dw, "dw");
        expect_same_bits(db2, db, "db");
      }
    }
  }
}

std::vector<ConvShape> pool_shapes() {
  return {conv_shape(1, 32, 28, 28, 3),      conv_shape(3, 13, 17, 22, 3, 1, 1),
          conv_shape(1, 6, 32, 30, 5, 1, 2), conv_shape(2, 24, 9, 9, 5),
          conv_shape(3, 32, 61, 224, 3),     conv_shape(4, 8, 7, 6, 2),
          conv_shape(7, 40, 8, 9, 1),        conv_shape(3, 16, 12, 12, 5, 1, 4)};
}

struct Pooled {
  Floats y;
  std::vector<std::uint8_t> argmax;
};

// The convolution's own output pooled by the definition.
Pooled pool(const Floats& y, int n, const ConvShape& s) {
  const int obs = channel_blocks(s.oc), ph = s.oh / 2, pw = s.ow / 2;
  Pooled out;
  for (int plane = 0; plane < n * obs; ++plane) {
    for (int i = 0; i < ph * pw * 8; ++i) {
      const int row = i / 8 / pw, col = i / 8 % pw;
      float best = -1.0F;
      std::uint8_t winner = kReluDead;
      for (int k = 0; k < 4; ++k) {
        const std::size_t at =
            ((std::size_t(plane) * std::size_t(s.oh) + std::size_t(2 * row + k / 2)) *
                 std::size_t(s.ow) +
             std::size_t(2 * col + k % 2)) *
                8 +
            std::size_t(i % 8);
        if (y[at] > best) {
          best = y[at];
          winner = std::uint8_t(k);
        }
      }
      out.y.push_back(best);
      out.argmax.push_back(best > 0.0F ? winner : kReluDead);
    }
  }
  return out;
}

TEST(FirstPool, ForwardHasTheBitsOfConvReluPool) {
  for (const KernelTable* table : tables()) {
    for (const ConvShape& s : pool_shapes()) {
      const Problem p = make_problem(s, 3);
      SCOPED_TRACE(std::string(table->isa) + " " + p.name());
      FirstRun run{*table, p};
      const Pooled want = pool(run.forward(3, false, true), p.n, s);
      Floats scratch = poisoned(first_pool_scratch_bytes(s) / sizeof(float));
      const std::ptrdiff_t stride = std::ptrdiff_t(want.y.size()) / p.n;
      for (const int step : {1, 3}) {
        Pooled got{poisoned(want.y.size()), std::vector<std::uint8_t>(want.y.size(), 99)};
        const FirstPoolForward args{s,
                                    run.x.data(),
                                    run.x_stride,
                                    run.w.data(),
                                    run.b.data(),
                                    got.y.data(),
                                    got.argmax.data(),
                                    stride};
        for (int n = 0; n < p.n; n += step) {
          for_blocks(first_pool_forward_blocks(s), step == 1, [&](int block) {
            table->first_pool.forward(args, {n, n + step}, block, scratch.data());
          });
        }
        expect_same_bits(got.y, want.y, "pooled");
        EXPECT_EQ(got.argmax, want.argmax);
      }
    }
  }
}

TEST(FirstPool, FirstOfEqualMaximaWins) {
  for (const KernelTable* table : tables()) {
    const ConvShape s = conv_shape(1, 8, 4, 4, 1);
    const Floats x(16, 2.0F), w(8, 1.0F), b(8);
    Floats y(32), scratch(first_pool_scratch_bytes(s) / sizeof(float));
    std::vector<std::uint8_t> argmax(32, 99);
    table->first_pool.forward({s, x.data(), 16, w.data(), b.data(), y.data(), argmax.data(), 32},
                              {0, 1}, 0, scratch.data());
    EXPECT_EQ(argmax, std::vector<std::uint8_t>(32, 0));
  }
}

TEST(FirstPool, BackwardWeightsMatchesReferenceForAnySplit) {
  for (const KernelTable* table : tables()) {
    for (const ConvShape& s : pool_shapes()) {
      Problem p = make_problem(s, 4);
      SCOPED_TRACE(std::string(table->isa) + " " + p.name());
      FirstRun run{*table, p};
      const Pooled pooled = pool(run.forward(4, false, true), p.n, s);
      // The pooled gradient, and the same spread over the convolution's output for the reference.
      const int obs = channel_blocks(s.oc), ph = s.oh / 2, pw = s.ow / 2;
      const Problem other = make_problem(conv_shape(1, s.oc, ph, pw, 1), p.n, 7);
      const Floats g = to_blocked(other.dy, p.n, s.oc, ph, pw);
      Floats spread(run.dy.size());
      for (std::size_t i = 0; i < g.size(); ++i) {
        const std::size_t pixel = i / 8 % std::size_t(ph * pw);
        const std::size_t plane = i / 8 / std::size_t(ph * pw);
        const std::size_t k = pooled.argmax[i];
        if (k == kReluDead) continue;
        const std::size_t row = 2 * (pixel / std::size_t(pw)) + k / 2;
        const std::size_t col = 2 * (pixel % std::size_t(pw)) + k % 2;
        spread[((plane * std::size_t(s.oh) + row) * std::size_t(s.ow) + col) * 8 + i % 8] = g[i];
      }
      ASSERT_EQ(g.size(), std::size_t(p.n * obs * ph * pw * 8));
      const Floats plain = from_blocked(spread, p.n, s.oc, s.oh, s.ow);
      const Problem want = make_problem(s, p.n, 1, &plain);
      Floats scratch = poisoned(first_pool_scratch_bytes(s) / sizeof(float));
      const std::size_t count = first_pool_gradient_floats(s);
      Floats whole;
      for (const int step : {4, 1, 3}) {
        Floats parts = poisoned(count * std::size_t(p.n));
        const FirstPoolBackwardWeights args{s,
                                            run.x.data(),
                                            run.x_stride,
                                            g.data(),
                                            pooled.argmax.data(),
                                            std::ptrdiff_t(g.size()) / p.n,
                                            parts.data(),
                                            std::ptrdiff_t(count)};
        for (int n = 0; n < p.n; n += step) {
          table->first_pool.backward_weights(args, {n, std::min(n + step, p.n)}, scratch.data());
        }
        if (step == 4) {
          whole = parts;
        } else {
          expect_same_bits(parts, whole, "parts");
        }
      }
      Floats sum(count);
      for (std::size_t i = 0; i < whole.size(); ++i) sum[i % count] += whole[i];
      const Floats db(sum.end() - obs * 8, sum.end() - obs * 8 + s.oc);
      sum.resize(first_weights_floats(s));
      expect_close(from_first_weights(sum, s), want.dw, p.n * ph * pw, kRms, "dw");
      expect_close(db, want.db, p.n * ph * pw, kRms, "db");
    }
  }
}

}  // namespace
}  // namespace surefit::kernels::testing
