// SPDX-License-Identifier: Apache-2.0
// libpng reports errors by longjmp: every call into it happens in a function of its own that owns
// nothing.
#include <array>
#include <csetjmp>
#include <cstring>
#include <fmt/format.h>

#include <png.h>

#include "base/check.hpp"
#include "data/images/decode.hpp"
#include "data/images/memory.hpp"

namespace surefit::data {
namespace {

struct PngState {
  std::span<const std::byte> bytes;
  std::size_t at = 0;
  std::array<char, 200> text{};
  std::string* written = nullptr;
};

void on_error(png_structp png, png_const_charp message) {
  auto* state = static_cast<PngState*>(png_get_error_ptr(png));
  std::strncpy(state->text.data(), message, state->text.size() - 1);
  png_longjmp(png, 1);
}
void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep out, png_size_t count) {
  auto* state = static_cast<PngState*>(png_get_io_ptr(png));
  if (count > state->bytes.size() - state->at) png_error(png, "the file ends too early");
  std::memcpy(out, state->bytes.data() + state->at, count);
  state->at += count;
}

png_voidp on_allocate(png_structp png, png_alloc_size_t bytes) {
  return static_cast<DecoderMemory*>(png_get_mem_ptr(png))->take(bytes);
}
void on_free(png_structp, png_voidp) {}  // all at once, before the next picture

class PngReader {
 public:
  PngReader(std::span<const std::byte> bytes, DecoderMemory& memory) : memory_(memory) {
    memory.reset();
    state_.bytes = bytes;
    png_ = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &state_, on_error, on_warning, &memory,
                                    on_allocate, on_free);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, &info_, nullptr);
      memory.throw_refused();
    }
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  void read_header() { require(try_header()); }
  void start(std::int64_t channels) { require(try_start(channels)); }
  void read_row(std::uint8_t* row) { require(try_row(row)); }
  void finish() { require(try_finish()); }

  std::int64_t height() const { return png_get_image_height(png_, info_); }
  std::int64_t width() const { return png_get_image_width(png_, info_); }
  std::int64_t channels() const { return png_get_channels(png_, info_); }
  int passes() const { return passes_; }

 private:
  bool try_header() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_read_fn(png_, &state_, on_read);
    // Text and profiles may unpack to anything and say nothing about pixels.
    static const png_byte kIgnored[] = "iCCP\0zTXt\0iTXt\0tEXt\0eXIf";
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, kIgnored, 5);
    png_set_chunk_malloc_max(png_, png_alloc_size_t{1} << 20);
    png_set_chunk_cache_max(png_, 16);
    png_read_info(png_, info_);
    return true;
  }

  bool try_start(std::int64_t channels) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    const int colour = png_get_color_type(png_, info_);
    png_set_strip_16(png_);
    if (colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
    if (colour == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png_);
    const bool alpha = (colour & PNG_COLOR_MASK_ALPHA) != 0;
    const bool grey = (colour & PNG_COLOR_MASK_COLOR) == 0;
    if (channels == 1 || channels == 3) png_set_strip_alpha(png_);
    if (channels >= 3 && grey) png_set_gray_to_rgb(png_);
    if (channels == 1 && !grey) png_set_rgb_to_gray(png_, PNG_ERROR_ACTION_NONE, -1, -1);
    if (channels == 4 && !alpha) png_set_add_alpha(png_, 255, PNG_FILLER_AFTER);
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }

  bool try_row(std::uint8_t* row) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_read_row(png_, row, nullptr);
    return true;
  }
  bool try_finish() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_read_end(png_, nullptr);
    return true;
  }
  void require(bool good) const {
    if (good) return;
    if (memory_.refused()) memory_.throw_refused();
    throw DataError(fmt::format("corrupt PNG: {}", state_.text.data()));
  }

  DecoderMemory& memory_;
  PngState state_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
};

void on_write(png_structp png, png_bytep bytes, png_size_t count) {
  auto* state = static_cast<PngState*>(png_get_io_ptr(png));
  try {
    state->written->append(reinterpret_cast<const char*>(bytes), count);
  } catch (const std::bad_alloc&) {
    png_error(png, "out of memory");
  }
}
void on_flush(png_structp) {}

bool try_write(png_structp png, png_infop info, PngState& state,
               std::span<const std::uint8_t> pixels, std::int64_t height, std::int64_t width,
               std::int64_t channels) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_write_fn(png, &state, on_write, on_flush);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), 8,
               channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  for (std::int64_t y = 0; y < height; ++y)
    png_write_row(png, pixels.data() + y * width * channels);
  png_write_end(png, info);
  return true;
}

}  // namespace

PictureInfo read_png_info(std::span<const std::byte> bytes) {
  DecoderMemory memory;
  PngReader reader(bytes, memory);
  reader.read_header();
  return {PictureFormat::kPng, reader.height(), reader.width(), reader.channels()};
}

void decode_png_rows(std::span<const std::byte> bytes, const DecodeOptions& options, RowSink& sink,
                     DecoderMemory& memory) {
  if (options.channels != 0 && options.channels != 1 && options.channels != 3 &&
      options.channels != 4) {
    throw ConfigError(
        fmt::format("[decode_png] channels is {}; expected 0, 1, 3 or 4", options.channels));
  }
  PngReader reader(bytes, memory);
  reader.read_header();
  const std::int64_t height = reader.height(), width = reader.width();
  check_picture_size(height, width);
  reader.start(options.channels);
  const std::int64_t channels = reader.channels();
  sink.start(height, width, channels);
  if (reader.passes() == 1) {
    for (std::int64_t y = 0; y < height; ++y) {
      reader.read_row(sink.next_row());
      sink.row_done();
    }
    reader.finish();
    return;
  }
  // Interlaced pictures fill in row by row over several passes.
  const std::size_t row_bytes = static_cast<std::size_t>(width * channels);
  auto* pixels =
      static_cast<std::uint8_t*>(memory.take(row_bytes * static_cast<std::size_t>(height)));
  if (pixels == nullptr) memory.throw_refused();
  for (int pass = 0; pass < reader.passes(); ++pass) {
    for (std::int64_t y = 0; y < height; ++y) {
      reader.read_row(pixels + static_cast<std::size_t>(y) * row_bytes);
    }
  }
  reader.finish();
  for (std::int64_t y = 0; y < height; ++y) {
    std::memcpy(sink.next_row(), pixels + static_cast<std::size_t>(y) * row_bytes, row_bytes);
    sink.row_done();
  }
}

std::string encode_png(std::span<const std::uint8_t> pixels, std::int64_t height,
                       std::int64_t width, std::int64_t channels) {
  SUREFIT_CHECK(pixels.size() == static_cast<std::size_t>(height * width * channels) &&
                    (channels == 1 || channels == 3),
                "a picture of {} bytes", pixels.size());
  std::string file;
  PngState state;
  state.written = &file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &state, on_error, on_warning);
  png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
  const bool good = info != nullptr && try_write(png, info, state, pixels, height, width, channels);
  png_destroy_write_struct(&png, &info);
  if (!good) throw SystemError(fmt::format("[encode_png] {}", state.text.data()), ENOMEM);
  return file;
}

}  // namespace surefit::data
