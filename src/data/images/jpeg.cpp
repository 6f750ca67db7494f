// SPDX-License-Identifier: Apache-2.0
// libjpeg reports errors by longjmp, so every call into it happens in a function of its own that
// owns nothing.
#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>

#include "data/images/jpeg_reader.hpp"
// jerror.h after jpeglib.h: it needs its types.
#include <jerror.h>

#include "base/check.hpp"
#include "data/images/decode.hpp"

namespace surefit::data {
namespace {

// A progressive file may claim thousands of scans over one picture; honest ones have about ten.
constexpr int kMaxScans = 256;

// Damage that libjpeg would paper over with grey: the picture is not what was taken.
bool is_damage(int code) {
  return code == JWRN_HIT_MARKER || code == JWRN_JPEG_EOF || code == JWRN_HUFF_BAD_CODE ||
         code == JWRN_MUST_RESYNC || code == JWRN_ARITH_BAD_CODE;
}

void on_message(j_common_ptr info, int level) {
  if (level < 0 && is_damage(info->err->msg_code)) on_jpeg_error(info);
}

void on_progress(j_common_ptr info) {
  if (!info->is_decompressor) return;
  auto* decompress = reinterpret_cast<j_decompress_ptr>(info);
  if (decompress->input_scan_number > kMaxScans) {
    ERREXIT1(decompress, JERR_BAD_PROGRESSION, decompress->input_scan_number);
  }
}

J_COLOR_SPACE colours_for(const jpeg_decompress_struct& info, std::int64_t channels) {
  if (info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK) {
    throw DataError("wrong channels: a CMYK JPEG; expected grey or colour; convert it to RGB");
  }
  if (channels == 0) return info.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
  if (channels == 1) return JCS_GRAYSCALE;
  if (channels == 3) return JCS_RGB;
  throw ConfigError(fmt::format("[decode_jpeg] channels is {}; expected 0, 1 or 3", channels));
}

// The largest of 1/2, 1/4, 1/8 whose result still covers the target. Other eighths are slower than
// full size: only the powers of two have fast inverse transforms.
unsigned scale_for(std::int64_t height, std::int64_t width, const DecodeOptions& options) {
  if (options.cover_height <= 0 || options.cover_width <= 0) return 1;
  unsigned scale = 1;
  while (scale < 8 && (height + 2 * scale - 1) / (2 * scale) >= options.cover_height &&
         (width + 2 * scale - 1) / (2 * scale) >= options.cover_width) {
    scale *= 2;
  }
  return scale;
}

class JpegWriter {
 public:
  JpegWriter() {
    std::memset(&info_, 0, sizeof info_);
    info_.err = jpeg_std_error(&error_.base);
    error_.base.error_exit = on_jpeg_error;
  }
  ~JpegWriter() {
    jpeg_destroy_compress(&info_);
    std::free(buffer_);
  }
  JpegWriter(const JpegWriter&) = delete;
  JpegWriter& operator=(const JpegWriter&) = delete;

  bool write(const std::uint8_t* pixels, std::int64_t height, std::int64_t width,
             std::int64_t channels, int quality) {
    if (setjmp(error_.jump) != 0) return false;
    jpeg_create_compress(&info_);
    jpeg_mem_dest(&info_, &buffer_, &bytes_);
    info_.image_width = static_cast<JDIMENSION>(width);
    info_.image_height = static_cast<JDIMENSION>(height);
    info_.input_components = static_cast<int>(channels);
    info_.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&info_);
    jpeg_set_quality(&info_, quality, TRUE);
    jpeg_start_compress(&info_, TRUE);
    while (info_.next_scanline < info_.image_height) {
      JSAMPROW rows[1] = {
          const_cast<std::uint8_t*>(pixels + info_.next_scanline * width * channels)};
      jpeg_write_scanlines(&info_, rows, 1);
    }
    jpeg_finish_compress(&info_);
    return true;
  }
  std::string bytes() const { return {reinterpret_cast<const char*>(buffer_), bytes_}; }

 private:
  jpeg_compress_struct info_;
  JpegError error_{};
  unsigned char* buffer_ = nullptr;
  unsigned long bytes_ = 0;
};

}  // namespace

void on_jpeg_error(j_common_ptr info) {
  auto* error = reinterpret_cast<JpegError*>(info->err);
  (*info->err->format_message)(info, error->text.data());
  std::longjmp(error->jump, 1);
}

JpegReader::JpegReader(DecoderMemory& memory) : memory_{memory} {
  std::memset(&info_, 0, sizeof info_);
  info_.err = jpeg_std_error(&error_.base);
  error_.base.error_exit = on_jpeg_error;
  error_.base.emit_message = on_message;
  progress_.progress_monitor = on_progress;
  require(try_create());
  info_.progress = &progress_;
  use_decoder_memory(info_, memory_);
}

JpegReader::~JpegReader() {
  jpeg_destroy_decompress(&info_);
}

void JpegReader::read_header(std::span<const std::byte> bytes) {
  jpeg_abort_decompress(&info_);
  // Tables of the picture before would serve one that lacks its own.
  std::fill(std::begin(info_.quant_tbl_ptrs), std::end(info_.quant_tbl_ptrs), nullptr);
  std::fill(std::begin(info_.dc_huff_tbl_ptrs), std::end(info_.dc_huff_tbl_ptrs), nullptr);
  std::fill(std::begin(info_.ac_huff_tbl_ptrs), std::end(info_.ac_huff_tbl_ptrs), nullptr);
  info_.src = nullptr;
  memory_.memory.reset();
  memory_.samples = nullptr;
  memory_.blocks = nullptr;
  require(try_header(bytes));
  if (info_.data_precision != 8) {
    throw DataError(fmt::format("a JPEG of {} bits a channel; expected 8", info_.data_precision));
  }
}
void JpegReader::start() {
  require(try_start());
}
void JpegReader::read_row(std::uint8_t* row) {
  require(try_row(row));
}
void JpegReader::finish() {
  require(try_finish());
}

bool JpegReader::try_create() {
  if (setjmp(error_.jump) != 0) return false;
  jpeg_create_decompress(&info_);
  return true;
}
bool JpegReader::try_header(std::span<const std::byte> bytes) {
  if (setjmp(error_.jump) != 0) return false;
  jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&info_, TRUE);
  return true;
}
bool JpegReader::try_start() {
  if (setjmp(error_.jump) != 0) return false;
  jpeg_start_decompress(&info_);
  return true;
}
bool JpegReader::try_row(std::uint8_t* row) {
  if (setjmp(error_.jump) != 0) return false;
  JSAMPROW rows[1] = {row};
  return jpeg_read_scanlines(&info_, rows, 1) == 1;
}
bool JpegReader::try_finish() {
  if (setjmp(error_.jump) != 0) return false;
  return jpeg_finish_decompress(&info_) != 0;
}

void JpegReader::require(bool good) {
  if (good) return;
  if (memory_.memory.refused()) memory_.memory.throw_refused();
  error_.text.back() = '\0';
  throw DataError(fmt::format("corrupt JPEG: {}", error_.text.data()));
}

PictureInfo read_jpeg_info(std::span<const std::byte> bytes) {
  DecoderMemory memory;
  JpegReader& reader = memory.jpeg();
  reader.read_header(bytes);
  return {PictureFormat::kJpeg, reader.info().image_height, reader.info().image_width,
          reader.info().num_components};
}

void decode_jpeg_rows(std::span<const std::byte> bytes, const DecodeOptions& options, RowSink& sink,
                      DecoderMemory& memory) {
  JpegReader& reader = memory.jpeg();
  reader.read_header(bytes);
  jpeg_decompress_struct& info = reader.info();
  check_picture_size(info.image_height, info.image_width);
  info.out_color_space = colours_for(info, options.channels);
  info.scale_num = 1;
  info.scale_denom = scale_for(info.image_height, info.image_width, options);
  // Fixed, because the fast methods differ between machines.
  info.dct_method = JDCT_ISLOW;
  info.do_fancy_upsampling = TRUE;

  reader.start();
  sink.start(info.output_height, info.output_width, info.output_components);
  while (info.output_scanline < info.output_height) {
    reader.read_row(sink.next_row());
    sink.row_done();
  }
  reader.finish();
}

std::string encode_jpeg(std::span<const std::uint8_t> pixels, std::int64_t height,
                        std::int64_t width, std::int64_t channels, int quality) {
  SUREFIT_CHECK(pixels.size() == static_cast<std::size_t>(height * width * channels),
                "a picture of {} bytes", pixels.size());
  JpegWriter writer;
  SUREFIT_CHECK(writer.write(pixels.data(), height, width, channels, quality),
                "libjpeg refused to write");
  return writer.bytes();
}

}  // namespace surefit::data
