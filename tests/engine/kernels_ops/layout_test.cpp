// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels_ops/support.hpp"

namespace surefit::kernels {
namespace {

using LayoutTest = KernelTest;
INSTANTIATE_TEST_SUITE_P(Isa, LayoutTest, testing::Values("baseline", "avx2"));

constexpr std::int64_t kSamples = 2;
constexpr std::int64_t kChannels[] = {1, 3, 8, 13, 64};

TEST_P(LayoutTest, PicturesRoundTrip) {
  constexpr std::int64_t kPixels = 15;
  for (const std::int64_t channels : kChannels) {
    const std::int64_t sample = round_up8(channels) * kPixels, row = channels * kPixels;
    const Floats picture = uniform(kSamples * row, 61);
    Floats blocks = poison(kSamples * sample), back = poison(kSamples * row);
    k().layout.picture_to_blocked({.channels = channels,
                                   .pixels = kPixels,
                                   .src = picture.data(),
                                   .src_stride = row,
                                   .dst = blocks.data(),
                                   .dst_stride = sample,
                                   .sample_begin = 0,
                                   .sample_end = kSamples});
    for (std::int64_t n = 0; n < kSamples; ++n)
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t p = 0; p < kPixels; ++p)
          ASSERT_EQ(blocks[n * sample + blocked(c, p, kPixels)],
                    picture[n * row + p * channels + c]);
    EXPECT_TRUE(padding_is_zero(blocks, kSamples, channels, kPixels));
    k().layout.blocked_to_picture({.channels = channels,
                                   .pixels = kPixels,
                                   .src = blocks.data(),
                                   .src_stride = sample,
                                   .dst = back.data(),
                                   .dst_stride = row,
                                   .sample_begin = 0,
                                   .sample_end = kSamples});
    expect_same_bits(back, picture);
  }
}

TEST_P(LayoutTest, Bytes) {
  constexpr std::int64_t kPixels = 21;
  for (const std::int64_t channels : kChannels) {
    const std::int64_t sample = round_up8(channels) * kPixels, row = channels * kPixels;
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(kSamples * row));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 37);
    Floats blocks = poison(kSamples * sample), flat = poison(kSamples * row);
    const float scale = 2.0f / 255, offset = -1.0f;
    k().layout.bytes_to_blocked({.channels = channels,
                                 .pixels = kPixels,
                                 .src = bytes.data(),
                                 .src_stride = row,
                                 .scale = scale,
                                 .offset = offset,
                                 .dst = blocks.data(),
                                 .dst_stride = sample,
                                 .sample_begin = 0,
                                 .sample_end = kSamples});
    k().layout.bytes_to_float(bytes.data(), scale, offset, flat.data(), kSamples * row);
    for (std::int64_t n = 0; n < kSamples; ++n)
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t p = 0; p < kPixels; ++p) {
          const std::size_t i = n * row + p * channels + c;
          ASSERT_NEAR(flat[i], bytes[i] * double{scale} + offset, 2e-7);
          ASSERT_EQ(blocks[n * sample + blocked(c, p, kPixels)], flat[i]);
        }
    EXPECT_TRUE(padding_is_zero(blocks, kSamples, channels, kPixels));
  }
}

TEST_P(LayoutTest, ConcatAndSplitAnyChannels) {
  constexpr std::int64_t kPixels = 6;
  for (const std::vector<std::int64_t>& parts :
       {std::vector<std::int64_t>{8, 16}, {3, 5}, {13, 8, 1}, {1, 1, 1}, {8, 3}, {64, 13, 7, 20}}) {
    std::int64_t total = 0;
    for (const std::int64_t c : parts) total += c;
    const std::int64_t sample = round_up8(total) * kPixels;
    Floats joined = poison(kSamples * sample);
    std::vector<Floats> inputs;
    std::int64_t at = 0;
    for (const std::int64_t c : parts) {
      inputs.push_back(random_blocked(kSamples, c, kPixels, 62 + static_cast<std::uint64_t>(at)));
      k().layout.copy_channels({.pixels = kPixels,
                                .src_channel = 0,
                                .dst_channel = at,
                                .count = c,
                                .dst_channels = total,
                                .src = inputs.back().data(),
                                .src_stride = round_up8(c) * kPixels,
                                .dst = joined.data(),
                                .dst_stride = sample,
                                .sample_begin = 0,
                                .sample_end = kSamples});
      at += c;
    }
    EXPECT_TRUE(padding_is_zero(joined, kSamples, total, kPixels));
    at = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::int64_t c = parts[i], size = round_up8(c) * kPixels;
      for (std::int64_t n = 0; n < kSamples; ++n)
        for (std::int64_t j = 0; j < c; ++j)
          for (std::int64_t p = 0; p < kPixels; ++p)
            ASSERT_EQ(joined[n * sample + blocked(at + j, p, kPixels)],
                      inputs[i][n * size + blocked(j, p, kPixels)]);
      Floats back = poison(kSamples * size);
      k().layout.copy_channels({.pixels = kPixels,
                                .src_channel = at,
                                .dst_channel = 0,
                                .count = c,
                                .dst_channels = c,
                                .src = joined.data(),
                                .src_stride = sample,
                                .dst = back.data(),
                                .dst_stride = size,
                                .sample_begin = 0,
                                .sample_end = kSamples});
      expect_same_bits(back, inputs[i]);
      at += c;
    }
  }
}

TEST_P(LayoutTest, PadAndCrop) {
  struct Case {
    std::int64_t h, w, oh, ow, top, left;
  };
  for (const Case& c : {Case{4, 5, 7, 9, 1, 2}, Case{4, 5, 4, 5, 0, 0}, Case{7, 9, 4, 5, -1, -2},
                        Case{3, 3, 2, 2, 5, 5}, Case{6, 4, 3, 8, -2, 3}}) {
    const std::int64_t in = 2 * 8 * c.h * c.w, out = 2 * 8 * c.oh * c.ow;
    const Floats x = random_blocked(kSamples, 13, c.h * c.w, 63);
    Floats y = poison(kSamples * out);
    k().layout.place({.src_height = c.h,
                      .src_width = c.w,
                      .dst_height = c.oh,
                      .dst_width = c.ow,
                      .top = c.top,
                      .left = c.left,
                      .src = x.data(),
                      .src_stride = in,
                      .dst = y.data(),
                      .dst_stride = out,
                      .sample_begin = 0,
                      .sample_end = kSamples,
                      .block_begin = 0,
                      .block_end = 2});
    for (std::int64_t n = 0; n < kSamples; ++n)
      for (std::int64_t ch = 0; ch < 13; ++ch)
        for (std::int64_t p = 0; p < c.oh * c.ow; ++p) {
          const std::int64_t sy = p / c.ow - c.top, sx = p % c.ow - c.left;
          const bool inside = sy >= 0 && sy < c.h && sx >= 0 && sx < c.w;
          ASSERT_EQ(y[n * out + blocked(ch, p, c.oh * c.ow)],
                    inside ? x[n * in + blocked(ch, sy * c.w + sx, c.h * c.w)] : 0.0f);
        }
    EXPECT_TRUE(padding_is_zero(y, kSamples, 13, c.oh * c.ow));
  }
}

// Weight of small pixel `i` in big pixel `o` along one axis.
double weight(bool bilinear, std::int64_t i, std::int64_t o, int factor, std::int64_t size) {
  if (!bilinear) return o / factor == i;
  const double centre = (static_cast<double>(o) + 0.5) / factor - 0.5, low = std::floor(centre);
  const auto clamp = [&](double v) {
    return std::min(std::max(v, 0.0), static_cast<double>(size - 1));
  };
  const double at = static_cast<double>(i);
  return (clamp(low) == at ? 1 - (centre - low) : 0.0) +
         (clamp(low + 1) == at ? centre - low : 0.0);
}

TEST_P(LayoutTest, UpsampleForwardAndBackward) {
  constexpr std::int64_t kHeight = 3, kWidth = 4;
  for (const bool bilinear : {false, true}) {
    for (const auto& [fh, fw] : {std::pair{2, 2}, {1, 3}, {4, 1}, {3, 2}}) {
      const std::int64_t big_h = kHeight * fh, big_w = kWidth * fw, small = kHeight * kWidth,
                         big = big_h * big_w;
      const Floats x = random_blocked(kSamples, 13, small, 64),
                   dy = random_blocked(kSamples, 13, big, 65);
      Floats y = poison(kSamples * 16 * big), dx = poison(kSamples * 16 * small);
      UpsampleArgs args{.height = kHeight,
                        .width = kWidth,
                        .factor_h = fh,
                        .factor_w = fw,
                        .src = x.data(),
                        .src_stride = 16 * small,
                        .dst = y.data(),
                        .dst_stride = 16 * big,
                        .sample_begin = 0,
                        .sample_end = kSamples,
                        .block_begin = 0,
                        .block_end = 2};
      (bilinear ? k().layout.upsample_bilinear : k().layout.upsample_nearest)(args);
      args.src = dy.data(), args.src_stride = 16 * big, args.dst = dx.data(),
      args.dst_stride = 16 * small;
      (bilinear ? k().layout.upsample_bilinear_backward
                : k().layout.upsample_nearest_backward)(args);
      for (std::int64_t n = 0; n < kSamples; ++n)
        for (std::int64_t c = 0; c < 13; ++c) {
          std::vector<double> grad(small);
          for (std::int64_t o = 0; o < big; ++o) {
            double want = 0;
            for (std::int64_t i = 0; i < small; ++i) {
              const double w = weight(bilinear, i / kWidth, o / big_w, fh, kHeight) *
                               weight(bilinear, i % kWidth, o % big_w, fw, kWidth);
              want += w * x[n * 16 * small + blocked(c, i, small)];
              grad[i] += w * dy[n * 16 * big + blocked(c, o, big)];
            }
            ASSERT_NEAR(y[n * 16 * big + blocked(c, o, big)], want, 3e-7);
          }
          for (std::int64_t i = 0; i < small; ++i)
            ASSERT_NEAR(dx[n * 16 * small + blocked(c, i, small)], grad[i], 2e-6);
        }
      EXPECT_TRUE(padding_is_zero(y, kSamples, 13, big));
      EXPECT_TRUE(padding_is_zero(dx, kSamples, 13, small));
    }
  }
}

TEST_P(LayoutTest, Transpose) {
  for (const auto& [rows, cols] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {8, 8}, {17, 9}, {3, 40}, {64, 16}}) {
    const Floats x = uniform(rows * cols, 66);
    Floats y = poison(rows * cols);
    k().layout.transpose(x.data(), rows, cols, y.data());
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) ASSERT_EQ(y[c * rows + r], x[r * cols + c]);
  }
}

}  // namespace
}  // namespace surefit::kernels
