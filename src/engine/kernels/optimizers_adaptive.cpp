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

double scaled_square(const AdafactorArgs& a, std::int64_t i) {
  const double g = double{a.gradient[i]} * a.grad_scale;
  return g * g + a.epsilon1;
}

// Moving means of g^2 over columns and over rows of one matrix; returns the mean of the row means.
double factored_moments(const AdafactorArgs& a, std::int64_t matrix, double beta2) {
  const std::int64_t base = matrix * a.rows * a.cols;
  float* rows = a.row_mean + matrix * a.rows;
  float* cols = a.col_mean + matrix * a.cols;
  for (std::int64_t c = 0; c < a.cols; ++c) a.column_scratch[c] = 0.0;
  double all = 0.0;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    double sum = 0.0;
    for (std::int64_t c = 0; c < a.cols; ++c) {
      const double square = scaled_square(a, base + r * a.cols + c);
      sum += square;
      a.column_scratch[c] += square;
    }
    const double fresh = (1.0 - beta2) * (sum / static_cast<double>(a.cols));
    rows[r] = static_cast<float>(beta2 * rows[r] + fresh);
    all += rows[r];
  }
  for (std::int64_t c = 0; c < a.cols; ++c) {
    const double fresh = (1.0 - beta2) * (a.column_scratch[c] / static_cast<double>(a.rows));
    cols[c] = static_cast<float>(beta2 * cols[c] + fresh);
  }
  return all / static_cast<double>(a.rows);
}

// t^p through own exp and log would need a double exp; a step count has few bits, so this runs once
// per call on the identity t^p = e^(p ln t) with a Taylor series after halving.
double power_of_step(double t, double p) {
  const double x = p * log(t) / 1024.0;
  double term = 1.0, sum = 1.0;
  for (int k = 1; k < 12; ++k) {
    term *= x / k;
    sum += term;
  }
  for (int k = 0; k < 10; ++k) sum *= sum;
  return sum;
}

// u = g / sqrt(v), then w -= alpha u / max(1, rms(u) / clip). u is recomputed, so no scratch of the
// variable's size.
void adafactor(const AdafactorArgs& a) {
  const std::int64_t count = a.matrices * a.rows * a.cols, plane = a.rows * a.cols;
  const double step = static_cast<double>(a.step), size = static_cast<double>(count);
  const double beta2 = 1.0 - power_of_step(step, a.beta2_decay);
  const double relative = 1.0 / __builtin_sqrt(step);
  const double rho = a.relative_step && relative < a.lr ? relative : a.lr;
  double weight_squares = 0.0;
  for (std::int64_t i = 0; i < count; ++i) {
    a.weights[i] -= a.weights[i] * static_cast<float>(a.weight_decay * a.lr);
    weight_squares += double{a.weights[i]} * a.weights[i];
  }
  const double weight_rms = __builtin_sqrt(weight_squares / size);
  const double alpha = (weight_rms > a.epsilon2 ? weight_rms : a.epsilon2) * rho;
  const auto direction = [&](std::int64_t i, double inverse_mean) {
    const double g = double{a.gradient[i]} * a.grad_scale;
    if (!a.factored) return g / __builtin_sqrt(double{a.row_mean[i]});
    const std::int64_t matrix = i / plane;
    const double row = a.row_mean[i / a.cols], col = a.col_mean[matrix * a.cols + i % a.cols];
    return g / __builtin_sqrt(row * inverse_mean * col);
  };
  double squares = 0.0;
  for (std::int64_t matrix = 0; matrix < a.matrices; ++matrix) {
    double inverse = 1.0;
    if (a.factored) {
      inverse = 1.0 / factored_moments(a, matrix, beta2);
    } else {
      for (std::int64_t i = matrix * plane; i < (matrix + 1) * plane; ++i) {
        const double fresh = (1.0 - beta2) * scaled_square(a, i);
        a.row_mean[i] = static_cast<float>(beta2 * a.row_mean[i] + fresh);
      }
    }
    for (std::int64_t i = matrix * plane; i < (matrix + 1) * plane; ++i) {
      const double u = direction(i, inverse);
      squares += u * u;
    }
  }
  const double rms = __builtin_sqrt(squares / size) / a.clip_threshold;
  const double factor = alpha / (rms > 1.0 || rms != rms ? rms : 1.0);
  for (std::int64_t matrix = 0; matrix < a.matrices; ++matrix) {
    double mean = 0.0;
    for (std::int64_t r = 0; a.factored && r < a.rows; ++r) mean += a.row_mean[matrix * a.rows + r];
    const double inverse = a.factored ? static_cast<double>(a.rows) / mean : 1.0;
    for (std::int64_t i = matrix * plane; i < (matrix + 1) * plane; ++i)
      a.weights[i] = static_cast<float>(a.weights[i] - factor * direction(i, inverse));
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
    const D4 s = low + high;
    sums[chunk] = (s[0] + s[2]) + (s[1] + s[3]);
  }
}

}  // namespace

void fill_adaptive_optimizers(KernelTable& table) {
  table.optimizers.rmsprop = rmsprop;
  table.optimizers.adagrad = adagrad;
  table.optimizers.adadelta = adadelta;
  table.optimizers.nadam = nadam;
  table.optimizers.lion = lion;
  table.optimizers.adafactor = adafactor;
  table.optimizers.square_sums = square_sums;
}

}  // namespace surefit::kernels::SUREFIT_ISA
