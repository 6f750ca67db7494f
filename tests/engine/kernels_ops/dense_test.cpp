// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "engine/kernels_ops/support.hpp"

namespace surefit::kernels {
namespace {

using DenseTest = KernelTest;
INSTANTIATE_TEST_SUITE_P(Isa, DenseTest, testing::Values("baseline", "avx2"));

struct Case {
  std::int64_t inputs, outputs, samples;
};
const Case kCases[] = {{1, 1, 1},     {7, 3, 5},     {13, 10, 9},  {64, 16, 7},
                       {515, 10, 33}, {300, 12, 3},  {5, 17, 2},   {13, 40, 11},
                       {260, 64, 8},  {530, 33, 29}, {65, 100, 70}};

struct Problem {
  DenseShape shape;
  std::int64_t samples, x_stride, y_stride;
  Floats x, keras, packed, bias, dy;
};

void unpack(const KernelTable& k, DenseShape s, const Floats& packed, Floats& keras) {
  for (std::int64_t row = 0; row < s.inputs; ++row)
    k.dense.unpack_row(s, row, packed.data(), keras.data() + row * s.outputs);
}

Problem make(const KernelTable& k, const Case& c) {
  Problem p{{c.inputs, c.outputs}, c.samples, c.inputs + 3, c.outputs + 1, {}, {}, {}, {}, {}};
  p.x = uniform(c.samples * p.x_stride, 1);
  p.keras = uniform(c.inputs * c.outputs, 2);
  p.bias = uniform(c.outputs, 3);
  p.dy = uniform(c.samples * p.y_stride, 4);
  p.packed.assign(static_cast<std::size_t>(dense_weight_count(p.shape)), 0.0f);
  for (std::int64_t row = 0; row < c.inputs; ++row)
    k.dense.pack_row(p.shape, row, p.keras.data() + row * c.outputs, p.packed.data());
  return p;
}

// The error of a chain of n roundings is at most n * 2^-24 of the sum of magnitudes; chains here
// are no longer.
double bound(std::int64_t terms) {
  return static_cast<double>(terms + 2) * 0x1p-24;
}

DenseForwardArgs forward_args(const Problem& p, Floats& y, bool relu) {
  return {.shape = p.shape,
          .src = p.x.data(),
          .src_stride = p.x_stride,
          .weights = p.packed.data(),
          .bias = p.bias.data(),
          .dst = y.data(),
          .dst_stride = p.y_stride,
          .sample_begin = 0,
          .sample_end = p.samples,
          .unit_begin = 0,
          .unit_end = dense_units(p.shape),
          .relu = relu};
}
DenseBackwardDataArgs data_args(const Problem& p, Floats& dx) {
  return {.shape = p.shape,
          .diff_dst = p.dy.data(),
          .diff_dst_stride = p.y_stride,
          .weights = p.packed.data(),
          .diff_src = dx.data(),
          .diff_src_stride = p.x_stride,
          .sample_begin = 0,
          .sample_end = p.samples,
          .k_begin = 0,
          .k_end = p.shape.inputs};
}
DenseBackwardWeightsArgs weights_args(const Problem& p, Floats& dw) {
  return {.shape = p.shape,
          .src = p.x.data(),
          .src_stride = p.x_stride,
          .diff_dst = p.dy.data(),
          .diff_dst_stride = p.y_stride,
          .diff_weights = dw.data(),
          .sample_begin = 0,
          .sample_end = p.samples,
          .k_begin = 0,
          .k_end = p.shape.inputs,
          .unit_begin = 0,
          .unit_end = dense_units(p.shape),
          .first = true};
}

TEST_P(DenseTest, PackRoundTrips) {
  for (const Case& c : kCases) {
    const Problem p = make(k(), c);
    Floats back = poison(c.inputs * c.outputs);
    unpack(k(), p.shape, p.packed, back);
    expect_same_bits(back, p.keras);
  }
}

TEST_P(DenseTest, ForwardMatchesDouble) {
  for (const Case& c : kCases) {
    const Problem p = make(k(), c);
    for (const bool relu : {false, true}) {
      Floats y = poison(c.samples * p.y_stride);
      k().dense.forward(forward_args(p, y, relu));
      for (std::int64_t n = 0; n < c.samples; ++n) {
        for (std::int64_t oc = 0; oc < c.outputs; ++oc) {
          double want = p.bias[oc], scale = std::fabs(want);
          for (std::int64_t i = 0; i < c.inputs; ++i) {
            const double term = double{p.x[n * p.x_stride + i]} * p.keras[i * c.outputs + oc];
            want += term;
            scale += std::fabs(term);
          }
          if (relu && want < 0) want = 0;
          ASSERT_LE(std::fabs(y[n * p.y_stride + oc] - want), bound(c.inputs) * scale);
        }
        ASSERT_TRUE(std::isnan(y[n * p.y_stride + c.outputs]));  // nothing beyond the row
      }
    }
  }
}

TEST_P(DenseTest, BackwardMatchesDouble) {
  for (const Case& c : kCases) {
    const Problem p = make(k(), c);
    Floats dx = poison(c.samples * p.x_stride), dw = poison(dense_weight_count(p.shape)),
           db = poison(c.outputs);
    k().dense.backward_data(data_args(p, dx));
    k().dense.backward_weights(weights_args(p, dw));
    k().dense.backward_bias({.shape = p.shape,
                             .diff_dst = p.dy.data(),
                             .diff_dst_stride = p.y_stride,
                             .diff_bias = db.data(),
                             .sample_begin = 0,
                             .sample_end = c.samples,
                             .first = true});
    for (std::int64_t n = 0; n < c.samples; ++n) {
      for (std::int64_t i = 0; i < c.inputs; ++i) {
        double want = 0, scale = 0;
        for (std::int64_t oc = 0; oc < c.outputs; ++oc) {
          const double term = double{p.dy[n * p.y_stride + oc]} * p.keras[i * c.outputs + oc];
          want += term;
          scale += std::fabs(term);
        }
        ASSERT_LE(std::fabs(dx[n * p.x_stride + i] - want), bound(c.outputs) * scale);
      }
      ASSERT_TRUE(std::isnan(dx[n * p.x_stride + c.inputs]));
    }
    Floats plain = poison(c.inputs * c.outputs);
    unpack(k(), p.shape, dw, plain);
    double all = 0,
           live = 0;  // padding must be zero: the packed array holds nothing but the plain one
    for (const float v : dw) all += std::fabs(v);
    for (std::int64_t oc = 0; oc < c.outputs; ++oc) {
      double bias = 0, bias_scale = 0;
      for (std::int64_t n = 0; n < c.samples; ++n) {
        bias += p.dy[n * p.y_stride + oc];
        bias_scale += std::fabs(p.dy[n * p.y_stride + oc]);
      }
      ASSERT_LE(std::fabs(db[oc] - bias), bound(c.samples) * bias_scale);
      for (std::int64_t i = 0; i < c.inputs; ++i) {
        double want = 0, scale = 0;
        for (std::int64_t n = 0; n < c.samples; ++n) {
          const double term = double{p.dy[n * p.y_stride + oc]} * p.x[n * p.x_stride + i];
          want += term;
          scale += std::fabs(term);
        }
        ASSERT_LE(std::fabs(plain[i * c.outputs + oc] - want), bound(c.samples) * scale);
        live += std::fabs(plain[i * c.outputs + oc]);
      }
    }
    ASSERT_NEAR(all, live, 1e-9 * all);
  }
}

TEST_P(DenseTest, AnySplitGivesTheSameBits) {
  for (const Case& c : kCases) {
    const Problem p = make(k(), c);
    Floats y = poison(c.samples * p.y_stride), y_cut = y, dx = poison(c.samples * p.x_stride),
           dx_cut = dx;
    Floats dw = poison(dense_weight_count(p.shape)), dw_cut = dw, db = poison(c.outputs),
           db_cut = db;
    k().dense.forward(forward_args(p, y, true));
    k().dense.backward_data(data_args(p, dx));
    k().dense.backward_weights(weights_args(p, dw));
    DenseBackwardBiasArgs bias{.shape = p.shape,
                               .diff_dst = p.dy.data(),
                               .diff_dst_stride = p.y_stride,
                               .diff_bias = db.data(),
                               .sample_begin = 0,
                               .sample_end = c.samples,
                               .first = true};
    k().dense.backward_bias(bias);
    bias.diff_bias = db_cut.data();
    const std::int64_t k_cut = std::min(round_up8(c.inputs / 3), c.inputs);
    for (std::int64_t n = 0; n < c.samples; n = n * 2 + 1) {  // pieces of 1, 2, 4, ... samples
      const std::int64_t end = std::min(n * 2 + 1, c.samples);
      for (std::int64_t unit = 0; unit < dense_units(p.shape); ++unit) {
        DenseForwardArgs f = forward_args(p, y_cut, true);
        f.sample_begin = n, f.sample_end = end, f.unit_begin = unit, f.unit_end = unit + 1;
        k().dense.forward(f);
        DenseBackwardWeightsArgs w = weights_args(p, dw_cut);
        w.sample_begin = n, w.sample_end = end, w.unit_begin = unit, w.unit_end = unit + 1,
        w.first = n == 0;
        w.k_end = k_cut;
        k().dense.backward_weights(w);
        w.k_begin = k_cut, w.k_end = c.inputs;
        k().dense.backward_weights(w);
      }
      DenseBackwardDataArgs d = data_args(p, dx_cut);
      d.sample_begin = n, d.sample_end = end, d.k_end = k_cut;
      k().dense.backward_data(d);
      d.k_begin = k_cut, d.k_end = c.inputs;
      k().dense.backward_data(d);
      bias.sample_begin = n, bias.sample_end = end, bias.first = n == 0;
      k().dense.backward_bias(bias);
    }
    expect_same_bits(y, y_cut);
    expect_same_bits(dx, dx_cut);
    expect_same_bits(dw, dw_cut);
    expect_same_bits(db, db_cut);
  }
}

TEST_P(DenseTest, NanReachesItsRowOnly) {
  Problem p = make(k(), {20, 10, 3});
  p.x[p.x_stride + 19] = kPoison;
  Floats y(static_cast<std::size_t>(3 * p.y_stride));
  k().dense.forward(forward_args(p, y, true));
  for (std::int64_t oc = 0; oc < 10; ++oc) {
    EXPECT_FALSE(std::isnan(y[oc]));
    EXPECT_TRUE(std::isnan(y[p.y_stride + oc]));
    EXPECT_FALSE(std::isnan(y[2 * p.y_stride + oc]));
  }
}

// What a backward pass with update changes; `v` is Adam's, or none.
struct Updated {
  Floats weights, m, v, dx;
};

// A rule with its arguments for a part of the weights, and its kernels.
template <typename Args>
struct Rule {
  // Of weights from `at` on.
  std::function<Args(float* weights, Updated&, std::int64_t at)> args;
  void (*alone)(const Args&);
  void (*at_once)(const DenseBackwardUpdateArgs<Args>&);
};

// Inputs [k_begin, k_end), by the kernel for all at once or with avx2's one after the other.
template <typename Args>
Updated backward_update(const Problem& p, bool in_place, std::int64_t k_begin, std::int64_t k_end,
                        const Rule<Args>& rule, bool at_once) {
  const KernelTable& avx2 = *table_for("avx2");
  const std::int64_t count = dense_weight_count(p.shape);
  Problem own = p;
  Updated u{{}, uniform(count, 5), uniform(count, 6), poison(p.samples * p.x_stride)};
  for (float& v : u.v) v = std::fabs(v);
  for (std::size_t i = 0; i < u.m.size(); ++i)  // padding has no moments
    if (own.packed[i] == 0.0f) u.m[i] = u.v[i] = 0.0f;
  Floats dw = poison(count);
  DenseBackwardWeightsArgs weights = weights_args(own, dw);
  DenseBackwardDataArgs data = data_args(own, in_place ? own.x : u.dx);
  weights.k_begin = data.k_begin = k_begin;
  weights.k_end = data.k_end = k_end;
  if (at_once) {
    rule.at_once({data, own.x.data(), p.x_stride, rule.args(own.packed.data(), u, 0)});
  } else {
    avx2.dense.backward_weights(weights);
    avx2.dense.backward_data(data);
    const bool rows = dense_units(p.shape) == 1;
    const std::int64_t width = rows ? p.shape.outputs : kDensePanel;
    for (std::int64_t unit = 0; unit < dense_units(p.shape); ++unit) {
      const std::int64_t at = (unit * p.shape.inputs + k_begin) * width;
      Args part = rule.args(own.packed.data(), u, at);
      part.gradient = dw.data() + at;
      part.count = (k_end - k_begin + (rows ? 7 : 0)) / (rows ? 8 : 1) * (rows ? 8 : 1) * width;
      rule.alone(part);
    }
  }
  u.weights = own.packed;
  if (in_place) u.dx = own.x;
  return u;
}

// A run may move between machines with and without the kernel.
template <typename Args>
void expect_bits_of_one_after_the_other(const KernelTable& wide, const Rule<Args>& rule) {
  for (const std::int64_t outputs : {1, 3, 10, 15, 16, 17, 40, 84}) {
    for (const std::int64_t inputs : {1, 8, 13, 16, 45, 112, 300}) {
      for (const std::int64_t samples : {1, 2, 7, 8, 9, 16}) {
        SCOPED_TRACE(testing::Message() << inputs << " x " << outputs << ", " << samples);
        const Problem p = make(wide, {inputs, outputs, samples});
        for (const bool in_place : {false, true}) {
          for (const std::int64_t begin : {std::int64_t{0}, inputs / 16 * 8}) {
            const Updated want = backward_update(p, in_place, begin, inputs, rule, false);
            const Updated got = backward_update(p, in_place, begin, inputs, rule, true);
            expect_same_bits(got.weights, want.weights);
            expect_same_bits(got.m, want.m);
            expect_same_bits(got.v, want.v);
            expect_same_bits(got.dx, want.dx);
          }
        }
      }
    }
  }
}

class DenseUpdate : public testing::Test {
 protected:
  void SetUp() override {
    wide_ = table_for("avx512");
    if (wide_ == nullptr) GTEST_SKIP() << "no AVX-512 here";
    EXPECT_STREQ(wide_->bits, "avx2");
  }
  const KernelTable* wide_ = nullptr;
};

TEST_F(DenseUpdate, AdamWithItsBackwardPassGivesTheBitsOfOneAfterTheOther) {
  const auto args = [](float* weights, Updated& u, std::int64_t at) {
    return AdamArgs{.weights = weights + at,
                    .m = u.m.data() + at,
                    .v = u.v.data() + at,
                    .alpha = 0.01f,
                    .lr = 0.02f,
                    .weight_decay = 0.3f};
  };
  expect_bits_of_one_after_the_other<AdamArgs>(
      *wide_, {args, table_for("avx2")->optimizers.adam, wide_->dense.backward_adam});
}

TEST_F(DenseUpdate, SgdWithItsBackwardPassGivesTheBitsOfOneAfterTheOther) {
  for (const float momentum : {0.0f, 0.9f}) {
    for (const bool nesterov : {false, true}) {
      SCOPED_TRACE(testing::Message() << "momentum " << momentum << ", nesterov " << nesterov);
      const auto args = [=](float* weights, Updated& u, std::int64_t at) {
        return SgdArgs{.weights = weights + at,
                       .velocity = momentum > 0 ? u.m.data() + at : nullptr,
                       .lr = 0.02f,
                       .momentum = momentum,
                       .nesterov = nesterov,
                       .weight_decay = 0.3f};
      };
      expect_bits_of_one_after_the_other<SgdArgs>(
          *wide_, {args, table_for("avx2")->optimizers.sgd, wide_->dense.backward_sgd});
    }
  }
}

}  // namespace
}  // namespace surefit::kernels
