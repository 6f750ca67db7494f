// SPDX-License-Identifier: Apache-2.0
// Dense's backward passes and the update of its weights in one, for few samples.
//
// Adam's root and division of sixteen weights occupy the divider for twenty cycles and nothing
// else, so the update of a tile of weights goes between the products of the next tile: a vector of
// it after every few multiply-adds, which is as far as a processor looks ahead.
#include <array>
#include <tuple>
#include <utility>

#include "engine/kernels/dense.hpp"
#include "engine/kernels/dense_panels.hpp"
#include "engine/kernels/dense_rows.hpp"
#include "engine/kernels/optimizer_update.hpp"
#include "engine/kernels/table.hpp"
#include "engine/kernels/vec16.hpp"

namespace surefit::kernels::SUREFIT_ISA {
namespace {

constexpr int kVector = 16;  // floats

// For the gradients of two tiles of weights: one that waits, and the next.
struct WaitingRoom {
  alignas(64) float gradient[2][kDenseRowsMax * kVector];
};

// The tile of weights that waits for its update. The room is not a part of it, so that a compiler
// need not take a store there for a change of the rest, which is best kept in registers. `state` is
// what the rule works on: the weights, and what it keeps for each of them.
template <class Rule, std::size_t N>
class Waiting {
 public:
  Waiting(const Rule& rule, const std::array<float*, N>& state, WaitingRoom& room)
      : rule_(rule), state_(state), waiting_(room.gradient[0]), next_(room.gradient[1]) {}

  // Updates a vector, if one is left.
  SUREFIT_INLINE void next() {
    if (done_ == count_) return;
    next_of(std::make_index_sequence<N>{});
    done_ += kVector;
    asm volatile("" ::: "memory");  // or the compiler puts all of a tile's side by side
  }
  SUREFIT_INLINE void rest() {
    while (done_ < count_) next();
  }
  // Where the gradient of the next tile goes.
  SUREFIT_INLINE float* room() const { return next_; }
  // Updates what is left of this tile. From now on the next one waits, `count` weights from `at`
  // on.
  SUREFIT_INLINE void turn(std::int64_t at, std::int64_t count) {
    rest();
    float* const free = waiting_;
    waiting_ = next_;
    next_ = free;
    at_ = at;
    done_ = 0;
    count_ = count;
  }

 private:
  template <std::size_t... I>
  SUREFIT_INLINE void next_of(std::index_sequence<I...>) {
    const std::int64_t at = at_ + done_;
    V16 values[N] = {load16(state_[I] + at)...};
    rule_(load16(waiting_ + done_), values[I]...);
    (store16(state_[I] + at, values[I]), ...);
  }

  Rule rule_;
  std::array<float*, N> state_;
  float *waiting_, *next_;
  std::int64_t at_ = 0, done_ = 0, count_ = 0;
};

// One call: what to compute, the rule, and what it works on.
template <class Rule, std::size_t N>
struct Job {
  DenseBackwardDataArgs data;
  const float* src;
  std::int64_t src_stride;
  Rule rule;
  std::array<float*, N> state;
};

// dx of S samples and sixteen k.
template <int S, int Outputs>
SUREFIT_INLINE void rows_data(const DenseBackwardDataArgs& a, std::int64_t n, std::int64_t k,
                              const V16 (&weights)[Outputs]) {
  const float* dy = a.diff_dst + n * a.diff_dst_stride;
  V16 sum[S] = {};
  for (int oc = 0; oc < Outputs; ++oc)
    for (int s = 0; s < S; ++s) sum[s] = fused(dy[s * a.diff_dst_stride + oc], weights[oc], sum[s]);
  for (int s = 0; s < S; ++s) store16(a.diff_src + (n + s) * a.diff_src_stride + k, sum[s]);
}

// Inputs from k on, fewer than sixteen, one pass after the other.
template <class Rule, std::size_t N>
void rows_rest(const Job<Rule, N>& job, std::int64_t k) {
  DenseBackwardDataArgs data = job.data;
  data.k_begin = k;
  alignas(64) float gradient[kDenseRowsMax * kVector];
  DenseBackwardWeightsArgs weights;
  weights.shape = {data.k_end - k, data.shape.outputs};
  weights.src = job.src + k;
  weights.src_stride = job.src_stride;
  weights.diff_dst = data.diff_dst;
  weights.diff_dst_stride = data.diff_dst_stride;
  weights.diff_weights = gradient;
  weights.sample_begin = data.sample_begin;
  weights.sample_end = data.sample_end;
  weights.k_end = weights.shape.inputs;
  rows_backward_weights(weights);
  rows_backward_data(data);
  const std::int64_t at = rows_index(data.shape, k, 0);
  std::apply(
      [&](auto*... state) {
        update(dense_weight_count(weights.shape), 1.0f, gradient, job.rule, (state + at)...);
      },
      job.state);
}

template <int Outputs, class Rule, std::size_t N>
void rows_update(const Job<Rule, N>& job) {
  const DenseBackwardDataArgs a = job.data;
  const float* const src = job.src + a.sample_begin * job.src_stride;
  const float* const diff_dst = a.diff_dst + a.sample_begin * a.diff_dst_stride;
  const std::int64_t src_stride = job.src_stride, samples = a.sample_end - a.sample_begin;
  WaitingRoom room;
  Waiting waiting(job.rule, job.state, room);
  std::int64_t k = a.k_begin;
  for (; k + kVector <= a.k_end; k += kVector) {
    const float *x = src + k, *dy = diff_dst;
    V16 gradient[Outputs] = {};
    for (std::int64_t n = 0; n < samples; ++n) {
      const V16 in = load16(x);
      for (int oc = 0; oc < Outputs; ++oc) gradient[oc] = fused(dy[oc], in, gradient[oc]);
      x += src_stride;
      dy += a.diff_dst_stride;
      waiting.next();
    }
    // Sixteen k are two blocks.
    for (int oc = 0; oc < Outputs; ++oc) {
      store(waiting.room() + oc * kBlock, low_half(gradient[oc]));
      store(waiting.room() + (Outputs + oc) * kBlock, high_half(gradient[oc]));
    }
    const std::int64_t at = rows_index(a.shape, k, 0);
    const float* w = a.weights + at;
    V16 weights[Outputs];
    for (int oc = 0; oc < Outputs; ++oc)
      weights[oc] = hold(join(load(w + oc * kBlock), load(w + (Outputs + oc) * kBlock)));
    std::int64_t n = a.sample_begin;
    for (; n + 2 <= a.sample_end; n += 2) {
      rows_data<2>(a, n, k, weights);
      waiting.next();
    }
    if (n < a.sample_end) rows_data<1>(a, n, k, weights);
    waiting.turn(at, Outputs * kVector);
  }
  waiting.rest();
  if (k < a.k_end) rows_rest(job, k);
}

template <int V>
struct LanesOf {
  using Type = V8;
};
template <>
struct LanesOf<2> {
  using Type = V16;
};

constexpr int kPanelRows = 8;  // k of a tile

// R consecutive k of a panel: their gradients, and their share of dx with samples in its lanes.
// `x` is at the first of them, dy has outputs in its lanes and dy_lanes samples.
template <int V, int R, class Waiting>
SUREFIT_INLINE void panel_tile(const float* x, std::int64_t x_stride, std::int64_t rows,
                               const float (*dy)[kDensePanel], const float (*dy_lanes)[V * kBlock],
                               const float* w, std::int64_t at, bool first, float (*dx)[V * kBlock],
                               Waiting& waiting) {
  using Lanes = typename LanesOf<V>::Type;
  V16 gradient[R] = {};
  for (std::int64_t n = 0; n < rows; ++n) {
    const V16 d = hold(load16(dy[n]));
    for (int r = 0; r < R; ++r) gradient[r] = fused(x[r], d, gradient[r]);
    x += x_stride;
    if (n % 2 != 0) waiting.next();
  }
  for (int r = 0; r < R; ++r) store16(waiting.room() + r * kVector, gradient[r]);
  Lanes sum[R];
  for (int r = 0; r < R; ++r) sum[r] = first ? Lanes{} : load_vector<Lanes>(dx[r]);
  for (int j = 0; j < kDensePanel; ++j) {
    const Lanes d = hold(load_vector<Lanes>(dy_lanes[j]));
    for (int r = 0; r < R; ++r) sum[r] = fused(w[r * kDensePanel + j], d, sum[r]);
    if (j % 4 == 3) waiting.next();
  }
  for (int r = 0; r < R; ++r) store_vector(dx[r], sum[r]);
  waiting.turn(at, R * kVector);
}

// k [strip, strip + count) of samples that V vectors have room for.
template <int V, class Rule, std::size_t N>
void panel_strip(const Job<Rule, N>& job, std::int64_t strip, std::int64_t count) {
  const DenseBackwardDataArgs& a = job.data;
  const std::int64_t n0 = a.sample_begin, rows = a.sample_end - n0;
  alignas(64) float dx[kLanesStrip][V * kBlock], dy_lanes[kDensePanel][V * kBlock];
  alignas(64) float dy[kDenseFewSamples][kDensePanel];
  WaitingRoom room;
  Waiting waiting(job.rule, job.state, room);
  for (std::int64_t unit = 0; unit < dense_units(a.shape); ++unit) {
    const std::int64_t oc = unit * kDensePanel;
    lanes_of_outputs<V>(a, n0, rows, oc, dy_lanes);
    panel_of_outputs(a.diff_dst + n0 * a.diff_dst_stride + oc, a.diff_dst_stride, rows,
                     a.shape.outputs - oc, dy);
    for (std::int64_t i = 0; i < count; i += kPanelRows) {
      const std::int64_t at = (unit * a.shape.inputs + strip + i) * kDensePanel;
      const float* x = job.src + n0 * job.src_stride + strip + i;
      const int here = static_cast<int>(count - i < kPanelRows ? count - i : kPanelRows);
      with_count<kPanelRows>(here, [&](auto r) SUREFIT_LAMBDA {
        panel_tile<V, r.value>(x, job.src_stride, rows, dy, dy_lanes, a.weights + at, at, unit == 0,
                               dx + i, waiting);
      });
    }
  }
  waiting.rest();
  store_lanes_of_inputs<V>(a, n0, rows, strip, count, dx);
}

template <class Rule, std::size_t N>
void panels_update(const Job<Rule, N>& job) {
  const DenseBackwardDataArgs& a = job.data;
  for (std::int64_t strip = a.k_begin; strip < a.k_end; strip += kLanesStrip) {
    const std::int64_t count = a.k_end - strip < kLanesStrip ? a.k_end - strip : kLanesStrip;
    if (a.sample_end - a.sample_begin > kBlock) {
      panel_strip<2>(job, strip, count);
    } else {
      panel_strip<1>(job, strip, count);
    }
  }
}

template <class Args, class Rule, std::size_t N>
void backward_update(const DenseBackwardUpdateArgs<Args>& args, const Rule& rule,
                     const std::array<float*, N>& state) {
  const Job<Rule, N> job{args.data, args.src, args.src_stride, rule, state};
  const std::int64_t outputs = args.data.shape.outputs;
  if (outputs > kDenseRowsMax) {
    panels_update(job);
  } else {
    with_count<kDenseRowsMax>(static_cast<int>(outputs),
                              [&](auto count) SUREFIT_LAMBDA { rows_update<count.value>(job); });
  }
}

void backward_adam(const DenseBackwardUpdateArgs<AdamArgs>& args) {
  const AdamArgs& a = args.update;
  backward_update(args, AdamRule(a), std::array{a.weights, a.m, a.v});
}

void backward_sgd(const DenseBackwardUpdateArgs<SgdArgs>& args) {
  const SgdArgs& a = args.update;
  if (a.velocity == nullptr) {
    backward_update(args, SgdRule(a), std::array{a.weights});
  } else {
    backward_update(args, MomentumRule(a), std::array{a.weights, a.velocity});
  }
}

}  // namespace

void fill_dense_update(KernelTable& table) {
  table.dense.backward_adam = backward_adam;
  table.dense.backward_sgd = backward_sgd;
}

}  // namespace surefit::kernels::SUREFIT_ISA
