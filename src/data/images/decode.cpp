// SPDX-License-Identifier: Apache-2.0
#include "data/images/decode.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>

namespace surefit::data {
namespace {

struct Magic {
  std::string_view start;
  std::string_view name;
};
constexpr Magic kOthers[] = {{"GIF8", "GIF"},
                             {"BM", "BMP"},
                             {"RIFF", "WebP"},
                             {"II*", "TIFF"},
                             {std::string_view("MM\0*", 4), "TIFF"},
                             {std::string_view("\0\0\1\0", 4), "ICO"},
                             {"<svg", "SVG"},
                             {"<!DOCTYPE", "HTML"},
                             {"<html", "HTML"},
                             {"%PDF", "PDF"},
                             {"PK\3\4", "a ZIP archive"}};

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

PictureFormat format_of(std::span<const std::byte> bytes) {
  const std::string_view text = text_of(bytes);
  if (text.starts_with("\xFF\xD8\xFF")) return PictureFormat::kJpeg;
  if (text.starts_with("\x89PNG\r\n\x1A\n")) return PictureFormat::kPng;
  return PictureFormat::kUnknown;
}

std::string describe_format(std::span<const std::byte> bytes) {
  if (format_of(bytes) == PictureFormat::kJpeg) return "JPEG";
  if (format_of(bytes) == PictureFormat::kPng) return "PNG";
  if (bytes.empty()) return "an empty file";
  for (const Magic& magic : kOthers) {
    if (text_of(bytes).starts_with(magic.start)) return std::string(magic.name);
  }
  return "an unknown format";
}

void check_picture_size(std::int64_t height, std::int64_t width) {
  // Larger than any camera's, small enough that sizes of intermediate rows cannot overflow.
  constexpr std::int64_t kMaxExtent = 65535, kMaxPixels = std::int64_t{1} << 28;
  if (height < 1 || width < 1 || height > kMaxExtent || width > kMaxExtent ||
      height * width > kMaxPixels) {
    throw DataError(
        fmt::format("picture of {} x {} pixels; expected 1 to {} a side and at most {} in all",
                    height, width, kMaxExtent, kMaxPixels));
  }
}

PictureInfo read_picture_info(std::span<const std::byte> bytes) {
  switch (format_of(bytes)) {
    case PictureFormat::kJpeg:
      return read_jpeg_info(bytes);
    case PictureFormat::kPng:
      return read_png_info(bytes);
    case PictureFormat::kUnknown:
      break;
  }
  throw DataError(fmt::format("not a picture Surefit reads; expected JPEG or PNG; got {}",
                              describe_format(bytes)));
}

void decode_picture(std::span<const std::byte> bytes, const DecodeOptions& options, RowSink& sink,
                    DecoderMemory& memory) {
  switch (format_of(bytes)) {
    case PictureFormat::kJpeg:
      return decode_jpeg_rows(bytes, options, sink, memory);
    case PictureFormat::kPng:
      return decode_png_rows(bytes, options, sink, memory);
    case PictureFormat::kUnknown:
      break;
  }
  throw DataError(fmt::format("not a picture Surefit reads; expected JPEG or PNG; got {}",
                              describe_format(bytes)));
}

}  // namespace surefit::data
