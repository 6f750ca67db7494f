// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/optimizer_update.hpp"
#include "engine/kernels/optimizers.hpp"
#include "engine/kernels/table.hpp"

namespace surefit::kernels::SUREFIT_ISA {
namespace {

void rmsprop(const RmspropArgs& a) {
  const float lr = a.lr, rho = a.rho, take = 1.0f - a.rho, eps = a.epsilon, momentum = a.momentum;
  const float decay = a.weight_decay * a.lr;
  const auto moved = [=](V8 old, V8 sample) __attribute__((always_inline)) {
    return madd(old, splat(rho), sample * take);
  };
  const auto plain = [=](V8 g, V8 & s) __attribute__((always_inline)) {
    s = moved(s, g * g);
    return lr * g / sqrt(s + eps);
  };
  const auto centered = [=](V8 g, V8 & s, V8 & mean) __attribute__((always_inline)) {
    s = moved(s, g * g);
    mean = moved(mean, g);
    const V8 variance =
        s - mean * mean;  // rounding can push it below 0, where Keras's rsqrt gives NaN
    return lr * g / sqrt((variance < 0.0f ? V8{} : variance) + eps);
  };
  const auto carry = [=](V8 & b, V8 step) __attribute__((always_inline)) {
    b = b * momentum + step;
    return b;
  };
  const bool heavy = a.momentum > 0.0f;
  if (a.mean == nullptr && !heavy) {
    update(
        a.count, a.grad_scale, a.gradient,
        [=](V8 g, V8 & w, V8 & s)
            __attribute__((always_inline)) { w = w - w * decay - plain(g, s); },
        a.weights, a.square);
  } else if (a.mean == nullptr) {
    update(
        a.count, a.grad_scale, a.gradient,
        [=](V8 g, V8 & w, V8 & s, V8 & b)
            __attribute__((always_inline)) { w = w - w * decay - carry(b, plain(g, s)); },
        a.weights, a.square, a.momentum_buffer);
  } else if (!heavy) {
    update(
        a.count, a.grad_scale, a.gradient,
        [=](V8 g, V8 & w, V8 & s, V8 & m)
            __attribute__((always_inline)) { w = w - w * decay - centered(g, s, m); },
        a.weights, a.square, a.mean);
  } else {
    update(
        a.count, a.grad_scale, a.gradient,
        [=](V8 g, V8 & w, V8 & s, V8 & m, V8 & b)
            __attribute__((always_inline)) { w = w - w * decay - carry(b, centered(g, s, m)); },
        a.weights, a.square, a.mean, a.momentum_buffer);
  }
}

void adagrad(const AdagradArgs& a) {
  const float lr = a.lr, eps = a.epsilon, decay = a.weight_decay * a.lr;
  update(
      a.count, a.grad_scale, a.gradient,
      [=](V8 g, V8 & w, V8 & s) __attribute__((always_inline)) {
        w = w - w * decay;
        s += g * g;
        w -= lr * g / sqrt(s + eps);
      },
      a.weights, a.accumulator);
}

void adadelta(const AdadeltaArgs& a) {
  const float lr = a.lr, rho = a.rho, take = 1.0f - a.rho, eps = a.epsilon,
              decay = a.weight_decay * a.lr;
  update(
      a.count, a.grad_scale, a.gradient,
      [=](V8 g, V8 & w, V8 & sg, V8 & sd) __attribute__((always_inline)) {
        w = w - w * decay;
        const V8 square = g * g * take;
        sg = madd(sg, splat(rho), square);
        const V8 delta = -(sqrt(sd + eps) * g / sqrt(sg + eps));
        const V8 moved = delta * delta * take;
        sd = madd(sd, splat(rho), moved);
        w += lr * delta;
      },
      a.weights, a.square_gradient, a.square_delta);
}

void nadam(const NadamArgs& a) {
  const float lr = a.lr, keep1 = 1.0f - a.beta1, keep2 = 1.0f - a.beta2, eps = a.epsilon;
  const float decay = a.weight_decay * a.lr;
  const NadamTerms terms = a.terms;
  update(
      a.count, a.grad_scale, a.gradient,
      [=](V8 g, V8 & w, V8 & m, V8 & v) __attribute__((always_inline)) {
        w = w - w * decay;
        m += (g - m) * keep1;
        v += (g * g - v) * keep2;
        const V8 direct = terms.g * g;
        const V8 ahead = madd(m, splat(terms.m), direct);
        w -= lr * ahead / (sqrt(terms.v * v) + eps);
      },
      a.weights, a.m, a.v);
}

void lion(const LionArgs& a) {
  const float lr = a.lr, b1 = a.beta1, b2 = a.beta2, take1 = 1.0f - a.beta1, take2 = 1.0f - a.beta2;
  const float decay = a.weight_decay * a.lr;
  update(
      a.count, a.grad_scale, a.gradient,
      [=](V8 g, V8 & w, V8 & m) __attribute__((always_inline)) {
        w = w - w * decay;
        const V8 share1 = take1 * g, share2 = take2 * g;
        const V8 mix = madd(m, splat(b1), share1);
        const V8 sign =
            mix > 0.0f ? splat(1.0f) : (mix < 0.0f ? splat(-1.0f) : mix);  // 0 and NaN stay
        w -= lr * sign;
        m = madd(m, splat(b2), share2);
      },
      a.weights, a.m);
}

double sum_of(D4 low, D4 high) {
  const D4 s = low + high;
  return (s[0] + s[2]) + (s[1] + s[3]);
}

SUREFIT_INLINE D4 load_doubles(const double* p) {
  D4 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
SUREFIT_INLINE void store_doubles(double* p, D4 v) {
  std::memcpy(p, &v, sizeof v);
}

double row_squares(const float* gradient, float scale, double epsilon, std::int64_t count,
                   double* columns) {
  D4 low{}, high{};
  std::int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    const V8 g = load(gradient + i) * scale;
    D4 a = low_double(g), b = high_double(g);
    a = a * a + epsilon;
    b = b * b + epsilon;
    low += a;
    high += b;
    store_doubles(columns + i, load_doubles(columns + i) + a);
    store_doubles(columns + i + 4, load_doubles(columns + i + 4) + b);
  }
  double sum = sum_of(low, high);
  for (; i < count; ++i) {
    const auto g = static_cast<double>(gradient[i] * scale);
    const double square = g * g + epsilon;
    sum += square;
    columns[i] += square;
  }
  return sum;
}

double row_norm(const float* gradient, float scale, double row, const double* columns,
                std::int64_t count) {
  D4 low{}, high{};
  std::int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    const V8 g = load(gradient + i) * scale;
    const D4 a = low_double(g) * (row * load_doubles(columns + i));
    const D4 b = high_double(g) * (row * load_doubles(columns + i + 4));
    low += a * a;
    high += b * b;
  }
  double sum = sum_of(low, high);
  for (; i < count; ++i) {
    const double u = static_cast<double>(gradient[i] * scale) * (row * columns[i]);
    sum += u * u;
  }
  return sum;
}

void row_step(float* weights, const float* gradient, float scale, double row, const double* columns,
              std::int64_t count) {
  std::int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    const V8 g = load(gradient + i) * scale, w = load(weights + i);
    const D4 low = low_double(w) - low_double(g) * (row * load_doubles(columns + i));
    const D4 high = high_double(w) - high_double(g) * (row * load_doubles(columns + i + 4));
    store(weights + i, to_float(low, high));
  }
  for (; i < count; ++i) {
    const double u = static_cast<double>(gradient[i] * scale) * (row * columns[i]);
    weights[i] = static_cast<float>(static_cast<double>(weights[i]) - u);
  }
}

void square_sums(const float* x, std::int64_t count, std::int64_t chunk_begin,
                 std::int64_t chunk_end, double* sums) {
  for (std::int64_t chunk = chunk_begin; chunk < chunk_end; ++chunk) {
    const std::int64_t begin = chunk * kSquareChunk;
    const std::int64_t end = begin + kSquareChunk < count ? begin + kSquareChunk : count;
    D4 low{}, high{};
    for (std::int64_t i = begin; i < end; i += kBlock) {
      const V8 v = i + kBlock <= end ? load(x + i) : load_lanes(x + i, end - i);
      const D4 a = low_double(v), b = high_double(v);
      low += a * a;
      high += b * b;
    }
    sums[chunk] = sum_of(low, high);
  }
}

}  // namespace

void fill_adaptive_optimizers(KernelTable& table) {
  table.optimizers.rmsprop = rmsprop;
  table.optimizers.adagrad = adagrad;
  table.optimizers.adadelta = adadelta;
  table.optimizers.nadam = nadam;
  table.optimizers.lion = lion;
  table.optimizers.row_squares = row_squares;
  table.optimizers.row_norm = row_norm;
  table.optimizers.row_step = row_step;
  table.optimizers.square_sums = square_sums;
}

}  // namespace surefit::kernels::SUREFIT_ISA
