// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels_ops/support.hpp"

namespace surefit::kernels {
namespace {

using PoolTest = KernelTest;
INSTANTIATE_TEST_SUITE_P(Isa, PoolTest, testing::Values("baseline", "avx2"));

constexpr std::int64_t kSamples = 3;

PoolShape shape(std::int64_t h, std::int64_t w, int kh, int kw, int sh, int sw, int top, int left,
                int bottom, int right) {
  return {
      h,   w,   (h + top + bottom - kh) / sh + 1, (w + left + right - kw) / sw + 1, kh, kw, sh, sw,
      top, left};
}

std::vector<PoolShape> shapes() {
  return {shape(8, 8, 2, 2, 2, 2, 0, 0, 0, 0),   shape(7, 9, 2, 2, 2, 2, 0, 0, 0, 0),
          shape(7, 9, 2, 2, 2, 2, 0, 0, 1, 1),   shape(11, 12, 3, 3, 2, 2, 0, 0, 1, 1),
          shape(12, 11, 3, 3, 2, 2, 1, 1, 1, 1), shape(6, 5, 3, 3, 1, 1, 1, 1, 1, 1),
          shape(9, 10, 4, 2, 3, 1, 2, 0, 1, 1),  shape(16, 17, 15, 15, 2, 1, 7, 7, 7, 7),
          shape(1, 1, 1, 1, 1, 1, 0, 0, 0, 0),   shape(9, 7, 2, 3, 3, 4, 0, 0, 0, 0)};
}
constexpr std::int64_t kChannels[] = {1, 3, 8, 13, 64};

struct Window {
  bool any = false;
  float best = 0;
  int index = 255;
  double sum = 0, scale = 0;
  int count = 0;
};

Window look(const PoolShape& s, const float* sample, std::int64_t c, std::int64_t oy,
            std::int64_t ox) {
  Window w;
  for (int ky = 0; ky < s.window_h; ++ky) {
    for (int kx = 0; kx < s.window_w; ++kx) {
      const std::int64_t y = oy * s.stride_h - s.pad_top + ky,
                         x = ox * s.stride_w - s.pad_left + kx;
      if (y < 0 || y >= s.height || x < 0 || x >= s.width) continue;
      const float v = sample[blocked(c, y * s.width + x, s.height * s.width)];
      if (!w.any || v > w.best) w.best = v, w.index = ky * s.window_w + kx;
      w.any = true;
      w.sum += v, w.scale += std::fabs(v), ++w.count;
    }
  }
  return w;
}

// Few distinct values, so that ties happen all the time.
Floats tied(const PoolShape& s, std::int64_t channels) {
  Floats x = random_blocked(kSamples, channels, s.height * s.width, 11);
  for (float& v : x) v = std::round(v * 3.0f);
  return x;
}

TEST_P(PoolTest, MaxForwardIsExactAndFirstMaximumWins) {
  for (const PoolShape& s : shapes()) {
    for (const std::int64_t channels : kChannels) {
      const std::int64_t in = round_up8(channels) * s.height * s.width;
      const std::int64_t out = round_up8(channels) * s.out_height * s.out_width;
      const Floats x = tied(s, channels);
      Floats y = poison(kSamples * out), y_cut = y;
      std::vector<std::uint8_t> at(y.size(), 99), at_cut = at;
      MaxPoolArgs args{.shape = s,
                       .src = x.data(),
                       .src_stride = in,
                       .dst = y.data(),
                       .dst_stride = out,
                       .argmax = at.data(),
                       .argmax_stride = out,
                       .sample_begin = 0,
                       .sample_end = kSamples,
                       .block_begin = 0,
                       .block_end = round_up8(channels) / 8};
      k().pool.max(args);
      for (std::int64_t n = 0; n < kSamples; ++n)
        for (std::int64_t c = 0; c < channels; ++c)
          for (std::int64_t p = 0; p < s.out_height * s.out_width; ++p) {
            const Window w = look(s, x.data() + n * in, c, p / s.out_width, p % s.out_width);
            const std::size_t i = n * out + blocked(c, p, s.out_height * s.out_width);
            ASSERT_EQ(y[i], w.best);
            ASSERT_EQ(at[i], w.index);
          }
      EXPECT_TRUE(padding_is_zero(y, kSamples, channels, s.out_height * s.out_width));
      args.dst = y_cut.data(), args.argmax = at_cut.data();
      for (std::int64_t n = 0; n < kSamples; ++n)
        for (std::int64_t b = 0; b < round_up8(channels) / 8; ++b) {
          args.sample_begin = n, args.sample_end = n + 1, args.block_begin = b,
          args.block_end = b + 1;
          k().pool.max(args);
        }
      expect_same_bits(y, y_cut);
      EXPECT_EQ(at, at_cut);
    }
  }
}

TEST_P(PoolTest, MaxBackwardSendsEachGradientToItsMaximum) {
  for (const PoolShape& s : shapes()) {
    for (const std::int64_t channels : kChannels) {
      for (const bool relu : {false, true}) {
        const std::int64_t pixels = s.height * s.width, out_pixels = s.out_height * s.out_width;
        const std::int64_t in = round_up8(channels) * pixels,
                           out = round_up8(channels) * out_pixels;
        const Floats x = tied(s, channels);
        const Floats dy = random_blocked(kSamples, channels, out_pixels, 12);
        Floats y = poison(kSamples * out), dx = poison(kSamples * in);
        std::vector<std::uint8_t> at(y.size());
        k().pool.max({.shape = s,
                      .relu = relu,
                      .src = x.data(),
                      .src_stride = in,
                      .dst = y.data(),
                      .dst_stride = out,
                      .argmax = at.data(),
                      .argmax_stride = out,
                      .sample_begin = 0,
                      .sample_end = kSamples,
                      .block_begin = 0,
                      .block_end = round_up8(channels) / 8});
        k().pool.max_backward({.shape = s,
                               .diff_dst = dy.data(),
                               .diff_dst_stride = out,
                               .argmax = at.data(),
                               .argmax_stride = out,
                               .diff_src = dx.data(),
                               .diff_src_stride = in,
                               .sample_begin = 0,
                               .sample_end = kSamples,
                               .block_begin = 0,
                               .block_end = round_up8(channels) / 8});
        std::vector<double> want(dx.size()), scale(dx.size());
        for (std::int64_t n = 0; n < kSamples; ++n)
          for (std::int64_t c = 0; c < channels; ++c)
            for (std::int64_t p = 0; p < out_pixels; ++p) {
              const Window w = look(s, x.data() + n * in, c, p / s.out_width, p % s.out_width);
              ASSERT_EQ(y[n * out + blocked(c, p, out_pixels)],
                        relu ? std::max(w.best, 0.0f) : w.best);
              if (relu && w.best <= 0) continue;
              const std::int64_t iy =
                  p / s.out_width * s.stride_h - s.pad_top + w.index / s.window_w;
              const std::int64_t ix =
                  p % s.out_width * s.stride_w - s.pad_left + w.index % s.window_w;
              const float d = dy[n * out + blocked(c, p, out_pixels)];
              want[n * in + blocked(c, iy * s.width + ix, pixels)] += d;
              scale[n * in + blocked(c, iy * s.width + ix, pixels)] += std::fabs(d);
            }
        expect_close(dx, want, scale, 225 * 0x1p-24);
        EXPECT_TRUE(padding_is_zero(dx, kSamples, channels, pixels));
      }
    }
  }
}

TEST_P(PoolTest, AverageCountsOnlyPositionsInside) {
  for (const PoolShape& s : shapes()) {
    for (const std::int64_t channels : kChannels) {
      const std::int64_t pixels = s.height * s.width, out_pixels = s.out_height * s.out_width;
      const std::int64_t in = round_up8(channels) * pixels, out = round_up8(channels) * out_pixels;
      const Floats x = random_blocked(kSamples, channels, pixels, 13);
      const Floats dy = random_blocked(kSamples, channels, out_pixels, 14);
      Floats y = poison(kSamples * out), dx = poison(kSamples * in);
      AveragePoolArgs args{.shape = s,
                           .src = x.data(),
                           .src_stride = in,
                           .dst = y.data(),
                           .dst_stride = out,
                           .sample_begin = 0,
                           .sample_end = kSamples,
                           .block_begin = 0,
                           .block_end = round_up8(channels) / 8};
      k().pool.average(args);
      args.src = dy.data(), args.src_stride = out, args.dst = dx.data(), args.dst_stride = in;
      k().pool.average_backward(args);
      std::vector<double> want(dx.size()), scale(dx.size());
      for (std::int64_t n = 0; n < kSamples; ++n)
        for (std::int64_t c = 0; c < channels; ++c)
          for (std::int64_t p = 0; p < out_pixels; ++p) {
            const Window w = look(s, x.data() + n * in, c, p / s.out_width, p % s.out_width);
            const std::size_t o = n * out + blocked(c, p, out_pixels);
            ASSERT_LE(std::fabs(y[o] - w.sum / w.count), 226 * 0x1p-24 * w.scale / w.count);
            for (int ky = 0; ky < s.window_h; ++ky)
              for (int kx = 0; kx < s.window_w; ++kx) {
                const std::int64_t iy = p / s.out_width * s.stride_h - s.pad_top + ky;
                const std::int64_t ix = p % s.out_width * s.stride_w - s.pad_left + kx;
                if (iy < 0 || iy >= s.height || ix < 0 || ix >= s.width) continue;
                const std::size_t i = n * in + blocked(c, iy * s.width + ix, pixels);
                want[i] += double{dy[o]} / w.count;
                scale[i] += std::fabs(double{dy[o]}) / w.count;
              }
          }
      expect_close(dx, want, scale, 226 * 0x1p-24);
      EXPECT_TRUE(padding_is_zero(y, kSamples, channels, out_pixels));
      EXPECT_TRUE(padding_is_zero(dx, kSamples, channels, pixels));
    }
  }
}

TEST_P(PoolTest, GlobalPools) {
  for (const std::int64_t channels : kChannels) {
    for (const std::int64_t pixels : {1, 3, 49, 64}) {
      const double size = static_cast<double>(pixels);
      const std::int64_t sample = round_up8(channels) * pixels;
      const Floats x = random_blocked(kSamples, channels, pixels, 15),
                   dy = uniform(kSamples * channels, 16);
      Floats mean = poison(kSamples * channels), top = mean, dx = poison(kSamples * sample),
             dm = dx;
      std::vector<std::int32_t> at(mean.size());
      GlobalPoolArgs args{.channels = channels,
                          .pixels = pixels,
                          .src = x.data(),
                          .src_stride = sample,
                          .dst = mean.data(),
                          .dst_stride = channels,
                          .argmax = at.data(),
                          .argmax_stride = channels,
                          .sample_begin = 0,
                          .sample_end = kSamples,
                          .block_begin = 0,
                          .block_end = round_up8(channels) / 8};
      k().pool.global_average(args);
      args.dst = top.data();
      k().pool.global_max(args);
      args.src = dy.data(), args.src_stride = channels, args.dst = dx.data(),
      args.dst_stride = sample;
      k().pool.global_average_backward(args);
      args.dst = dm.data();
      k().pool.global_max_backward(args);
      for (std::int64_t n = 0; n < kSamples; ++n)
        for (std::int64_t c = 0; c < channels; ++c) {
          double sum = 0, scale = 0;
          float best = -2;
          std::int64_t where = 0;
          for (std::int64_t p = 0; p < pixels; ++p) {
            const float v = x[n * sample + blocked(c, p, pixels)];
            sum += v, scale += std::fabs(v);
            if (v > best) best = v, where = p;
          }
          const std::size_t row = n * channels + c;
          ASSERT_LE(std::fabs(mean[row] - sum / size), (size + 3) * 0x1p-24 * scale / size);
          ASSERT_EQ(top[row], best);
          for (std::int64_t p = 0; p < pixels; ++p) {
            ASSERT_LE(ulps(dx[n * sample + blocked(c, p, pixels)], double{dy[row]} / size), 0.5);
            ASSERT_EQ(dm[n * sample + blocked(c, p, pixels)], p == where ? dy[row] : 0.0f);
          }
        }
      EXPECT_TRUE(padding_is_zero(dx, kSamples, channels, pixels));
      EXPECT_TRUE(padding_is_zero(dm, kSamples, channels, pixels));
    }
  }
}

TEST_P(PoolTest, NanWins) {
  Floats x = random_blocked(1, 8, 16, 17);
  x[5 * 8 + 2] = kPoison;  // pixel (1, 1), channel 2
  Floats y(4 * 8);
  const PoolShape s = shape(4, 4, 2, 2, 2, 2, 0, 0, 0, 0);
  k().pool.max({.shape = s,
                .src = x.data(),
                .dst = y.data(),
                .sample_begin = 0,
                .sample_end = 1,
                .block_begin = 0,
                .block_end = 1});
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i == 2) << i;
}

}  // namespace
}  // namespace surefit::kernels
