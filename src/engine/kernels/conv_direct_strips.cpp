// SPDX-License-Identifier: Apache-2.0
// Forward and backward-data where rows are short or strided: what some pixels read is gathered once
// for all output blocks of a task, so that tiles are full, no tile knows of edges, and every load
// is in order.
//
// Pixels outside the picture are gathered as zeros and multiplied like others.
#include "engine/kernels/ahead.hpp"
#include "engine/kernels/conv_direct_tile.hpp"

namespace surefit::kernels::SUREFIT_ISA {

namespace {

// Pixels of the strip that belong to one class: the same taps reach them. Forward has one class,
// backward-data stride_h x stride_w.
struct ClassPixels {
  TapList list;
  int row_class, column_class;
  int begin, count;  // of the class's pixels, row by row
  int* src_at;       // [tile][tap][pixel], floats from the plane's beginning; negative outside
  int* dst_at;       // [pixel], floats likewise
  float* gathered;   // [tile][block][tap][pixel][8]

  int tiles;
  int tile_begin[kStripPixels / kStripTile + 1];  // of each tile, counted from `begin`; and the end

  SUREFIT_INLINE int tile_size(int tile) const { return tile_begin[tile + 1] - tile_begin[tile]; }
};

// Where tap `k` of one dimension reads, counted from a pixel's place in its class; false if it
// never reaches the class.
SUREFIT_INLINE bool displacement(bool back, int k, int dilation, int pad, int of_class, int stride,
                                 int& out) {
  out = k * dilation - pad;
  if (!back) return true;
  const int left = of_class - out;
  out = left / stride;
  return out * stride == left;
}

TapList class_taps(const SweepShape& v, int row_class, int column_class, SweepTap* taps) {
  const ConvShape& s = v.s;
  int count = 0, row = 0, column = 0;
  for (int kh = 0; kh < s.kh; ++kh) {
    if (!displacement(v.back, kh, s.dilation_h, s.pad_top, row_class, s.stride_h, row)) continue;
    for (int kw = 0; kw < s.kw; ++kw) {
      if (displacement(v.back, kw, s.dilation_w, s.pad_left, column_class, s.stride_w, column)) {
        taps[count++] = {0, kh * s.kw + kw, row, column};
      }
    }
  }
  return {taps, count};
}

// Calls f(row, column) for `count` pixels of a class from one on, counted in the class.
template <class F>
SUREFIT_INLINE void for_pixels(int row, int column, int count, int columns, F f) {
  for (int i = 0; i < count; ++i) {
    f(row, column);
    if (++column == columns) {
      column = 0;
      ++row;
    }
  }
}

void find_pixels(const SweepShape& v, ClassPixels& c) {
  const int columns = ceil_div(v.out_w - c.column_class, v.classes);
  const int step_h = v.back ? 1 : v.s.stride_h, row_classes = v.back ? v.s.stride_h : 1;
  c.tiles = ceil_div(c.count, kStripTile);
  for (int t = 0; t <= c.tiles; ++t) c.tile_begin[t] = part_begin(c.count, at_least(c.tiles, 1), t);
  int* src = c.src_at;
  for (int t = 0; t < c.tiles; ++t) {
    const int first = c.begin + c.tile_begin[t], size = c.tile_size(t);
    const int first_row = first / columns, first_column = first % columns;
    for (int k = 0; k < c.list.count; ++k) {
      const SweepTap& tap = c.list.taps[k];
      for_pixels(first_row, first_column, size, columns, [&](int row, int column) SUREFIT_LAMBDA {
        const int y = row * step_h + tap.row, x = column * v.step + tap.column;
        const bool inside = y >= 0 && y < v.in_h && x >= 0 && x < v.in_w;
        *src++ = inside ? (y * v.in_w + x) * 8 : -1;
      });
    }
  }
  int* dst = c.dst_at;
  for_pixels(c.begin / columns, c.begin % columns, c.count, columns,
             [&](int row, int column) SUREFIT_LAMBDA {
               const int y = row * row_classes + c.row_class;
               const int x = column * v.classes + c.column_class;
               *dst++ = (y * v.out_w + x) * 8;
             });
}

float* gather(const ClassPixels& c, const float* x, std::ptrdiff_t plane, int blocks) {
  alignas(32) static constexpr float kZeros[8] = {};
  const int* at = c.src_at;
  float* out = c.gathered;
  for (int t = 0; t < c.tiles; ++t) {
    const int count = c.list.count * c.tile_size(t);
    for (int block = 0; block < blocks; ++block) {
      const float* from = x + block * plane;
      for (int k = 0; k < count; ++k, out += 8) {
        store(out, load(at[k] >= 0 ? from + at[k] : kZeros));
      }
    }
    at += count;
  }
  return out;
}

// Strip `strip` of `strips`, in every class. What is left of scratch is for gathered pixels.
float* cut_strip(const SweepShape& v, ClassPixels* classes, int row_classes, int column_classes,
                 int strip, int strips, float* scratch) {
  SweepTap* taps = reinterpret_cast<SweepTap*>(scratch);
  int* table = reinterpret_cast<int*>(taps + v.s.kh * v.s.kw);
  for (int i = 0; i < row_classes * column_classes; ++i) {
    ClassPixels& c = classes[i];
    c.row_class = i / column_classes;
    c.column_class = i % column_classes;
    c.list = class_taps(v, c.row_class, c.column_class, taps);
    taps += c.list.count;
    const int pixels = ceil_div(v.out_h - c.row_class, row_classes) *
                       ceil_div(v.out_w - c.column_class, column_classes);
    c.begin = part_begin(pixels, strips, strip);
    c.count = part_begin(pixels, strips, strip + 1) - c.begin;
    c.src_at = table;
    c.dst_at = table + c.list.count * c.count;
    table = c.dst_at + c.count;
    find_pixels(v, c);
  }
  return reinterpret_cast<float*>(table);
}

// What `strip` of `strips` reads of some planes, at most.
Ahead inputs_of(const DirectSweep& v, int strip, int strips, int sample, const BlockRange& range) {
  const ConvShape& s = v.s;
  const int row_classes = at_most(v.back ? s.stride_h : 1, v.out_h);
  const int columns = ceil_div(v.out_w, at_most(v.classes, v.out_w));
  const int pixels = ceil_div(v.out_h, row_classes) * columns;
  const int first = part_begin(pixels, strips, strip) / columns;
  const int last = (part_begin(pixels, strips, strip + 1) - 1) / columns;
  const int reach = (s.kh - 1) * s.dilation_h;
  const int begin = v.back ? first - ceil_div(reach, s.stride_h) : first * s.stride_h - s.pad_top;
  const int end = v.back ? last + ceil_div(s.pad_top, s.stride_h) + 1
                         : last * s.stride_h - s.pad_top + reach + 1;
  const int from = at_least(begin, 0), to = at_most(end, v.in_h);
  const std::ptrdiff_t plane = std::ptrdiff_t(v.in_h) * v.in_w * 8;
  const float* base = v.src + sample * v.src_stride + range.begin * plane;
  return {base + std::ptrdiff_t(from) * v.in_w * 8, plane, range.end - range.begin,
          ceil_div(at_least(to - from, 0) * v.in_w, 2)};
}

template <int B>
void tiles(const DirectSweep& v, const ClassPixels& c, const BlockRange& range, int ob, int sample,
           Asking<false>& inputs) {
  const std::ptrdiff_t w_in = std::ptrdiff_t(v.s.kh) * v.s.kw * 64, w_out = w_in * v.width;
  const std::ptrdiff_t dst_block = std::ptrdiff_t(v.out_h) * v.out_w * 8;
  const float* w = v.weights + ob * w_out + range.begin * w_in;
  const float* bias = v.bias == nullptr ? nullptr : v.bias + ob * 8;
  float* dst = v.dst + sample * v.dst_stride + ob * dst_block;
  const float* gathered = c.gathered;
  for (int t = 0; t < c.tiles; ++t) {
    inputs.ask();
    const int count = c.tile_size(t);
    const std::ptrdiff_t block = std::ptrdiff_t(c.list.count) * count * 8;
    with_count<kStripTile>(count, [&](auto r) SUREFIT_LAMBDA {
      direct_tile<r.value, B>(gathered, PixelsGathered<r.value>{c.dst_at + c.tile_begin[t]}, block,
                              c.list, range, w, w_in, w_out, bias, dst, dst_block,
                              v.rectify && range.last);
    });
    gathered += block * (range.end - range.begin);
  }
}

}  // namespace

void direct_strips(const DirectSweep& v, const DirectSplit& split, Samples samples, int block,
                   float* scratch) {
  const int obs = channel_blocks(v.out_channels);
  const int ob_begin = split.by_channels ? part_begin(obs, split.parts, block) : 0;
  const int ob_end = split.by_channels ? part_begin(obs, split.parts, block + 1) : obs;
  const int units = ceil_div(ob_end - ob_begin, kStripBlocks);
  // Nearly equal, or in pairs of blocks where a pair is one register.
  const auto unit_begin = [&](int u) SUREFIT_LAMBDA {
    return kWide ? at_most(ob_begin + u * kStripBlocks, ob_end)
                 : ob_begin + part_begin(ob_end - ob_begin, units, u);
  };
  const int parts = split.by_channels ? 1 : split.parts, part = split.by_channels ? 0 : block;
  const int row_classes = at_most(v.back ? v.s.stride_h : 1, v.out_h);
  const int column_classes = at_most(v.classes, v.out_w);
  const int count = row_classes * column_classes;
  // Every part has as many strips; class 0 is the largest.
  const int pixels = ceil_div(v.out_h, row_classes) * ceil_div(v.out_w, column_classes);
  const int strips = ceil_div(pixels, parts * kStripPixels);
  const int ranges = ceil_div(v.width, strip_blocks(v.s, v.back));
  const std::ptrdiff_t plane = std::ptrdiff_t(v.in_h) * v.in_w * 8;
  const auto range_at = [&](int j) SUREFIT_LAMBDA {
    return BlockRange{part_begin(v.width, ranges, j), part_begin(v.width, ranges, j + 1), j == 0,
                      j + 1 == ranges};
  };
  for (int strip = part * strips; strip < (part + 1) * strips; ++strip) {
    ClassPixels classes[kStripClasses];
    float* const gathered =
        cut_strip(v, classes, row_classes, column_classes, strip, parts * strips, scratch);
    for (int j = 0; j < ranges; ++j) {
      const BlockRange range = range_at(j);
      for (int n = samples.begin; n < samples.end; ++n) {
        float* out = gathered;
        for (int i = 0; i < count; ++i) {
          classes[i].gathered = out;
          out = gather(classes[i], v.src + n * v.src_stride + range.begin * plane, plane,
                       range.end - range.begin);
        }
        const bool last_sample = n + 1 == samples.end;
        Ahead next_inputs;
        if (!last_sample) {
          next_inputs = inputs_of(v, strip, parts * strips, n + 1, range);
        } else if (!range.last) {
          next_inputs = inputs_of(v, strip, parts * strips, samples.begin, range_at(j + 1));
        } else if (strip + 1 < parts * strips) {
          next_inputs = inputs_of(v, strip + 1, parts * strips, samples.begin, range_at(0));
        } else {
          next_inputs = inputs_of(v, 0, parts * strips, samples.end, range_at(0));
        }
        int tasks = 0;
        for (int i = 0; i < count; ++i) {
          if (classes[i].list.count > 0 || range.first) tasks += units * classes[i].tiles;
        }
        Asking<false> inputs(next_inputs, tasks);
        for (int u = 0; u < units; ++u) {
          const int ob = unit_begin(u), next = unit_begin(u + 1);
          for (int i = 0; i < count; ++i) {
            // Pixels that no tap reaches are cleared and done.
            if (classes[i].list.count == 0 && !range.first) continue;
            with_count<kStripBlocks>(next - ob, [&](auto b) SUREFIT_LAMBDA {
              tiles<b.value>(v, classes[i], range, ob, n, inputs);
            });
          }
        }
      }
    }
  }
}

}  // namespace surefit::kernels::SUREFIT_ISA
