// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/pool.hpp"

#include "engine/kernels/table.hpp"
#include "engine/kernels/vec_math.hpp"

namespace surefit::kernels::SUREFIT_ISA {
namespace {

SUREFIT_INLINE I8 splat_int(int x) {
  return I8{x, x, x, x, x, x, x, x};
}

struct Best {
  V8 value;
  I8 index;
  SUREFIT_INLINE void offer(V8 v, int at) {
    const I8 take = (v > value) | (v != v);
    value = take ? v : value;
    index = take ? splat_int(at) : index;
  }
};

struct Range {
  std::int64_t begin, end;
};
// Window offsets that fall inside [0, size) when the window starts at `start`.
SUREFIT_INLINE Range inside(std::int64_t start, int window, std::int64_t size) {
  const std::int64_t begin = start < 0 ? -start : 0;
  const std::int64_t end = start + window > size ? size - start : window;
  return {begin, end > begin ? end : begin};
}
// Outputs whose window covers input position `at`.
SUREFIT_INLINE Range covering(std::int64_t at, int window, int stride, int pad,
                              std::int64_t outputs) {
  const std::int64_t shifted = at + pad;
  const std::int64_t begin = shifted < window ? 0 : (shifted - window) / stride + 1;
  const std::int64_t end = shifted / stride + 1;
  return {begin, end < outputs ? end : outputs};
}

SUREFIT_INLINE Best max_window(const PoolShape& s, const float* src, std::int64_t oy,
                               std::int64_t ox) {
  const std::int64_t y0 = oy * s.stride_h - s.pad_top, x0 = ox * s.stride_w - s.pad_left;
  const Range ys = inside(y0, s.window_h, s.height), xs = inside(x0, s.window_w, s.width);
  if (ys.begin >= ys.end || xs.begin >= xs.end) return {V8{}, splat_int(kPoolDead)};
  const auto at = [&](std::int64_t ky, std::int64_t kx) {
    return src + ((y0 + ky) * s.width + x0 + kx) * kBlock;
  };
  Best best{load(at(ys.begin, xs.begin)),
            splat_int(static_cast<int>(ys.begin * s.window_w + xs.begin))};
  for (std::int64_t ky = ys.begin; ky < ys.end; ++ky) {
    for (std::int64_t kx = xs.begin; kx < xs.end; ++kx) {
      if (ky == ys.begin && kx == xs.begin) continue;
      best.offer(load(at(ky, kx)), static_cast<int>(ky * s.window_w + kx));
    }
  }
  return best;
}

// A window known at compile time that lies wholly inside the picture.
template <int H, int W>
SUREFIT_INLINE Best max_full_window(const float* at, std::int64_t row) {
  Best best{load(at), I8{}};
  for (int ky = 0; ky < H; ++ky) {
    for (int kx = 0; kx < W; ++kx) {
      if (ky + kx > 0) best.offer(load(at + ky * row + kx * kBlock), ky * W + kx);
    }
  }
  return best;
}

template <int H, int W>
SUREFIT_INLINE void max_plane(const MaxPoolArgs& a, const float* src, float* dst,
                              std::uint8_t* argmax) {
  const PoolShape& s = a.shape;
  for (std::int64_t oy = 0; oy < s.out_height; ++oy) {
    const std::int64_t y0 = oy * s.stride_h - s.pad_top;
    const bool rows_inside = y0 >= 0 && y0 + s.window_h <= s.height;
    for (std::int64_t ox = 0; ox < s.out_width; ++ox) {
      const std::int64_t x0 = ox * s.stride_w - s.pad_left;
      Best best;
      if (H > 0 && rows_inside && x0 >= 0 && x0 + s.window_w <= s.width) {
        best = max_full_window<H, W>(src + (y0 * s.width + x0) * kBlock, s.width * kBlock);
      } else {
        best = max_window(s, src, oy, ox);
      }
      if (a.relu) {
        const I8 dead = best.value <= V8{};
        best = {dead ? V8{} : best.value, dead ? splat_int(kPoolDead) : best.index};
      }
      const std::int64_t out = (oy * s.out_width + ox) * kBlock;
      store(dst + out, best.value);
      if (argmax != nullptr) store_bytes(argmax + out, best.index);
    }
  }
}

// Calls f(sample, block) over the ranges of any pool argument struct.
template <class Args, class F>
SUREFIT_INLINE void for_planes(const Args& a, F f) {
  for (std::int64_t n = a.sample_begin; n < a.sample_end; ++n)
    for (std::int64_t b = a.block_begin; b < a.block_end; ++b) f(n, b);
}
SUREFIT_INLINE std::int64_t in_plane(const PoolShape& s) {
  return s.height * s.width * kBlock;
}
SUREFIT_INLINE std::int64_t out_plane(const PoolShape& s) {
  return s.out_height * s.out_width * kBlock;
}

void max_pool(const MaxPoolArgs& a) {
  const PoolShape& s = a.shape;
  for_planes(a, [&](std::int64_t n, std::int64_t b) {
    const float* src = a.src + n * a.src_stride + b * in_plane(s);
    float* dst = a.dst + n * a.dst_stride + b * out_plane(s);
    std::uint8_t* argmax =
        a.argmax != nullptr ? a.argmax + n * a.argmax_stride + b * out_plane(s) : nullptr;
    if (s.window_h == 2 && s.window_w == 2) {
      max_plane<2, 2>(a, src, dst, argmax);
    } else if (s.window_h == 3 && s.window_w == 3) {
      max_plane<3, 3>(a, src, dst, argmax);
    } else {
      max_plane<0, 0>(a, src, dst, argmax);
    }
  });
}

struct MaxGradient {
  const float* diff_dst;
  const std::uint8_t* argmax;
};

// Windows that tile the picture: every input has at most one output, each output writes its window
// once.
void max_tiles_backward(const PoolShape& s, const MaxGradient& g, float* diff_src) {
  const std::int64_t used_h = s.out_height * s.window_h, used_w = s.out_width * s.window_w;
  for (std::int64_t oy = 0; oy < s.out_height; ++oy) {
    for (std::int64_t ox = 0; ox < s.out_width; ++ox) {
      const std::int64_t out = (oy * s.out_width + ox) * kBlock;
      const I8 index = load_bytes(g.argmax + out);
      const V8 d = load(g.diff_dst + out);
      float* at = diff_src + (oy * s.window_h * s.width + ox * s.window_w) * kBlock;
      for (int ky = 0; ky < s.window_h; ++ky)
        for (int kx = 0; kx < s.window_w; ++kx)
          store(at + (ky * s.width + kx) * kBlock, index == ky * s.window_w + kx ? d : V8{});
    }
  }
  for (std::int64_t y = 0; y < s.height; ++y) {
    const std::int64_t from = y < used_h ? used_w : 0;
    if (from < s.width) {
      std::memset(diff_src + (y * s.width + from) * kBlock, 0,
                  static_cast<std::size_t>((s.width - from) * kBlock) * sizeof(float));
    }
  }
}

// Overlapping windows: each input gathers from the outputs that cover it, so it is written once.
void max_gather_backward(const PoolShape& s, const MaxGradient& g, float* diff_src) {
  for (std::int64_t y = 0; y < s.height; ++y) {
    const Range oys = covering(y, s.window_h, s.stride_h, s.pad_top, s.out_height);
    for (std::int64_t x = 0; x < s.width; ++x) {
      const Range oxs = covering(x, s.window_w, s.stride_w, s.pad_left, s.out_width);
      V8 sum{};
      for (std::int64_t oy = oys.begin; oy < oys.end; ++oy) {
        const std::int64_t ky = y + s.pad_top - oy * s.stride_h;
        for (std::int64_t ox = oxs.begin; ox < oxs.end; ++ox) {
          const std::int64_t out = (oy * s.out_width + ox) * kBlock;
          const int index = static_cast<int>(ky * s.window_w + x + s.pad_left - ox * s.stride_w);
          sum += load_bytes(g.argmax + out) == index ? load(g.diff_dst + out) : V8{};
        }
      }
      store(diff_src + (y * s.width + x) * kBlock, sum);
    }
  }
}

void max_pool_backward(const MaxPoolBackwardArgs& a) {
  const PoolShape& s = a.shape;
  const bool tiles = s.stride_h == s.window_h && s.stride_w == s.window_w && s.pad_top == 0 &&
                     s.pad_left == 0 && s.out_height * s.window_h <= s.height &&
                     s.out_width * s.window_w <= s.width;
  for_planes(a, [&](std::int64_t n, std::int64_t b) {
    const MaxGradient g{a.diff_dst + n * a.diff_dst_stride + b * out_plane(s),
                        a.argmax + n * a.argmax_stride + b * out_plane(s)};
    float* diff_src = a.diff_src + n * a.diff_src_stride + b * in_plane(s);
    if (tiles) {
      max_tiles_backward(s, g, diff_src);
    } else {
      max_gather_backward(s, g, diff_src);
    }
  });
}

SUREFIT_INLINE float window_count(const PoolShape& s, std::int64_t oy, std::int64_t ox) {
  const Range ys = inside(oy * s.stride_h - s.pad_top, s.window_h, s.height);
  const Range xs = inside(ox * s.stride_w - s.pad_left, s.window_w, s.width);
  const std::int64_t count = (ys.end - ys.begin) * (xs.end - xs.begin);
  return count > 0 ? static_cast<float>(count) : 1.0f;
}

void average_pool(const AveragePoolArgs& a) {
  const PoolShape& s = a.shape;
  for_planes(a, [&](std::int64_t n, std::int64_t b) {
    const float* src = a.src + n * a.src_stride + b * in_plane(s);
    float* dst = a.dst + n * a.dst_stride + b * out_plane(s);
    for (std::int64_t oy = 0; oy < s.out_height; ++oy) {
      const std::int64_t y0 = oy * s.stride_h - s.pad_top;
      const Range ys = inside(y0, s.window_h, s.height);
      for (std::int64_t ox = 0; ox < s.out_width; ++ox) {
        const std::int64_t x0 = ox * s.stride_w - s.pad_left;
        const Range xs = inside(x0, s.window_w, s.width);
        V8 sum{};
        for (std::int64_t ky = ys.begin; ky < ys.end; ++ky)
          for (std::int64_t kx = xs.begin; kx < xs.end; ++kx)
            sum += load(src + ((y0 + ky) * s.width + x0 + kx) * kBlock);
        store(dst + (oy * s.out_width + ox) * kBlock, sum / window_count(s, oy, ox));
      }
    }
  });
}

void average_pool_backward(const AveragePoolArgs& a) {
  const PoolShape& s = a.shape;
  for_planes(a, [&](std::int64_t n, std::int64_t b) {
    const float* diff_dst = a.src + n * a.src_stride + b * out_plane(s);
    float* diff_src = a.dst + n * a.dst_stride + b * in_plane(s);
    for (std::int64_t y = 0; y < s.height; ++y) {
      const Range oys = covering(y, s.window_h, s.stride_h, s.pad_top, s.out_height);
      for (std::int64_t x = 0; x < s.width; ++x) {
        const Range oxs = covering(x, s.window_w, s.stride_w, s.pad_left, s.out_width);
        V8 sum{};
        for (std::int64_t oy = oys.begin; oy < oys.end; ++oy)
          for (std::int64_t ox = oxs.begin; ox < oxs.end; ++ox)
            sum += load(diff_dst + (oy * s.out_width + ox) * kBlock) / window_count(s, oy, ox);
        store(diff_src + (y * s.width + x) * kBlock, sum);
      }
    }
  });
}

SUREFIT_INLINE std::int64_t live_lanes(std::int64_t channels, std::int64_t block) {
  const std::int64_t left = channels - block * kBlock;
  return left < kBlock ? left : kBlock;
}

void global_average(const GlobalPoolArgs& a) {
  for_planes(a, [&](std::int64_t n, std::int64_t b) {
    const float* src = a.src + n * a.src_stride + b * a.pixels * kBlock;
    V8 s0{}, s1{}, s2{}, s3{};
    std::int64_t i = 0;
    for (; i + 4 <= a.pixels; i += 4) {
      s0 += load(src + i * kBlock);
      s1 += load(src + (i + 1) * kBlock);
      s2 += load(src + (i + 2) * kBlock);
      s3 += load(src + (i + 3) * kBlock);
    }
    for (; i < a.pixels; ++i) s0 += load(src + i * kBlock);
    const V8 mean = ((s0 + s1) + (s2 + s3)) / static_cast<float>(a.pixels);
    store_lanes(a.dst + n * a.dst_stride + b * kBlock, mean, live_lanes(a.channels, b));
  });
}

void global_average_backward(const GlobalPoolArgs& a) {
  for_planes(a, [&](std::int64_t n, std::int64_t b) {
    const V8 row = load_lanes(a.src + n * a.src_stride + b * kBlock, live_lanes(a.channels, b));
    const V8 share = row / static_cast<float>(a.pixels);
    float* dst = a.dst + n * a.dst_stride + b * a.pixels * kBlock;
    for (std::int64_t i = 0; i < a.pixels; ++i) store(dst + i * kBlock, share);
  });
}

void global_max(const GlobalPoolArgs& a) {
  for_planes(a, [&](std::int64_t n, std::int64_t b) {
    const float* src = a.src + n * a.src_stride + b * a.pixels * kBlock;
    Best best{load(src), I8{}};
    for (std::int64_t i = 1; i < a.pixels; ++i)
      best.offer(load(src + i * kBlock), static_cast<int>(i));
    const std::int64_t live = live_lanes(a.channels, b);
    store_lanes(a.dst + n * a.dst_stride + b * kBlock, best.value, live);
    if (a.argmax == nullptr) return;
    for (std::int64_t c = 0; c < live; ++c)
      a.argmax[n * a.argmax_stride + b * kBlock + c] = best.index[c];
  });
}

void global_max_backward(const GlobalPoolArgs& a) {
  for_planes(a, [&](std::int64_t n, std::int64_t b) {
    float* dst = a.dst + n * a.dst_stride + b * a.pixels * kBlock;
    std::memset(dst, 0, static_cast<std::size_t>(a.pixels * kBlock) * sizeof(float));
    for (std::int64_t c = 0; c < live_lanes(a.channels, b); ++c) {
      const std::int64_t channel = b * kBlock + c;
      dst[a.argmax[n * a.argmax_stride + channel] * kBlock + c] = a.src[n * a.src_stride + channel];
    }
  });
}

}  // namespace

void fill_pool(KernelTable& table) {
  table.pool = {max_pool,       max_pool_backward,       average_pool, average_pool_backward,
                global_average, global_average_backward, global_max,   global_max_backward};
}

}  // namespace surefit::kernels::SUREFIT_ISA
