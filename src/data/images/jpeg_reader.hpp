// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>

#include <jpeglib.h>

#include "data/images/memory.hpp"

namespace surefit::data {

struct JpegError {
  jpeg_error_mgr base;  // first: libjpeg hands back a pointer to it
  std::jmp_buf jump;
  std::array<char, JMSG_LENGTH_MAX> text;
};

void on_jpeg_error(j_common_ptr info);  // leaves by longjmp

// An array that libjpeg would move to a file when it is large. Here it is all in memory, rows and
// all, once libjpeg has asked for everything.
template <typename Row>
struct JpegArray {
  std::size_t row_bytes = 0;
  JDIMENSION rows = 0;
  bool zero = false;
  Row* contents = nullptr;
  JpegArray* next = nullptr;
};

struct JpegMemory {
  DecoderMemory& memory;
  // Asked for by the present picture.
  JpegArray<JSAMPROW>* samples = nullptr;
  JpegArray<JBLOCKROW>* blocks = nullptr;
};

// Makes libjpeg take memory from there from now on.
void use_decoder_memory(jpeg_decompress_struct& info, JpegMemory& memory);

// One libjpeg decompressor, used for picture after picture. Nothing of one shows in the next: what
// comes out must not depend on which thread decoded what before.
class JpegReader {
 public:
  explicit JpegReader(DecoderMemory& memory);
  ~JpegReader();
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  void read_header(std::span<const std::byte> bytes);  // forgets the picture before
  void start();
  void read_row(std::uint8_t* row);
  void finish();
  jpeg_decompress_struct& info() { return info_; }

 private:
  bool try_create();
  bool try_header(std::span<const std::byte> bytes);
  bool try_start();
  bool try_row(std::uint8_t* row);
  bool try_finish();
  void require(bool good);

  JpegMemory memory_;
  jpeg_decompress_struct info_;
  JpegError error_{};
  jpeg_progress_mgr progress_{};
};

}  // namespace surefit::data
