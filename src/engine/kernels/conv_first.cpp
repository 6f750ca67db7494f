// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/conv_first.hpp"

#include <cstring>

#include "engine/kernels/stage_rows.hpp"
#include "engine/kernels/table.hpp"
#include "engine/kernels/unroll.hpp"

namespace surefit::kernels::SUREFIT_ISA {

namespace {

// The taps of one kernel row: with dilation 1 they are one contiguous run of kw * ic floats.
struct Taps {
  int rows;
  std::ptrdiff_t row_stride;  // floats from one kernel row to the next
  int segments, run;
  std::ptrdiff_t segment_stride;
};

Taps taps_of(const ConvShape& s, int staged_row) {
  const bool dense = s.dilation_w == 1;
  return {s.kh, std::ptrdiff_t(s.dilation_h) * staged_row, dense ? 1 : s.kw,
          dense ? s.kw * s.ic : s.ic, std::ptrdiff_t(s.dilation_w) * s.ic};
}

// R neighbouring pixels of B channel blocks.
template <int R, int B>
SUREFIT_NOINLINE void forward_tile(const float* x, std::ptrdiff_t pixel_stride, const Taps& taps,
                                   const float* w, std::ptrdiff_t w_block, const float* bias,
                                   float* dst, std::ptrdiff_t dst_block, bool rectify) {
  V8 acc[R][B];
  unroll<B>([&](auto b) SUREFIT_LAMBDA {
    const V8 start = load(bias + b * 8);
    unroll<R>([&](auto r) SUREFIT_LAMBDA { acc[r][b] = start; });
  });
  for (int kh = 0; kh < taps.rows; ++kh) {
    const float* row = x + kh * taps.row_stride;
    for (int segment = 0; segment < taps.segments; ++segment) {
      const float* xs = row + segment * taps.segment_stride;
      for (int k = 0; k < taps.run; ++k) {
        V8 wv[B];
        unroll<B>([&](auto b) SUREFIT_LAMBDA { wv[b] = hold(load(w + b * w_block)); });
        unroll<R>([&](auto r) SUREFIT_LAMBDA {
          const V8 xv = splat(xs[r * pixel_stride + k]);
          unroll<B>([&](auto b) SUREFIT_LAMBDA { acc[r][b] += xv * wv[b]; });
        });
        w += 8;
      }
    }
  }
  unroll<R>([&](auto r) SUREFIT_LAMBDA {
    unroll<B>([&](auto b) SUREFIT_LAMBDA {
      store(dst + b * dst_block + r * 8, rectify ? relu(acc[r][b]) : acc[r][b]);
    });
  });
}

template <int B>
void forward_rows(const ConvForward& a, const float* staged, int row_begin, int row_end, int ob,
                  float* dst) {
  const ConvShape& s = a.shape;
  const int staged_row = first_staged_row(s);
  const Taps taps = taps_of(s, staged_row);
  const std::ptrdiff_t w_block = std::ptrdiff_t(s.kh) * s.kw * s.ic * 8;
  const std::ptrdiff_t dst_block = std::ptrdiff_t(s.oh) * s.ow * 8;
  const std::ptrdiff_t pixel_stride = std::ptrdiff_t(s.stride_w) * s.ic;
  constexpr int kPixels = B == 1 ? 12 : 6;
  const int tiles = ceil_div(s.ow, kPixels);
  for (int oh = row_begin; oh < row_end; ++oh) {
    const float* row = staged + std::ptrdiff_t(oh - row_begin) * s.stride_h * staged_row;
    float* out = dst + ob * dst_block + std::ptrdiff_t(oh) * s.ow * 8;
    for (int t = 0; t < tiles; ++t) {
      const int begin = part_begin(s.ow, tiles, t);
      const int count = part_begin(s.ow, tiles, t + 1) - begin;
      with_count<kPixels>(count, [&](auto r) SUREFIT_LAMBDA {
        forward_tile<r.value, B>(row + begin * pixel_stride, pixel_stride, taps,
                                 a.weights + ob * w_block, w_block, a.bias + ob * 8,
                                 out + std::ptrdiff_t(begin) * 8, dst_block, a.relu);
      });
    }
  }
}

void forward(const ConvForward& a, Samples samples, int block, float* scratch) {
  const ConvShape& s = a.shape;
  const int blocks = first_forward_blocks(s);
  const int row_begin = part_begin(s.oh, blocks, block);
  const int row_end = part_begin(s.oh, blocks, block + 1);
  const int obs = channel_blocks(s.oc);
  for (int n = samples.begin; n < samples.end; ++n) {
    stage_rows(s, a.src + n * a.src_stride, row_begin * s.stride_h - s.pad_top,
               first_staged_rows(s, row_end - row_begin), first_staged_row(s), scratch);
    float* dst = a.dst + n * a.dst_stride;
    int ob = 0;
    for (; ob + 2 <= obs; ob += 2) forward_rows<2>(a, scratch, row_begin, row_end, ob, dst);
    if (ob < obs) forward_rows<1>(a, scratch, row_begin, row_end, ob, dst);
  }
}

// T neighbouring taps of B channel blocks, summed over the pixels of a chunk of rows, then added to
// diff_weights.
template <int B, int T>
SUREFIT_NOINLINE void weights_tile(const float* x, std::ptrdiff_t pixel_stride,
                                   std::ptrdiff_t x_row, const float* dy, std::ptrdiff_t dy_block,
                                   int rows, int ow, int columns, float* dw,
                                   std::ptrdiff_t dw_block) {
  V8 acc[B][T];
  unroll<B>([&](auto b)
                SUREFIT_LAMBDA { unroll<T>([&](auto t) SUREFIT_LAMBDA { acc[b][t] = V8{}; }); });
  for (int row = 0; row < rows; ++row) {
    const float* xr = x + row * x_row;
    const float* g = dy + std::ptrdiff_t(row) * ow * 8;
    for (int p = 0; p < columns; ++p, xr += pixel_stride, g += 8) {
      V8 xv[T];
      unroll<T>([&](auto t) SUREFIT_LAMBDA { xv[t] = splat(xr[t]); });
      unroll<B>([&](auto b) SUREFIT_LAMBDA {
        const V8 gv = hold(load(g + b * dy_block));
        unroll<T>([&](auto t) SUREFIT_LAMBDA { acc[b][t] += gv * xv[t]; });
      });
    }
  }
  unroll<B>([&](auto b) SUREFIT_LAMBDA {
    unroll<T>([&](auto t) SUREFIT_LAMBDA {
      float* out = dw + b * dw_block + t * 8;
      store(out, load(out) + acc[b][t]);
    });
  });
}

// All taps of kernel row kh for B channel blocks over one chunk of rows; staged begins with that
// row.
template <int B>
void weights_chunk(const ConvShape& s, const float* staged, const float* dy, int rows, int kh,
                   float* dw) {
  constexpr int kTaps = B == 1 ? 9 : B == 2 ? 5 : 3;
  const int staged_row = first_staged_row(s);
  const Taps taps = taps_of(s, staged_row);
  const std::ptrdiff_t dw_block = std::ptrdiff_t(s.kh) * s.kw * s.ic * 8;
  const std::ptrdiff_t pixel = std::ptrdiff_t(s.stride_w) * s.ic;
  const int columns = at_most(s.ow, kFirstChunkPixels), taps_pieces = ceil_div(taps.run, kTaps);
  for (int column = 0; column < s.ow; column += columns) {
    for (int segment = 0; segment < taps.segments; ++segment) {
      const float* x = staged + column * pixel + segment * taps.segment_stride;
      float* out = dw + std::ptrdiff_t(kh * s.kw * s.ic + segment * taps.run) * 8;
      for (int i = 0; i < taps_pieces; ++i) {
        const int begin = part_begin(taps.run, taps_pieces, i);
        const int count = part_begin(taps.run, taps_pieces, i + 1) - begin;
        with_count<kTaps>(count, [&](auto t) SUREFIT_LAMBDA {
          weights_tile<B, t.value>(x + begin, pixel, std::ptrdiff_t(s.stride_h) * staged_row,
                                   dy + std::ptrdiff_t(column) * 8, std::ptrdiff_t(s.oh) * s.ow * 8,
                                   rows, s.ow, at_most(s.ow - column, columns),
                                   out + std::ptrdiff_t(begin) * 8, dw_block);
        });
      }
    }
  }
}

void bias_chunk(const float* dy, std::ptrdiff_t pixels, float* db) {
  V8 sum{};
  for (std::ptrdiff_t p = 0; p < pixels; ++p) sum += load(dy + p * 8);
  store(db, load(db) + sum);
}

void backward_weights(const ConvBackwardWeights& a, Samples samples, int block, float* scratch) {
  const ConvShape& s = a.shape;
  const int obs = channel_blocks(s.oc);
  const int ob = block / s.kh * 4, kh = block % s.kh;
  const int count = at_most(obs - ob, 4);
  const bool with_bias = a.diff_bias != nullptr && kh == 0;
  const std::ptrdiff_t dw_block = std::ptrdiff_t(s.kh) * s.kw * s.ic * 8;
  const std::ptrdiff_t dy_block = std::ptrdiff_t(s.oh) * s.ow * 8;
  float* dw = a.diff_weights + ob * dw_block;
  if (a.first) {
    for (int b = 0; b < count; ++b) {
      std::memset(dw + b * dw_block + std::ptrdiff_t(kh) * s.kw * s.ic * 8, 0,
                  sizeof(float) * std::size_t(s.kw * s.ic) * 8);
    }
    if (with_bias) {
      std::memset(a.diff_bias + ob * 8, 0, sizeof(float) * std::size_t(count) * 8);
    }
  }
  const int chunk = first_backward_rows(s);
  for (int n = samples.begin; n < samples.end; ++n) {
    const float* dy = a.diff_dst + n * a.diff_dst_stride + ob * dy_block;
    for (int row = 0; row < s.oh; row += chunk) {
      const int rows = at_most(s.oh - row, chunk);
      stage_rows(s, a.src + n * a.src_stride, row * s.stride_h - s.pad_top + kh * s.dilation_h,
                 (rows - 1) * s.stride_h + 1, first_staged_row(s), scratch);
      const float* g = dy + std::ptrdiff_t(row) * s.ow * 8;
      with_count<4>(count, [&](auto b) SUREFIT_LAMBDA {
        weights_chunk<b.value>(s, scratch, g, rows, kh, dw);
      });
      if (with_bias) {
        for (int b = 0; b < count; ++b) {
          bias_chunk(g + b * dy_block, std::ptrdiff_t(rows) * s.ow, a.diff_bias + (ob + b) * 8);
        }
      }
    }
  }
}

void backward_data(const ConvBackwardData& a, Samples samples, int, float*) {
  const ConvShape& s = a.shape;
  const std::ptrdiff_t row_floats = std::ptrdiff_t(s.w) * s.ic;
  for (int n = samples.begin; n < samples.end; ++n) {
    float* dx = a.diff_src + n * a.diff_src_stride;
    std::memset(dx, 0, sizeof(float) * std::size_t(row_floats) * std::size_t(s.h));
    const float* g = a.diff_dst + n * a.diff_dst_stride;
    for (int ob = 0; ob < channel_blocks(s.oc); ++ob) {
      for (int oh = 0; oh < s.oh; ++oh) {
        for (int ow = 0; ow < s.ow; ++ow, g += 8) {
          const V8 gv = load(g);
          const float* w = a.weights + std::ptrdiff_t(ob) * s.kh * s.kw * s.ic * 8;
          for (int kh = 0; kh < s.kh; ++kh) {
            const int ih = oh * s.stride_h - s.pad_top + kh * s.dilation_h;
            for (int kw = 0; kw < s.kw; ++kw, w += s.ic * 8) {
              const int iw = ow * s.stride_w - s.pad_left + kw * s.dilation_w;
              if (ih < 0 || ih >= s.h || iw < 0 || iw >= s.w) continue;
              for (int i = 0; i < s.ic; ++i) {
                const V8 p = load(w + i * 8) * gv;
                dx[ih * row_floats + std::ptrdiff_t(iw) * s.ic + i] +=
                    ((p[0] + p[1]) + (p[2] + p[3])) + ((p[4] + p[5]) + (p[6] + p[7]));
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace

void fill_first(KernelTable& table) {
  table.first = {forward, backward_weights, backward_data};
}

}  // namespace surefit::kernels::SUREFIT_ISA
