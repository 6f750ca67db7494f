// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/layout.hpp"

#include "engine/kernels/table.hpp"
#include "engine/kernels/vec_math.hpp"

namespace surefit::kernels::SUREFIT_ISA {
namespace {

SUREFIT_INLINE std::int64_t live_lanes(std::int64_t channels, std::int64_t block) {
  const std::int64_t left = channels - block * kBlock;
  return left < kBlock ? left : kBlock;
}
SUREFIT_INLINE void copy_floats(float* to, const float* from, std::int64_t count) {
  std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
}
SUREFIT_INLINE void zero_floats(float* to, std::int64_t count) {
  std::memset(to, 0, static_cast<std::size_t>(count) * sizeof(float));
}

void picture_to_blocked(const PictureArgs& a) {
  const std::int64_t blocks = (a.channels + kBlock - 1) / kBlock;
  for (std::int64_t n = a.sample_begin; n < a.sample_end; ++n) {
    for (std::int64_t b = 0; b < blocks; ++b) {
      const float* src = a.src + n * a.src_stride + b * kBlock;
      float* dst = a.dst + n * a.dst_stride + b * a.pixels * kBlock;
      const std::int64_t live = live_lanes(a.channels, b);
      for (std::int64_t p = 0; p < a.pixels; ++p) {
        const float* at = src + p * a.channels;
        store(dst + p * kBlock, live == kBlock ? load(at) : load_lanes(at, live));
      }
    }
  }
}

void blocked_to_picture(const PictureArgs& a) {
  const std::int64_t blocks = (a.channels + kBlock - 1) / kBlock;
  for (std::int64_t n = a.sample_begin; n < a.sample_end; ++n) {
    for (std::int64_t b = 0; b < blocks; ++b) {
      const float* src = a.src + n * a.src_stride + b * a.pixels * kBlock;
      float* dst = a.dst + n * a.dst_stride + b * kBlock;
      const std::int64_t live = live_lanes(a.channels, b);
      for (std::int64_t p = 0; p < a.pixels; ++p) {
        const V8 v = load(src + p * kBlock);
        if (live == kBlock) {
          store(dst + p * a.channels, v);
        } else {
          store_lanes(dst + p * a.channels, v, live);
        }
      }
    }
  }
}

SUREFIT_INLINE V8 byte_values(const std::uint8_t* p, std::int64_t lanes) {
  std::uint8_t tail[kBlock] = {};
  if (lanes < kBlock) std::memcpy(tail, p, static_cast<std::size_t>(lanes));
  return __builtin_convertvector(load_bytes(lanes < kBlock ? tail : p), V8);
}

void bytes_to_blocked(const BytePictureArgs& a) {
  const std::int64_t blocks = (a.channels + kBlock - 1) / kBlock;
  for (std::int64_t n = a.sample_begin; n < a.sample_end; ++n) {
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::uint8_t* src = a.src + n * a.src_stride + b * kBlock;
      float* dst = a.dst + n * a.dst_stride + b * a.pixels * kBlock;
      const std::int64_t live = live_lanes(a.channels, b);
      for (std::int64_t p = 0; p < a.pixels; ++p) {
        const V8 v = byte_values(src + p * a.channels, live) * a.scale + a.offset;
        store(dst + p * kBlock, keep_lanes(v, live));
      }
    }
  }
}

void bytes_to_float(const std::uint8_t* x, float scale, float offset, float* y,
                    std::int64_t count) {
  std::int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock)
    store(y + i, byte_values(x + i, kBlock) * scale + offset);
  if (i < count) store_lanes(y + i, byte_values(x + i, count - i) * scale + offset, count - i);
}

void zero_padding_lanes(float* sample, std::int64_t channels, std::int64_t pixels) {
  const std::int64_t live = channels % kBlock;
  if (live == 0) return;
  float* block = sample + channels / kBlock * pixels * kBlock;
  for (std::int64_t p = 0; p < pixels; ++p)
    store(block + p * kBlock, keep_lanes(load(block + p * kBlock), live));
}

void copy_channels(const ChannelCopyArgs& a) {
  const std::int64_t plane = a.pixels * kBlock;
  for (std::int64_t n = a.sample_begin; n < a.sample_end; ++n) {
    const float* src = a.src + n * a.src_stride;
    float* dst = a.dst + n * a.dst_stride;
    std::int64_t c = 0;
    if (a.src_channel % kBlock == 0 && a.dst_channel % kBlock == 0) {
      c = a.count / kBlock * kBlock;
      copy_floats(dst + a.dst_channel / kBlock * plane, src + a.src_channel / kBlock * plane,
                  c * a.pixels);
    }
    while (c < a.count) {  // pieces that lie in one block on both sides
      const std::int64_t from = a.src_channel + c, to = a.dst_channel + c;
      std::int64_t lanes = kBlock - (from % kBlock > to % kBlock ? from % kBlock : to % kBlock);
      if (lanes > a.count - c) lanes = a.count - c;
      const float* s = src + from / kBlock * plane + from % kBlock;
      float* d = dst + to / kBlock * plane + to % kBlock;
      for (std::int64_t p = 0; p < plane; p += kBlock)
        for (std::int64_t i = 0; i < lanes; ++i) d[p + i] = s[p + i];
      c += lanes;
    }
    if (a.dst_channel + a.count == a.dst_channels)
      zero_padding_lanes(dst, a.dst_channels, a.pixels);
  }
}

template <class Args, class F>
SUREFIT_INLINE void for_planes(const Args& a, std::int64_t src_pixels, std::int64_t dst_pixels, F f,
                               std::int64_t lanes = kBlock) {
  for (std::int64_t n = a.sample_begin; n < a.sample_end; ++n)
    for (std::int64_t b = a.block_begin; b < a.block_end; ++b)
      f(a.src + n * a.src_stride + b * src_pixels * lanes,
        a.dst + n * a.dst_stride + b * dst_pixels * lanes);
}

void place(const PlaceArgs& a) {
  const std::int64_t left = a.left > 0 ? (a.left < a.dst_width ? a.left : a.dst_width) : 0;
  std::int64_t right = a.src_width + a.left < a.dst_width ? a.src_width + a.left : a.dst_width;
  if (right < left) right = left;
  for_planes(
      a, a.src_height * a.src_width, a.dst_height * a.dst_width,
      [&](const float* src, float* dst) {
        for (std::int64_t y = 0; y < a.dst_height; ++y) {
          float* row = dst + y * a.dst_width * a.lanes;
          const std::int64_t sy = y - a.top;
          if (sy < 0 || sy >= a.src_height) {
            zero_floats(row, a.dst_width * a.lanes);
            continue;
          }
          zero_floats(row, left * a.lanes);
          copy_floats(row + left * a.lanes, src + (sy * a.src_width + left - a.left) * a.lanes,
                      (right - left) * a.lanes);
          zero_floats(row + right * a.lanes, (a.dst_width - right) * a.lanes);
        }
      },
      a.lanes);
}

void upsample_nearest(const UpsampleArgs& a) {
  const std::int64_t big = a.width * a.factor_w;
  for_planes(a, a.height * a.width, a.height * a.factor_h * big, [&](const float* src, float* dst) {
    for (std::int64_t y = 0; y < a.height; ++y) {
      float* row = dst + y * a.factor_h * big * kBlock;
      for (std::int64_t x = 0; x < a.width; ++x) {
        const V8 v = load(src + (y * a.width + x) * kBlock);
        for (int i = 0; i < a.factor_w; ++i) store(row + (x * a.factor_w + i) * kBlock, v);
      }
      for (int i = 1; i < a.factor_h; ++i) copy_floats(row + i * big * kBlock, row, big * kBlock);
    }
  });
}

void upsample_nearest_backward(const UpsampleArgs& a) {
  const std::int64_t big = a.width * a.factor_w;
  for_planes(a, a.height * a.factor_h * big, a.height * a.width, [&](const float* src, float* dst) {
    for (std::int64_t y = 0; y < a.height; ++y) {
      for (std::int64_t x = 0; x < a.width; ++x) {
        V8 sum{};
        for (int i = 0; i < a.factor_h; ++i)
          for (int j = 0; j < a.factor_w; ++j)
            sum += load(src + ((y * a.factor_h + i) * big + x * a.factor_w + j) * kBlock);
        store(dst + (y * a.width + x) * kBlock, sum);
      }
    }
  });
}

// Source positions and weights of one output coordinate: centre (at + 1/2) / factor - 1/2, clamped
// at the edges.
struct Between {
  std::int64_t low, high;
  float to_high;
};
SUREFIT_INLINE Between between(std::int64_t at, int factor, std::int64_t size) {
  const std::int64_t doubled = 2 * at + 1 - factor;  // centre in units of 1 / (2 factor), exact
  const std::int64_t unit = 2 * factor;
  const std::int64_t floor = doubled < 0 ? -1 : doubled / unit;
  const float fraction = static_cast<float>(doubled - floor * unit) / static_cast<float>(unit);
  return {floor < 0 ? 0 : floor, floor + 1 < size ? floor + 1 : size - 1, fraction};
}

void upsample_bilinear(const UpsampleArgs& a) {
  const std::int64_t big_h = a.height * a.factor_h, big_w = a.width * a.factor_w;
  for_planes(a, a.height * a.width, big_h * big_w, [&](const float* src, float* dst) {
    for (std::int64_t y = 0; y < big_h; ++y) {
      const Between v = between(y, a.factor_h, a.height);
      const float* top = src + v.low * a.width * kBlock;
      const float* bottom = src + v.high * a.width * kBlock;
      for (std::int64_t x = 0; x < big_w; ++x) {
        const Between h = between(x, a.factor_w, a.width);
        const V8 t0 = load(top + h.low * kBlock), b0 = load(bottom + h.low * kBlock);
        const V8 t = t0 + (load(top + h.high * kBlock) - t0) * h.to_high;
        const V8 b = b0 + (load(bottom + h.high * kBlock) - b0) * h.to_high;
        store(dst + (y * big_w + x) * kBlock, t + (b - t) * v.to_high);
      }
    }
  });
}

SUREFIT_INLINE void add_to(float* p, V8 v) {
  store(p, load(p) + v);
}

void upsample_bilinear_backward(const UpsampleArgs& a) {
  const std::int64_t big_h = a.height * a.factor_h, big_w = a.width * a.factor_w;
  for_planes(a, big_h * big_w, a.height * a.width, [&](const float* src, float* dst) {
    zero_floats(dst, a.height * a.width * kBlock);
    for (std::int64_t y = 0; y < big_h; ++y) {
      const Between v = between(y, a.factor_h, a.height);
      float* top = dst + v.low * a.width * kBlock;
      float* bottom = dst + v.high * a.width * kBlock;
      for (std::int64_t x = 0; x < big_w; ++x) {
        const Between h = between(x, a.factor_w, a.width);
        const V8 d = load(src + (y * big_w + x) * kBlock);
        const V8 down = d * v.to_high, up = d * (1.0f - v.to_high);
        add_to(top + h.low * kBlock, up * (1.0f - h.to_high));
        add_to(top + h.high * kBlock, up * h.to_high);
        add_to(bottom + h.low * kBlock, down * (1.0f - h.to_high));
        add_to(bottom + h.high * kBlock, down * h.to_high);
      }
    }
  });
}

void transpose_matrix(const float* src, std::int64_t rows, std::int64_t cols, float* dst) {
  for (std::int64_t r = 0; r < rows; r += kBlock) {
    const std::int64_t height = rows - r < kBlock ? rows - r : kBlock;
    for (std::int64_t c = 0; c < cols; c += kBlock) {
      const std::int64_t width = cols - c < kBlock ? cols - c : kBlock;
      if (height == kBlock && width == kBlock) {
        V8 t[8];
        for (int i = 0; i < 8; ++i) t[i] = load(src + (r + i) * cols + c);
        transpose(t);
        for (int i = 0; i < 8; ++i) store(dst + (c + i) * rows + r, t[i]);
      } else {
        for (std::int64_t i = 0; i < height; ++i)
          for (std::int64_t j = 0; j < width; ++j)
            dst[(c + j) * rows + r + i] = src[(r + i) * cols + c + j];
      }
    }
  }
}

}  // namespace

void fill_layout(KernelTable& table) {
  table.layout = {picture_to_blocked, blocked_to_picture,
                  bytes_to_blocked,   bytes_to_float,
                  copy_channels,      place,
                  upsample_nearest,   upsample_nearest_backward,
                  upsample_bilinear,  upsample_bilinear_backward,
                  transpose_matrix};
}

}  // namespace surefit::kernels::SUREFIT_ISA
