// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>

#include "data/files_support.hpp"
#include "data/images/decode.hpp"
#include "data/images/memory.hpp"
#include "data/images/resize.hpp"
#include "data/support.hpp"

namespace surefit::data {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

class Collect final : public RowSink {
 public:
  void start(std::int64_t h, std::int64_t w, std::int64_t c) override {
    height = h, width = w, channels = c;
    pixels.assign(static_cast<std::size_t>(h * w * c), 0);
  }
  std::uint8_t* next_row() override { return pixels.data() + rows * width * channels; }
  void row_done() override { ++rows; }
  std::int64_t height = 0, width = 0, channels = 0, rows = 0;
  std::vector<std::uint8_t> pixels;
};

Collect decode(const std::string& file, DecodeOptions options = {}) {
  Collect picture;
  DecoderMemory memory;
  decode_picture(bytes_of(file), options, picture, memory);
  EXPECT_EQ(picture.rows, picture.height);
  return picture;
}

TEST(Decode, PngIsExactInEveryChannelCount) {
  const std::vector<std::uint8_t> colour = gradient(13, 17, 3), grey = gradient(13, 17, 1);
  EXPECT_EQ(decode(encode_png(colour, 13, 17, 3)).pixels, colour);
  EXPECT_EQ(decode(encode_png(grey, 13, 17, 1)).pixels, grey);
  const Collect widened = decode(encode_png(grey, 13, 17, 1), {.channels = 3});
  EXPECT_EQ(widened.channels, 3);
  EXPECT_EQ(widened.pixels[3 * 30 + 2], grey[30]);
  EXPECT_EQ(decode(encode_png(colour, 13, 17, 3), {.channels = 1}).pixels.size(), 13u * 17u);
  const Collect alpha = decode(encode_png(colour, 13, 17, 3), {.channels = 4});
  EXPECT_EQ(alpha.pixels[3], 255);
}

TEST(Decode, JpegIsClose) {
  const std::vector<std::uint8_t> colour = gradient(40, 60, 3);
  const Collect picture = decode(encode_jpeg(colour, 40, 60, 3, 98));
  ASSERT_EQ(picture.pixels.size(), colour.size());
  double error = 0;
  for (std::size_t i = 0; i < colour.size(); ++i)
    error += std::abs(int{colour[i]} - int{picture.pixels[i]});
  EXPECT_LT(error / static_cast<double>(colour.size()), 3.0);
  EXPECT_EQ(decode(encode_jpeg(colour, 40, 60, 3), {.channels = 1}).channels, 1);
  EXPECT_EQ(decode(encode_jpeg(gradient(8, 8, 1), 8, 8, 1), {.channels = 3}).channels, 3);
}

TEST(Decode, ScalesByPowersOfTwoOnlyWhileTheTargetIsCovered) {
  const std::string file = jpeg(375, 500);
  const auto size = [&](std::int64_t height, std::int64_t width) {
    const Collect picture =
        decode(file, {.channels = 3, .cover_height = height, .cover_width = width});
    return std::pair(picture.height, picture.width);
  };
  EXPECT_EQ(size(0, 0), std::pair(std::int64_t{375}, std::int64_t{500}));
  EXPECT_EQ(size(224, 224), std::pair(std::int64_t{375}, std::int64_t{500}));
  EXPECT_EQ(size(188, 250), std::pair(std::int64_t{188}, std::int64_t{250}));
  EXPECT_EQ(size(189, 250), std::pair(std::int64_t{375}, std::int64_t{500}));
  EXPECT_EQ(size(188, 251), std::pair(std::int64_t{375}, std::int64_t{500}));
  EXPECT_EQ(size(94, 125), std::pair(std::int64_t{94}, std::int64_t{125}));
  EXPECT_EQ(size(1, 1), std::pair(std::int64_t{47}, std::int64_t{63}));
}

TEST(Decode, EveryTruncationIsAnError) {
  DecoderMemory memory;
  for (const std::string& file : {jpeg(40, 50), png(40, 50)}) {
    for (std::size_t length = 0; length + 2 < file.size(); length += 1 + length / 40) {
      Collect picture;
      EXPECT_THROW(decode_picture(bytes_of(file.substr(0, length)), {}, picture, memory), DataError)
          << length;
    }
  }
}

TEST(Decode, FlippedBitsNeverCrash) {
  DecoderMemory memory;
  for (const std::string& good : {jpeg(20, 30), png(20, 30)}) {
    int refused = 0;
    for (std::size_t at = 0; at < good.size(); ++at) {
      std::string file = good;
      file[at] = static_cast<char>(file[at] ^ (1 << (at % 8)));
      Collect picture;
      try {
        decode_picture(bytes_of(file), {.channels = 3}, picture, memory);
      } catch (const DataError&) {
        ++refused;
      }
    }
    EXPECT_GT(refused, 20);
  }
}

// A JPEG without its Huffman or quantisation tables: the marker segments of one kind cut out.
std::string without_segments(const std::string& file, unsigned char marker) {
  std::string out = file.substr(0, 2);
  std::size_t at = 2;
  while (at + 4 <= file.size() && static_cast<unsigned char>(file[at + 1]) != 0xDA) {
    const std::size_t length = 2 + static_cast<unsigned char>(file[at + 2]) * 256u +
                               static_cast<unsigned char>(file[at + 3]);
    if (static_cast<unsigned char>(file[at + 1]) != marker) out += file.substr(at, length);
    at += length;
  }
  return out + file.substr(at);
}

TEST(Decode, NothingOfOnePictureShowsInTheNext) {
  const std::string good = jpeg(40, 50, 3);
  const std::vector<std::string> files = {good,
                                          png(20, 30),
                                          good.substr(0, good.size() / 2),
                                          without_segments(good, 0xDB),
                                          without_segments(good, 0xC4),
                                          jpeg(100, 90, 4),
                                          png(20, 30).substr(0, 100),
                                          jpeg(16, 16, 5),
                                          "hello"};
  const auto outcome = [](const std::string& file, DecoderMemory& memory) {
    Collect picture;
    try {
      decode_picture(bytes_of(file), {.channels = 3}, picture, memory);
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string(picture.pixels.begin(), picture.pixels.end());
  };
  DecoderMemory memory;
  for (std::size_t i = 0; i < 200; ++i) {
    const std::string& file = files[i * 7 % files.size()];
    DecoderMemory fresh;
    ASSERT_EQ(outcome(file, memory), outcome(file, fresh)) << "file " << i * 7 % files.size();
  }
}

TEST(Decode, ABudgetIsNeverExceeded) {
  for (const std::string& file : {jpeg(200, 300), png(200, 300)}) {
    for (std::uint64_t limit = 0; limit < 400'000; limit += 50'000) {
      Meter meter(limit);
      DecoderMemory memory(&meter);
      Collect picture;
      try {
        decode_picture(bytes_of(file), {}, picture, memory);
        EXPECT_GT(limit, 0u);
      } catch (const SystemError& error) {
        EXPECT_NE(std::string(error.what()).find("byte budget"), std::string::npos) << error.what();
      }
      EXPECT_LE(meter.peak_bytes(), limit);
    }
  }
}

TEST(Decode, OtherFormatsAreNamed) {
  for (const auto& [contents, name] :
       std::vector<std::pair<std::string, std::string>>{{"GIF89a......", "GIF"},
                                                        {"RIFF....WEBP", "WebP"},
                                                        {"", "an empty file"},
                                                        {"hello", "an unknown format"}}) {
    Collect picture;
    DecoderMemory memory;
    const std::string text =
        error_of<DataError>([&] { decode_picture(bytes_of(contents), {}, picture, memory); });
    EXPECT_NE(text.find("expected JPEG or PNG; got " + name), std::string::npos) << text;
  }
}

TEST(Decode, HugeClaimsAreRefusedBeforeAllocating) {
  std::string file = png(4, 4);
  file[16] = file[20] = 0x7F;  // width and height of two thousand million
  Collect picture;
  DecoderMemory memory;
  EXPECT_THROW(decode_picture(bytes_of(file), {}, picture, memory), DataError);
  EXPECT_TRUE(picture.pixels.empty());
}

// Rows of torch.nn.functional.interpolate (1.13) for one row of twelve values.
const std::vector<float> kTwelve = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
struct Golden {
  ResizeOptions options;
  std::vector<float> row;
};
const std::vector<Golden> kGoldens = {
    {{}, {1.6f, 1.4f, 5.5f, 5.1f, 5.9f}},
    {{}, {2.28571f, 3.78571f, 4.14286f, 5.5f, 5.78571f, 3.14286f, 6.92857f}},
    {{}, {3.0f, 2.2f, 1.0f, 2.8f, 3.4f, 1.6f, 2.6f, 5.0f, 7.4f, 7.6f,
          3.4f, 3.6f, 6.0f, 5.4f, 4.6f, 3.4f, 3.8f, 5.0f, 6.8f, 8.0f}},
    {{.antialias = true}, {2.34f, 3.35593f, 5.5f, 4.55932f, 5.58f}},
    {{.antialias = true}, {2.17143f, 2.60465f, 4.41463f, 5.5f, 5.0f, 3.93023f, 6.57143f}},
    {{.antialias = true}, {3.0f, 2.2f, 1.0f, 2.8f, 3.4f, 1.6f, 2.6f, 5.0f, 7.4f, 7.6f,
                           3.4f, 3.6f, 6.0f, 5.4f, 4.6f, 3.4f, 3.8f, 5.0f, 6.8f, 8.0f}},
    {{.method = Interpolation::kNearest}, {1, 1, 2, 5, 5}},
    {{.method = Interpolation::kNearest}, {3, 4, 5, 2, 6, 3, 8}},
    {{.method = Interpolation::kNearest},
     {3, 3, 1, 4, 4, 1, 1, 5, 9, 9, 2, 2, 6, 5, 5, 3, 3, 5, 8, 8}},
    {{.method = Interpolation::kArea}, {8 / 3.0f, 5, 13 / 3.0f, 16 / 3.0f}},
};

std::vector<float> resize(const std::vector<float>& in, std::int64_t h, std::int64_t w,
                          std::int64_t c, std::int64_t out_h, std::int64_t out_w,
                          const ResizeOptions& options) {
  std::vector<float> out(static_cast<std::size_t>(out_h * out_w * c));
  StreamResizer resizer;
  resizer.start({h, w, out_h, out_w, c, options}, std::span<float>(out), nullptr);
  for (std::int64_t y = 0; y < h; ++y) {
    std::memcpy(resizer.next_float_row(), in.data() + y * w * c,
                static_cast<std::size_t>(w * c) * sizeof(float));
    resizer.row_done();
  }
  EXPECT_TRUE(resizer.finished());
  return out;
}

TEST(Resize, AgreesWithTorch) {
  for (const Golden& golden : kGoldens) {
    const auto count = static_cast<std::int64_t>(golden.row.size());
    const std::vector<float> across = resize(kTwelve, 1, 12, 1, 1, count, golden.options);
    const std::vector<float> down = resize(kTwelve, 12, 1, 1, count, 1, golden.options);
    for (std::size_t i = 0; i < golden.row.size(); ++i) {
      EXPECT_NEAR(across[i], golden.row[i], 1e-4) << count << " at " << i;
      EXPECT_NEAR(down[i], golden.row[i], 1e-4) << count << " at " << i;
    }
  }
}

TEST(Resize, BytesAreTheRoundedFloatsForEveryShape) {
  for (const std::int64_t channels : {1, 2, 3, 4, 7}) {
    for (const auto& [h, w, out_h, out_w] :
         std::vector<std::array<std::int64_t, 4>>{{1, 1, 5, 4},
                                                  {5, 7, 5, 7},
                                                  {31, 17, 8, 9},
                                                  {8, 9, 31, 17},
                                                  {3, 100, 90, 4},
                                                  {100, 3, 1, 1}}) {
      for (const ResizeOptions options : {ResizeOptions{}, ResizeOptions{.antialias = true},
                                          ResizeOptions{.method = Interpolation::kArea},
                                          ResizeOptions{.method = Interpolation::kNearest}}) {
        std::vector<float> in;
        for (std::int64_t i = 0; i < h * w * channels; ++i)
          in.push_back(static_cast<float>(i * 37 % 256));
        const std::vector<float> expected = resize(in, h, w, channels, out_h, out_w, options);
        std::vector<std::uint8_t> out(expected.size());
        StreamResizer resizer;
        resizer.start({h, w, out_h, out_w, channels, options}, std::span<std::uint8_t>(out),
                      nullptr);
        for (std::int64_t y = 0; y < h; ++y) {
          for (std::int64_t x = 0; x < w * channels; ++x) {
            resizer.next_row()[x] =
                static_cast<std::uint8_t>(in[static_cast<std::size_t>(y * w * channels + x)]);
          }
          resizer.row_done();
        }
        for (std::size_t i = 0; i < out.size(); ++i) {
          // Bytes are mixed with 14-bit weights: 0.02 off at most, then rounded.
          ASSERT_NEAR(out[i], expected[i], 0.52) << h << "x" << w << "x" << channels;
        }
      }
    }
  }
}

TEST(Resize, ConstantPicturesStayConstant) {
  const std::vector<float> white(30 * 40 * 3, 255.0f);
  for (const bool antialias : {false, true}) {
    for (const float value : resize(white, 30, 40, 3, 17, 71, {.antialias = antialias}))
      ASSERT_NEAR(value, 255, 1e-3);
  }
}

}  // namespace
}  // namespace surefit::data
