// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/loss.hpp"

#include "engine/kernels/table.hpp"
#include "engine/kernels/vec_math.hpp"

namespace surefit::kernels::SUREFIT_ISA {
namespace {

// Keras clips by its epsilon of 1e-7 in float32, where 1 - 1e-7 is 1 - 2^-23.
constexpr double kClip = 1e-7, kMost = 1.0 - 0x1p-23;

// Eight double chains over the lanes of V8.
struct RowSum {
  D4 low{}, high{};
  SUREFIT_INLINE void add(V8 v) {
    low += low_double(v);
    high += high_double(v);
  }
  SUREFIT_INLINE void add_product(V8 a, V8 b) {
    low += low_double(a) * low_double(b);
    high += high_double(a) * high_double(b);
  }
  SUREFIT_INLINE double total() const {
    const D4 s = low + high;
    return (s[0] + s[2]) + (s[1] + s[3]);
  }
};

// The larger of two, lane by lane. NaN wins, so that a NaN logit reaches every output of its row.
SUREFIT_INLINE V8 max_or_nan(V8 a, V8 b) {
  return (b > a) | (b != b) ? b : a;
}

float row_max(const float* x, std::int64_t classes) {
  V8 best = splat(x[0]);
  for (std::int64_t c = 0; c < classes; c += kBlock) {
    const V8 v = load_some(x + c, classes - c);
    const I8 live = lane_index() < static_cast<std::int32_t>(classes - c);
    best = max_or_nan(best, live ? v : best);
  }
  best = max_or_nan(best, __builtin_shufflevector(best, best, 4, 5, 6, 7, 0, 1, 2, 3));
  best = max_or_nan(best, __builtin_shufflevector(best, best, 2, 3, 0, 1, 6, 7, 4, 5));
  best = max_or_nan(best, __builtin_shufflevector(best, best, 1, 0, 3, 2, 5, 4, 7, 6));
  return best[0];
}

struct Normalizer {
  float max;
  double sum;  // of e^(x - max)
};

// Writes e^(x - max) to y if there is one.
Normalizer exp_row(const float* x, float* y, std::int64_t classes) {
  const float top = row_max(x, classes);
  RowSum sum;
  for (std::int64_t c = 0; c < classes; c += kBlock) {
    const std::int64_t lanes = classes - c;
    const V8 e = keep_lanes(exp(load_some(x + c, lanes) - top), lanes < kBlock ? lanes : kBlock);
    sum.add(e);
    if (y != nullptr) store_some(y + c, e, lanes);
  }
  return {top, sum.total()};
}

void scale_row(float* y, std::int64_t classes, float factor) {
  map(
      classes, y, [factor](V8 v) __attribute__((always_inline)) { return v * factor; }, y);
}

void softmax(const SoftmaxArgs& a) {
  for (std::int64_t n = a.sample_begin; n < a.sample_end; ++n) {
    float* y = a.dst + n * a.dst_stride;
    const Normalizer norm = exp_row(a.src + n * a.src_stride, y, a.classes);
    scale_row(y, a.classes, static_cast<float>(1.0 / norm.sum));
  }
}

void softmax_backward(const SoftmaxBackwardArgs& a) {
  for (std::int64_t n = a.sample_begin; n < a.sample_end; ++n) {
    const float* y = a.dst + n * a.dst_stride;
    const float* dy = a.diff_dst + n * a.diff_dst_stride;
    RowSum sum;
    for (std::int64_t c = 0; c < a.classes; c += kBlock) {
      sum.add_product(load_some(y + c, a.classes - c), load_some(dy + c, a.classes - c));
    }
    const float dot = static_cast<float>(sum.total());
    map(
        a.classes, a.diff_src + n * a.diff_src_stride,
        [dot](V8 p, V8 d) __attribute__((always_inline)) { return p * (d - dot); }, y, dy);
  }
}

float sample_weight(const CrossEntropyArgs& a, std::int64_t n) {
  return a.weights != nullptr ? a.weight * a.weights[n] : a.weight;
}

void fill_nan(const CrossEntropyArgs& a, std::int64_t n) {
  if (a.loss != nullptr) a.loss[n] = __builtin_nan("");
  if (a.diff_src == nullptr) return;
  float* d = a.diff_src + n * a.diff_src_stride;
  for (std::int64_t c = 0; c < a.classes; ++c) d[c] = __builtin_nanf("");
}

void sparse_row(const CrossEntropyArgs& a, std::int64_t n) {
  const std::int32_t label = a.labels[n];
  if (label < 0 || label >= a.classes) return fill_nan(a, n);
  const float* x = a.src + n * a.src_stride;
  float* d = a.diff_src != nullptr ? a.diff_src + n * a.diff_src_stride : nullptr;
  const double logit = x[label];  // read before the gradient may overwrite it
  const Normalizer norm = exp_row(x, d, a.classes);
  if (a.loss != nullptr) a.loss[n] = log(norm.sum) + norm.max - logit;
  if (d == nullptr) return;
  const float weight = sample_weight(a, n), inverse = static_cast<float>(1.0 / norm.sum);
  const float at_label = (d[label] * inverse - 1.0f) * weight;
  map(
      a.classes, d, [=](V8 e) __attribute__((always_inline)) { return e * inverse * weight; }, d);
  d[label] = at_label;
}

void dense_row(const CrossEntropyArgs& a, std::int64_t n) {
  const float* x = a.src + n * a.src_stride;
  const float* t = a.targets + n * a.targets_stride;
  float* d = a.diff_src != nullptr ? a.diff_src + n * a.diff_src_stride : nullptr;
  RowSum mass, cross;
  const float top = row_max(x, a.classes);
  for (std::int64_t c = 0; c < a.classes; c += kBlock) {
    const std::int64_t lanes = a.classes - c;
    const V8 target = load_some(t + c, lanes), logit = load_some(x + c, lanes);
    mass.add(target);
    cross.add_product(target, lanes < kBlock ? keep_lanes(logit - top, lanes) : logit - top);
  }
  const Normalizer norm = exp_row(x, d, a.classes);
  if (a.loss != nullptr) a.loss[n] = mass.total() * log(norm.sum) - cross.total();
  if (d == nullptr) return;
  const float weight = sample_weight(a, n);
  const float scale = static_cast<float>(mass.total() / norm.sum);
  map(
      a.classes, d,
      [=](V8 e, V8 target) __attribute__((always_inline)) { return (e * scale - target) * weight; },
      static_cast<const float*>(d), t);
}

void softmax_cross_entropy(const CrossEntropyArgs& a) {
  for (std::int64_t n = a.sample_begin; n < a.sample_end; ++n) {
    if (a.labels != nullptr) {
      sparse_row(a, n);
    } else {
      dense_row(a, n);
    }
  }
}

// With q = p / S inside the clip range: dL/dp_i = (sum_j t_j - t_i / q_i) / S, both terms only over
// unclipped classes.
void cross_entropy_probabilities(const CrossEntropyArgs& a) {
  for (std::int64_t n = a.sample_begin; n < a.sample_end; ++n) {
    const float* p = a.src + n * a.src_stride;
    const float* t = a.targets != nullptr ? a.targets + n * a.targets_stride : nullptr;
    const std::int32_t label = a.labels != nullptr ? a.labels[n] : 0;
    if (a.labels != nullptr && (label < 0 || label >= a.classes)) {
      fill_nan(a, n);
      continue;
    }
    RowSum sum;
    for (std::int64_t c = 0; c < a.classes; c += kBlock) sum.add(load_some(p + c, a.classes - c));
    const double total = sum.total();
    double loss = 0, open_mass = 0;
    for (std::int64_t c = 0; c < a.classes; ++c) {
      const double target = a.labels != nullptr ? (c == label ? 1.0 : 0.0) : t[c];
      if (target == 0.0) continue;
      const double q = p[c] / total;
      const double clipped = q < kClip ? kClip : (q > kMost ? kMost : q);
      loss -= target * log(clipped);
      if (q >= kClip && q <= kMost) open_mass += target;
    }
    if (total != total) loss = total;
    if (a.loss != nullptr) a.loss[n] = loss;
    if (a.diff_src == nullptr) continue;
    float* d = a.diff_src + n * a.diff_src_stride;
    const double weight = sample_weight(a, n);
    for (std::int64_t c = 0; c < a.classes; ++c) {
      const double target = a.labels != nullptr ? (c == label ? 1.0 : 0.0) : t[c];
      const double q = p[c] / total;
      const double own = target != 0.0 && q >= kClip && q <= kMost ? target / q : 0.0;
      d[c] = static_cast<float>((open_mass - own) / total * weight);
    }
  }
}

}  // namespace

void fill_loss(KernelTable& table) {
  table.loss = {softmax_cross_entropy, cross_entropy_probabilities, softmax, softmax_backward};
}

}  // namespace surefit::kernels::SUREFIT_ISA
