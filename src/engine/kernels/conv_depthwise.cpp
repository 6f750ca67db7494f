// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/conv_depthwise.hpp"

#include <cstring>

#include "engine/kernels/bias_sum.hpp"
#include "engine/kernels/conv_sweep.hpp"
#include "engine/kernels/table.hpp"

namespace surefit::kernels::SUREFIT_ISA {

namespace {

constexpr int kPixels = kDepthwisePixels;

struct Output {
  V8 bias;
  float* dst;
  std::ptrdiff_t pixel;
  int count;
  bool rectify;
};

SUREFIT_INLINE void finish(const V8 (&acc)[kPixels], const Output& out) {
  unroll<kPixels>([&](auto r) SUREFIT_LAMBDA {
    if (r < out.count) store(out.dst + r * out.pixel, out.rectify ? relu(acc[r]) : acc[r]);
  });
}

// Any taps: one load per multiply-add.
SUREFIT_INLINE void tap_tile(const float* x, std::ptrdiff_t pixel, const TapList& list,
                             const float* w, const Output& out) {
  V8 acc[kPixels];
  unroll<kPixels>([&](auto r) SUREFIT_LAMBDA { acc[r] = out.bias; });
  for (int t = 0; t < list.count; ++t) {
    const float* xp = x + list.taps[t].src;
    const V8 wv = load(w + std::ptrdiff_t(list.taps[t].index) * 8);
    unroll<kPixels>([&](auto r) SUREFIT_LAMBDA { acc[r] += load(xp + r * pixel) * wv; });
  }
  finish(acc, out);
}

// Neighbouring taps: a loaded pixel serves all taps that read it. w_step is negative where the
// kernel is mirrored.
template <int K, int S>
SUREFIT_INLINE void row_tile(const float* x, std::ptrdiff_t x_row, int rows, const float* w,
                             std::ptrdiff_t w_step, const Output& out) {
  V8 acc[kPixels];
  unroll<kPixels>([&](auto r) SUREFIT_LAMBDA { acc[r] = out.bias; });
  for (int kh = 0; kh < rows; ++kh, x += x_row, w += K * w_step) {
    V8 wv[K];
    unroll<K>([&](auto k) SUREFIT_LAMBDA { wv[k] = load(w + k * w_step); });
    unroll<(kPixels - 1) * S + K>([&](auto q) SUREFIT_LAMBDA {
      const V8 xv = hold(load(x + q * 8));
      unroll<K>([&](auto k) SUREFIT_LAMBDA {
        constexpr int kOffset = q.value - k.value;
        if constexpr (kOffset >= 0 && kOffset % S == 0 && kOffset / S < kPixels) {
          acc[kOffset / S] += xv * wv[k];
        }
      });
    });
  }
  finish(acc, out);
}

struct Pass : SweepShape {
  const float* src;
  std::ptrdiff_t src_stride;
  const float* weights;
  const float* bias;
  float* dst;
  std::ptrdiff_t dst_stride;
  bool rectify;
};

// One plane through row_tile: the picture as if convolved forward with padding (pad_top, pad_left).
template <int K, int S>
void dense_plane(const Pass& v, int pad_top, int pad_left, const float* x, const float* w, V8 bias,
                 float* dst, float* staged) {
  const ConvShape& s = v.s;
  const int stride_h = v.back ? 1 : s.stride_h;
  constexpr int kReach = (kPixels - 1) * S + K;
  for (int row = 0; row < v.out_h; ++row) {
    const int top = row * stride_h - pad_top;
    const int kh_begin = at_least(-top, 0), kh_end = at_most(v.in_h - top, s.kh);
    const int rows = at_least(kh_end - kh_begin, 0);
    const float* from = x + std::ptrdiff_t(top + kh_begin) * v.in_w * 8;
    const std::ptrdiff_t w_step = v.back ? -8 : 8;
    const float* taps = w + (v.back ? s.kh * K - 1 : 0) * 8 + kh_begin * K * w_step;
    for (int at = 0; at < v.out_w; at += kPixels) {
      const int left = at * S - pad_left;
      const Output out{bias, dst + (std::ptrdiff_t(row) * v.out_w + at) * 8, 8,
                       at_most(v.out_w - at, kPixels), v.rectify};
      if (left >= 0 && left + kReach <= v.in_w) {
        row_tile<K, S>(from + std::ptrdiff_t(left) * 8, std::ptrdiff_t(v.in_w) * 8, rows, taps,
                       w_step, out);
        continue;
      }
      for (int i = 0; i < rows; ++i) {
        for (int q = 0; q < kReach; ++q) {
          const int column = left + q;
          const bool valid = column >= 0 && column < v.in_w;
          store(staged + (i * kReach + q) * 8,
                valid ? load(from + (std::ptrdiff_t(i) * v.in_w + column) * 8) : V8{});
        }
      }
      row_tile<K, S>(staged, kReach * 8, rows, taps, w_step, out);
    }
  }
}

void tap_plane(const Pass& v, const float* x, const float* w, V8 bias, float* dst, float* scratch) {
  SweepTap* own = reinterpret_cast<SweepTap*>(scratch);
  SweepTap* staged_taps = own + v.s.kh * v.s.kw;
  float* staged = reinterpret_cast<float*>(staged_taps + v.s.kh * v.s.kw);
  const std::ptrdiff_t dst_pixel = std::ptrdiff_t(v.classes) * 8;
  for (int row = 0; row < v.out_h; ++row) {
    for (int c = 0; c < at_most(v.classes, v.out_w); ++c) {
      const TapList list = taps_of(v, row, c, own);
      const int pixels = ceil_div(v.out_w - c, v.classes);
      for (int at = 0; at < pixels; at += kPixels) {
        const Output out{bias, dst + (std::ptrdiff_t(row) * v.out_w + c) * 8 + at * dst_pixel,
                         dst_pixel, at_most(pixels - at, kPixels), v.rectify};
        if (inside(v, list, at, kPixels)) {
          tap_tile(x + std::ptrdiff_t(at) * v.step * 8, std::ptrdiff_t(v.step) * 8, list, w, out);
          continue;
        }
        for (int t = 0; t < list.count; ++t) {
          const SweepTap& tap = list.taps[t];
          staged_taps[t] = {std::ptrdiff_t(t) * kPixels * 8, tap.index, 0, 0};
          for (int r = 0; r < kPixels; ++r) {
            const int column = tap.column + (at + r) * v.step;
            const bool valid = column >= 0 && column < v.in_w;
            store(staged + (t * kPixels + r) * 8,
                  valid ? load(x + (std::ptrdiff_t(tap.row) * v.in_w + column) * 8) : V8{});
          }
        }
        tap_tile(staged, 8, {staged_taps, list.count}, w, out);
      }
    }
  }
}

void plane(const Pass& v, const float* x, const float* w, V8 bias, float* dst, float* scratch) {
  const ConvShape& s = v.s;
  const int stride = v.back ? (s.stride_h == 1 ? s.stride_w : 0) : s.stride_w;
  const bool dense = s.dilation_h == 1 && s.dilation_w == 1 && (!v.back || stride == 1);
  const int pad_top = v.back ? s.kh - 1 - s.pad_top : s.pad_top;
  const int pad_left = v.back ? s.kw - 1 - s.pad_left : s.pad_left;
  if (dense && stride == 1 && s.kw == 3) {
    dense_plane<3, 1>(v, pad_top, pad_left, x, w, bias, dst, scratch);
  } else if (dense && stride == 1 && s.kw == 5) {
    dense_plane<5, 1>(v, pad_top, pad_left, x, w, bias, dst, scratch);
  } else if (dense && stride == 1 && s.kw == 7) {
    dense_plane<7, 1>(v, pad_top, pad_left, x, w, bias, dst, scratch);
  } else if (dense && stride == 2 && s.kw == 3) {
    dense_plane<3, 2>(v, pad_top, pad_left, x, w, bias, dst, scratch);
  } else if (dense && stride == 2 && s.kw == 5) {
    dense_plane<5, 2>(v, pad_top, pad_left, x, w, bias, dst, scratch);
  } else {
    tap_plane(v, x, w, bias, dst, scratch);
  }
}

void run(const Pass& v, Samples samples, int block, float* scratch) {
  const int channels = channel_blocks(v.s.ic), parts = depthwise_blocks(v.s);
  const std::ptrdiff_t in_plane = std::ptrdiff_t(v.in_h) * v.in_w * 8;
  const std::ptrdiff_t out_plane = std::ptrdiff_t(v.out_h) * v.out_w * 8;
  for (int n = samples.begin; n < samples.end; ++n) {
    for (int c = part_begin(channels, parts, block); c < part_begin(channels, parts, block + 1);
         ++c) {
      plane(v, v.src + n * v.src_stride + c * in_plane,
            v.weights + std::ptrdiff_t(c) * v.s.kh * v.s.kw * 8,
            v.bias != nullptr ? load(v.bias + c * 8) : V8{},
            v.dst + n * v.dst_stride + c * out_plane, scratch);
    }
  }
}

void forward(const ConvForward& a, Samples samples, int block, float* scratch) {
  run({sweep_shape(a.shape, false), a.src, a.src_stride, a.weights, a.bias, a.dst, a.dst_stride,
       a.relu},
      samples, block, scratch);
}

void backward_data(const ConvBackwardData& a, Samples samples, int block, float* scratch) {
  run({sweep_shape(a.shape, true), a.diff_dst, a.diff_dst_stride, a.weights, nullptr, a.diff_src,
       a.diff_src_stride, false},
      samples, block, scratch);
}

constexpr int kTaps = 9;

// T taps over a chunk of output rows whose padded input is staged.
template <int T>
SUREFIT_INLINE void weights_tile(const ConvShape& s, const float* const* tap, const float* dy,
                                 int rows, float* dw) {
  V8 acc[T];
  const float* x[T];
  unroll<T>([&](auto t) SUREFIT_LAMBDA {
    acc[t] = V8{};
    x[t] = tap[t];
  });
  const std::ptrdiff_t x_row = std::ptrdiff_t(s.stride_h) * depthwise_staged_columns(s) * 8;
  const std::ptrdiff_t x_pixel = std::ptrdiff_t(s.stride_w) * 8;
  for (int row = 0; row < rows; ++row) {
    for (int p = 0; p < s.ow; ++p, dy += 8) {
      const V8 g = hold(load(dy));
      unroll<T>([&](auto t) SUREFIT_LAMBDA { acc[t] += g * load(x[t] + p * x_pixel); });
    }
    unroll<T>([&](auto t) SUREFIT_LAMBDA { x[t] += x_row; });
  }
  unroll<T>([&](auto t) SUREFIT_LAMBDA { store(dw + t * 8, load(dw + t * 8) + acc[t]); });
}

void stage_plane(const ConvShape& s, const float* x, int first_row, int rows, float* out) {
  const int columns = depthwise_staged_columns(s);
  const int left = at_most(s.pad_left, columns);
  const int copied = at_most(s.w, columns - left);
  for (int i = 0; i < rows; ++i, out += std::ptrdiff_t(columns) * 8) {
    const int ih = first_row + i;
    if (ih < 0 || ih >= s.h) {
      std::memset(out, 0, sizeof(float) * std::size_t(columns) * 8);
      continue;
    }
    std::memset(out, 0, sizeof(float) * std::size_t(left) * 8);
    std::memcpy(out + left * 8, x + std::ptrdiff_t(ih) * s.w * 8,
                sizeof(float) * std::size_t(copied) * 8);
    std::memset(out + (left + copied) * 8, 0,
                sizeof(float) * std::size_t(columns - left - copied) * 8);
  }
}

void backward_weights(const ConvBackwardWeights& a, Samples samples, int block, float* scratch) {
  const ConvShape& s = a.shape;
  const int channels = channel_blocks(s.ic), parts = depthwise_backward_weights_blocks(s);
  const int taps = s.kh * s.kw, pieces = ceil_div(taps, kTaps);
  const int chunk = depthwise_chunk_rows(s);
  const std::ptrdiff_t columns = depthwise_staged_columns(s);
  for (int c = part_begin(channels, parts, block); c < part_begin(channels, parts, block + 1);
       ++c) {
    float* dw = a.diff_weights + std::ptrdiff_t(c) * taps * 8;
    if (a.first) std::memset(dw, 0, sizeof(float) * std::size_t(taps) * 8);
    for (int n = samples.begin; n < samples.end; ++n) {
      const float* x = a.src + n * a.src_stride + std::ptrdiff_t(c) * s.h * s.w * 8;
      const float* dy = a.diff_dst + n * a.diff_dst_stride + std::ptrdiff_t(c) * s.oh * s.ow * 8;
      for (int row = 0; row < s.oh; row += chunk) {
        const int rows = at_most(s.oh - row, chunk);
        stage_plane(s, x, row * s.stride_h - s.pad_top,
                    (rows - 1) * s.stride_h + (s.kh - 1) * s.dilation_h + 1, scratch);
        for (int piece = 0; piece < pieces; ++piece) {
          const int begin = part_begin(taps, pieces, piece);
          const int count = part_begin(taps, pieces, piece + 1) - begin;
          const float* tap[kTaps];
          for (int t = 0; t < count; ++t) {
            const int kh = (begin + t) / s.kw, kw = (begin + t) % s.kw;
            tap[t] = scratch + (kh * s.dilation_h * columns + kw * s.dilation_w) * 8;
          }
          with_count<kTaps>(count, [&](auto t) SUREFIT_LAMBDA {
            weights_tile<t.value>(s, tap, dy + std::ptrdiff_t(row) * s.ow * 8, rows,
                                  dw + begin * 8);
          });
        }
      }
    }
    if (a.diff_bias != nullptr) {
      bias_gradient(
          {std::ptrdiff_t(s.oh) * s.ow, a.diff_dst, a.diff_dst_stride, a.diff_bias, a.first},
          samples, c);
    }
  }
}

}  // namespace

void fill_depthwise(KernelTable& table) {
  table.depthwise = {forward, backward_data, backward_weights};
}

}  // namespace surefit::kernels::SUREFIT_ISA
