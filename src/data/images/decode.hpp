// SPDX-License-Identifier: Apache-2.0
// JPEG (libjpeg-turbo) and PNG (libpng) from memory. Bytes are untrusted: everything wrong with
// them is a DataError, and sizes found in them are checked before anything is allocated.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "surefit/image.hpp"

namespace surefit::data {

class DecoderMemory;

enum class PictureFormat { kUnknown, kJpeg, kPng };

struct PictureInfo {
  PictureFormat format = PictureFormat::kUnknown;
  std::int64_t height = 0, width = 0, channels = 0;
};

// Takes a picture row by row. `start` says how large it will be; then rows come from the top.
class RowSink {
 public:
  virtual ~RowSink() = default;
  virtual void start(std::int64_t height, std::int64_t width, std::int64_t channels) = 0;
  virtual std::uint8_t* next_row() = 0;
  virtual void row_done() = 0;
};

PictureFormat format_of(std::span<const std::byte> bytes);
// What the format is called, also for formats that are known but not read: "GIF", "WebP", "text".
std::string describe_format(std::span<const std::byte> bytes);
PictureInfo read_picture_info(std::span<const std::byte> bytes);

// Decodes any supported format. The text of errors carries no path: callers add it.
void decode_picture(std::span<const std::byte> bytes, const DecodeOptions& options, RowSink& sink,
                    DecoderMemory& memory);
void decode_jpeg_rows(std::span<const std::byte> bytes, const DecodeOptions& options, RowSink& sink,
                      DecoderMemory& memory);
void decode_png_rows(std::span<const std::byte> bytes, const DecodeOptions& options, RowSink& sink,
                     DecoderMemory& memory);
PictureInfo read_jpeg_info(std::span<const std::byte> bytes);
PictureInfo read_png_info(std::span<const std::byte> bytes);

// Throws DataError when a picture of that size is not one we read.
void check_picture_size(std::int64_t height, std::int64_t width);

// 8-bit RGB or grey rows as a PNG file's bytes, for contact sheets.
std::string encode_png(std::span<const std::uint8_t> pixels, std::int64_t height,
                       std::int64_t width, std::int64_t channels);
// The same as a JPEG; for making test and benchmark pictures.
std::string encode_jpeg(std::span<const std::uint8_t> pixels, std::int64_t height,
                        std::int64_t width, std::int64_t channels, int quality = 90);

}  // namespace surefit::data
