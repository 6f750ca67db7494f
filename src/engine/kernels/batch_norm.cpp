// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/batch_norm.hpp"

#include "engine/kernels/table.hpp"
#include "engine/kernels/vec_math.hpp"

namespace surefit::kernels::SUREFIT_ISA {
namespace {

SUREFIT_INLINE std::int64_t padded(std::int64_t channels) {
  return (channels + kBlock - 1) / kBlock * kBlock;
}
SUREFIT_INLINE std::int64_t live_lanes(std::int64_t channels, std::int64_t block) {
  const std::int64_t left = channels - block * kBlock;
  return left < kBlock ? left : kBlock;
}
SUREFIT_INLINE V8 channel_values(const float* p, std::int64_t channels, std::int64_t block,
                                 float missing) {
  const std::int64_t live = live_lanes(channels, block);
  return p != nullptr ? load_lanes(p + block * kBlock, live) : keep_lanes(splat(missing), live);
}

template <class Args, class F>
SUREFIT_INLINE void for_planes(const Args& a, F f) {
  for (std::int64_t n = a.sample_begin; n < a.sample_end; ++n)
    for (std::int64_t b = a.block_begin; b < a.block_end; ++b) f(n, b);
}

struct Sums {
  D4 first[2] = {}, second[2] = {};
  SUREFIT_INLINE void store_to(double* first_to, double* second_to) const {
    std::memcpy(first_to, first, sizeof first);
    std::memcpy(second_to, second, sizeof second);
  }
  SUREFIT_INLINE void add(const Sums& o) {
    for (int h = 0; h < 2; ++h) {
      first[h] += o.first[h];
      second[h] += o.second[h];
    }
  }
};

// Straight double: a square of a float is exact there, so E[x^2] - mean^2 loses nothing that
// matters.
SUREFIT_INLINE void add_square(Sums& s, V8 x) {
  const D4 low = low_double(x), high = high_double(x);
  s.first[0] += low;
  s.first[1] += high;
  s.second[0] += low * low;
  s.second[1] += high * high;
}

void stats(const BatchNormStatsArgs& a) {
  const std::int64_t c8 = padded(a.channels);
  for_planes(a, [&](std::int64_t n, std::int64_t b) {
    const float* x = a.src + n * a.src_stride + b * a.pixels * kBlock;
    Sums even, odd;
    std::int64_t i = 0;
    for (; i + 2 <= a.pixels; i += 2) {
      add_square(even, load(x + i * kBlock));
      add_square(odd, load(x + (i + 1) * kBlock));
    }
    if (i < a.pixels) add_square(even, load(x + i * kBlock));
    even.add(odd);
    double* to = a.partials + n * 2 * c8 + b * kBlock;
    even.store_to(to, to + c8);
  });
}

void combine(const BatchNormCombineArgs& a) {
  const std::int64_t c8 = padded(a.channels);
  const double count = static_cast<double>(a.samples) * static_cast<double>(a.pixels);
  for (std::int64_t c = 0; c < c8; ++c) {
    double sum = 0, squares = 0;
    for (std::int64_t n = 0; n < a.samples; ++n) {
      sum += a.partials[n * 2 * c8 + c];
      squares += a.partials[(n * 2 + 1) * c8 + c];
    }
    const double mean = sum / count;
    const double raw = squares / count - mean * mean;
    const double variance = raw < 0 ? 0.0 : raw;
    a.mean[c] = static_cast<float>(mean);
    a.inv_std[c] = static_cast<float>(1.0 / __builtin_sqrt(variance + a.epsilon));
    if (a.moving_mean != nullptr && c < a.channels) {
      const double keep = a.momentum, take = 1.0 - keep;
      const double old_mean = a.moving_mean[c] * keep, old_variance = a.moving_variance[c] * keep;
      a.moving_mean[c] = static_cast<float>(old_mean + mean * take);
      a.moving_variance[c] = static_cast<float>(old_variance + variance * take);
    }
  }
}

void from_moving(std::int64_t channels, const float* moving_mean, const float* moving_variance,
                 float epsilon, float* mean, float* inv_std) {
  for (std::int64_t c = 0; c < padded(channels); ++c) {
    mean[c] = c < channels ? moving_mean[c] : 0.0f;
    const double variance = c < channels ? moving_variance[c] : 1.0f;
    inv_std[c] = static_cast<float>(1.0 / __builtin_sqrt(variance + epsilon));
  }
}

// The fused activations. NaN passes, as in elementwise.cpp.
struct NoActivation {
  static constexpr bool kMasks = false;
  static SUREFIT_INLINE V8 f(V8 x) { return x; }
  static SUREFIT_INLINE V8 mask(V8, V8 dy) { return dy; }
};
struct Relu {
  static constexpr bool kMasks = true;
  static SUREFIT_INLINE V8 f(V8 x) { return relu(x); }
  static SUREFIT_INLINE V8 mask(V8 y, V8 dy) { return y <= 0.0f ? V8{} : dy; }
};
struct Relu6 {
  static constexpr bool kMasks = true;
  static SUREFIT_INLINE V8 f(V8 x) {
    const V8 y = relu(x);
    return y >= 6.0f ? splat(6.0f) : y;
  }
  static SUREFIT_INLINE V8 mask(V8 y, V8 dy) { return (y <= 0.0f) | (y >= 6.0f) ? V8{} : dy; }
};

template <class F>
SUREFIT_INLINE void with_activation(Activation kind, F f) {
  if (kind == Activation::kRelu6) return f(Relu6{});
  if (kind == Activation::kRelu) return f(Relu{});
  f(NoActivation{});
}

template <bool Residual, class Act>
void apply_planes(const BatchNormApplyArgs& a) {
  for_planes(a, [&](std::int64_t n, std::int64_t b) {
    const V8 mean = load(a.mean + b * kBlock);
    const V8 scale = load(a.inv_std + b * kBlock) * channel_values(a.gamma, a.channels, b, 1.0f);
    const V8 beta = channel_values(a.beta, a.channels, b, 0.0f);
    const std::int64_t plane = b * a.pixels * kBlock;
    const float* x = a.src + n * a.src_stride + plane;
    const float* r = Residual ? a.residual + n * a.residual_stride + plane : nullptr;
    float* y = a.dst + n * a.dst_stride + plane;
    for (std::int64_t i = 0; i < a.pixels * kBlock; i += kBlock) {
      V8 v = (load(x + i) - mean) * scale + beta;
      if (Residual) v += load(r + i);
      store(y + i, Act::f(v));
    }
  });
}

void apply(const BatchNormApplyArgs& a) {
  with_activation(a.activation, [&](auto act) {
    using Act = decltype(act);
    a.residual != nullptr ? apply_planes<true, Act>(a) : apply_planes<false, Act>(a);
  });
}

template <class Act>
SUREFIT_INLINE V8 masked(const float* dy, const float* y, std::int64_t i) {
  const V8 d = load(dy + i);
  return Act::kMasks ? Act::mask(load(y + i), d) : d;
}

// dgamma as sum of dy (x - mean) in double; inv_std is applied once at the end.
SUREFIT_INLINE void add_gradient(Sums& s, V8 dy, V8 x, D4 mean_low, D4 mean_high) {
  const D4 low = low_double(dy), high = high_double(dy);
  s.first[0] += low;
  s.first[1] += high;
  s.second[0] += low * (low_double(x) - mean_low);
  s.second[1] += high * (high_double(x) - mean_high);
}

template <class Act>
void backward_stats_planes(const BatchNormBackwardStatsArgs& a) {
  const std::int64_t c8 = padded(a.channels);
  for_planes(a, [&](std::int64_t n, std::int64_t b) {
    const V8 mean = load(a.mean + b * kBlock), inv_std = load(a.inv_std + b * kBlock);
    const D4 mean_low = low_double(mean), mean_high = high_double(mean);
    const std::int64_t plane = b * a.pixels * kBlock;
    const float* x = a.src + n * a.src_stride + plane;
    const float* dy = a.diff_dst + n * a.diff_dst_stride + plane;
    const float* y = Act::kMasks ? a.dst + n * a.dst_stride + plane : nullptr;
    Sums even, odd;
    std::int64_t i = 0;
    const std::int64_t end = a.pixels * kBlock;
    for (; i + 2 * kBlock <= end; i += 2 * kBlock) {
      add_gradient(even, masked<Act>(dy, y, i), load(x + i), mean_low, mean_high);
      add_gradient(odd, masked<Act>(dy, y, i + kBlock), load(x + i + kBlock), mean_low, mean_high);
    }
    if (i < end) add_gradient(even, masked<Act>(dy, y, i), load(x + i), mean_low, mean_high);
    even.add(odd);
    even.second[0] *= low_double(inv_std);
    even.second[1] *= high_double(inv_std);
    double* to = a.partials + n * 2 * c8 + b * kBlock;
    even.store_to(to, to + c8);
  });
}

void backward_stats(const BatchNormBackwardStatsArgs& a) {
  with_activation(a.activation, [&](auto act) { backward_stats_planes<decltype(act)>(a); });
}

void backward_combine(const BatchNormBackwardCombineArgs& a) {
  const std::int64_t c8 = padded(a.channels);
  const double count = static_cast<double>(a.samples) * static_cast<double>(a.pixels);
  for (std::int64_t c = 0; c < c8; ++c) {
    double beta = 0, gamma = 0;
    for (std::int64_t n = 0; n < a.samples; ++n) {
      beta += a.partials[n * 2 * c8 + c];
      gamma += a.partials[(n * 2 + 1) * c8 + c];
    }
    if (c < a.channels) {
      if (a.diff_beta != nullptr) a.diff_beta[c] = static_cast<float>(beta);
      if (a.diff_gamma != nullptr) a.diff_gamma[c] = static_cast<float>(gamma);
    }
    a.mean_dy[c] = static_cast<float>(beta / count);
    a.mean_dy_xhat[c] = static_cast<float>(gamma / count);
  }
}

template <class Act, bool Batch>
void backward_apply_planes(const BatchNormBackwardApplyArgs& a) {
  for_planes(a, [&](std::int64_t n, std::int64_t b) {
    const V8 mean = load(a.mean + b * kBlock), inv_std = load(a.inv_std + b * kBlock);
    const V8 scale = inv_std * channel_values(a.gamma, a.channels, b, 1.0f);
    const V8 mean_dy = Batch ? load(a.mean_dy + b * kBlock) : V8{};
    const V8 slope = Batch ? load(a.mean_dy_xhat + b * kBlock) * inv_std : V8{};
    const std::int64_t plane = b * a.pixels * kBlock;
    const float* x = Batch ? a.src + n * a.src_stride + plane : nullptr;
    const float* dy = a.diff_dst + n * a.diff_dst_stride + plane;
    const float* y = Act::kMasks ? a.dst + n * a.dst_stride + plane : nullptr;
    float* dx = a.diff_src + n * a.diff_src_stride + plane;
    float* residual =
        a.diff_residual != nullptr ? a.diff_residual + n * a.diff_residual_stride + plane : nullptr;
    for (std::int64_t i = 0; i < a.pixels * kBlock; i += kBlock) {
      const V8 d = masked<Act>(dy, y, i);
      const V8 centred = Batch ? (d - mean_dy) - (load(x + i) - mean) * slope : d;
      if (residual != nullptr) store(residual + i, d);
      store(dx + i, centred * scale);
    }
  });
}

void backward_apply(const BatchNormBackwardApplyArgs& a) {
  with_activation(a.activation, [&](auto act) {
    using Act = decltype(act);
    a.mean_dy != nullptr ? backward_apply_planes<Act, true>(a)
                         : backward_apply_planes<Act, false>(a);
  });
}

}  // namespace

void fill_batch_norm(KernelTable& table) {
  table.batch_norm = {stats,          combine,          from_moving,   apply,
                      backward_stats, backward_combine, backward_apply};
}

}  // namespace surefit::kernels::SUREFIT_ISA
