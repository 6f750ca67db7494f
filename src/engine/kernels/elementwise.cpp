// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/elementwise.hpp"

#include "engine/kernels/table.hpp"
#include "engine/kernels/vec_math.hpp"

namespace surefit::kernels::SUREFIT_ISA {
namespace {

constexpr float kSqrtHalf = 0.70710678f;
constexpr float kSqrtTwoOverPi = 0.79788456f;
constexpr float kGeluCubic = 0.044715f;

// One struct per activation: f(x) and the factor d(saved) of dx = dy * d. Relus select instead of
// multiplying, so that an infinite gradient at a dead unit is dropped and not turned into NaN.
struct Linear {
  SUREFIT_INLINE V8 f(V8 x) const { return x; }
  SUREFIT_INLINE V8 b(V8, V8 dy) const { return dy; }
};
struct Relu {
  SUREFIT_INLINE V8 f(V8 x) const { return relu(x); }
  SUREFIT_INLINE V8 b(V8 y, V8 dy) const { return y <= 0.0f ? V8{} : dy; }
};
struct Relu6 {
  SUREFIT_INLINE V8 f(V8 x) const {
    const V8 y = relu(x);
    return y >= 6.0f ? splat(6.0f) : y;
  }
  SUREFIT_INLINE V8 b(V8 y, V8 dy) const { return (y <= 0.0f) | (y >= 6.0f) ? V8{} : dy; }
};
struct LeakyRelu {
  float slope;
  SUREFIT_INLINE V8 f(V8 x) const { return x < 0.0f ? x * slope : x; }
  SUREFIT_INLINE V8 b(V8 y, V8 dy) const { return y <= 0.0f ? dy * slope : dy; }
};
struct Sigmoid {
  SUREFIT_INLINE V8 f(V8 x) const { return sigmoid(x); }
  SUREFIT_INLINE V8 b(V8 y, V8 dy) const { return dy * (y * (1.0f - y)); }
};
struct Tanh {
  SUREFIT_INLINE V8 f(V8 x) const { return tanh(x); }
  SUREFIT_INLINE V8 b(V8 y, V8 dy) const { return dy * ((1.0f - y) * (1.0f + y)); }
};
struct Elu {
  float alpha;
  SUREFIT_INLINE V8 f(V8 x) const { return x < 0.0f ? alpha * expm1(x) : x; }
  SUREFIT_INLINE V8 b(V8 y, V8 dy) const { return y < 0.0f ? dy * (y + alpha) : dy; }
};
struct Gelu {
  SUREFIT_INLINE V8 f(V8 x) const { return 0.5f * x * (1.0f + erf(x * kSqrtHalf)); }
  // Phi(x) + x phi(x)
  SUREFIT_INLINE V8 b(V8 x, V8 dy) const {
    const V8 cdf = 0.5f + 0.5f * erf(x * kSqrtHalf);
    const V8 square = x * x;
    const V8 density = 0.39894228f * exp(-0.5f * square);
    return dy * (cdf + x * density);
  }
};
struct GeluTanh {
  SUREFIT_INLINE V8 f(V8 x) const {
    const V8 cubic = x * x * x;
    return 0.5f * x * (1.0f + tanh(kSqrtTwoOverPi * (x + kGeluCubic * cubic)));
  }
  SUREFIT_INLINE V8 b(V8 x, V8 dy) const {
    const V8 square = x * x;
    const V8 cubic = square * x;
    const V8 t = tanh(kSqrtTwoOverPi * (x + kGeluCubic * cubic));
    const V8 inner = kSqrtTwoOverPi * (1.0f + 3.0f * kGeluCubic * square);
    const V8 slope = (1.0f - t) * (1.0f + t) * inner;
    return dy * madd(0.5f * x, slope, 0.5f * (1.0f + t));
  }
};
struct Swish {
  SUREFIT_INLINE V8 f(V8 x) const { return x * sigmoid(x); }
  SUREFIT_INLINE V8 b(V8 x, V8 dy) const {
    const V8 s = sigmoid(x);
    return dy * (s * (1.0f + x * (1.0f - s)));
  }
};
struct Softplus {
  SUREFIT_INLINE V8 f(V8 x) const { return softplus(x); }
  SUREFIT_INLINE V8 b(V8 x, V8 dy) const { return dy * sigmoid(x); }
};
struct HardSigmoid {
  SUREFIT_INLINE V8 f(V8 x) const {
    const V8 y = x * (1.0f / 6.0f) + 0.5f;
    return y <= 0.0f ? V8{} : (y >= 1.0f ? splat(1.0f) : y);
  }
  SUREFIT_INLINE V8 b(V8 y, V8 dy) const {
    return (y <= 0.0f) | (y >= 1.0f) ? V8{} : dy * (1.0f / 6.0f);
  }
};

struct Exponential {
  SUREFIT_INLINE V8 f(V8 x) const { return exp(x); }
  SUREFIT_INLINE V8 b(V8 y, V8 dy) const { return dy * y; }
};

// Klambauer et al. 2017.
struct Selu {
  static constexpr float kScale = 1.05070098f, kScaledAlpha = 1.75809934f;
  SUREFIT_INLINE V8 f(V8 x) const { return x < 0.0f ? kScaledAlpha * expm1(x) : kScale * x; }
  SUREFIT_INLINE V8 b(V8 y, V8 dy) const {
    return dy * (y < 0.0f ? y + kScaledAlpha : splat(kScale));
  }
};
struct HardSwish {
  SUREFIT_INLINE V8 f(V8 x) const { return x * HardSigmoid{}.f(x); }
  SUREFIT_INLINE V8 b(V8 x, V8 dy) const {
    const V8 inside = dy * (x * (1.0f / 3.0f) + 0.5f);
    return x <= -3.0f ? V8{} : (x >= 3.0f ? dy : inside);
  }
};
struct Mish {
  SUREFIT_INLINE V8 f(V8 x) const { return x * tanh(softplus(x)); }
  SUREFIT_INLINE V8 b(V8 x, V8 dy) const {
    const V8 t = tanh(softplus(x));
    return dy * (t + x * sigmoid(x) * ((1.0f - t) * (1.0f + t)));
  }
};
struct Softsign {
  static SUREFIT_INLINE V8 size(V8 x) { return x < 0.0f ? -x : x; }
  SUREFIT_INLINE V8 f(V8 x) const { return x / (1.0f + size(x)); }
  SUREFIT_INLINE V8 b(V8 y, V8 dy) const {
    const V8 rest = 1.0f - size(y);
    return dy * (rest * rest);
  }
};

template <class F>
SUREFIT_INLINE void with_activation(Activation kind, float alpha, F f) {
  switch (kind) {
    case Activation::kRelu:
      return f(Relu{});
    case Activation::kRelu6:
      return f(Relu6{});
    case Activation::kLeakyRelu:
      return f(LeakyRelu{alpha});
    case Activation::kSigmoid:
      return f(Sigmoid{});
    case Activation::kTanh:
      return f(Tanh{});
    case Activation::kElu:
      return f(Elu{alpha});
    case Activation::kGelu:
      return f(Gelu{});
    case Activation::kGeluTanh:
      return f(GeluTanh{});
    case Activation::kSwish:
      return f(Swish{});
    case Activation::kSoftplus:
      return f(Softplus{});
    case Activation::kHardSigmoid:
      return f(HardSigmoid{});
    case Activation::kExponential:
      return f(Exponential{});
    case Activation::kSelu:
      return f(Selu{});
    case Activation::kHardSwish:
      return f(HardSwish{});
    case Activation::kMish:
      return f(Mish{});
    case Activation::kSoftsign:
      return f(Softsign{});
    default:
      return f(Linear{});
  }
}

template <class Op>
void forward_range(const ActivationArgs& a, Op op) {
  if (a.live_lanes < kBlock) {
    const std::int64_t live = a.live_lanes;
    map(
        a.count,
        a.dst, [=](V8 x) __attribute__((always_inline)) { return keep_lanes(op.f(x), live); },
        a.src);
  } else {
    map(
        a.count, a.dst, [=](V8 x) __attribute__((always_inline)) { return op.f(x); }, a.src);
  }
}

template <class Op>
void backward_range(const ActivationBackwardArgs& a, Op op) {
  map(
      a.count, a.diff_src, [=](V8 s, V8 dy) __attribute__((always_inline)) { return op.b(s, dy); },
      a.saved, a.diff_dst);
}

void activation(const ActivationArgs& a) {
  with_activation(a.kind, a.alpha, [&](auto op) { forward_range(a, op); });
}
void activation_backward(const ActivationBackwardArgs& a) {
  with_activation(a.kind, a.alpha, [&](auto op) { backward_range(a, op); });
}

void relu_range(const float* x, float* y, std::int64_t n) {
  map(
      n, y, [](V8 v) __attribute__((always_inline)) { return relu(v); }, x);
}
void relu_backward(const float* y, const float* dy, float* dx, std::int64_t n) {
  map(
      n, dx, [](V8 v, V8 d) __attribute__((always_inline)) { return v <= 0.0f ? V8{} : d; }, y, dy);
}
void add(const float* a, const float* b, float* y, std::int64_t n) {
  map(
      n, y, [](V8 u, V8 v) __attribute__((always_inline)) { return u + v; }, a, b);
}
void add_relu(const float* a, const float* b, float* y, std::int64_t n) {
  map(
      n, y, [](V8 u, V8 v) __attribute__((always_inline)) { return relu(u + v); }, a, b);
}
void multiply(const float* a, const float* b, float* y, std::int64_t n) {
  map(
      n, y, [](V8 u, V8 v) __attribute__((always_inline)) { return u * v; }, a, b);
}
void accumulate(const float* x, float* y, std::int64_t n) {
  add(y, x, y, n);
}
void add_relu_backward(const float* y, const float* a, const float* b, float* dx, std::int64_t n) {
  map(
      n, dx,
      [](V8 v, V8 c, V8 d) __attribute__((always_inline)) { return v <= 0.0f ? V8{} : c + d; }, y,
      a, b);
}
void scale(const float* x, float factor, float* y, std::int64_t n) {
  map(
      n, y, [factor](V8 v) __attribute__((always_inline)) { return v * factor; }, x);
}

}  // namespace

void fill_elementwise(KernelTable& table) {
  table.elementwise = {
      activation, activation_backward, relu_range,        relu_backward, add, add_relu,
      multiply,   accumulate,          add_relu_backward, scale};
}

}  // namespace surefit::kernels::SUREFIT_ISA
