// SPDX-License-Identifier: Apache-2.0
// libjpeg's memory manager over a DecoderMemory: its methods are replaceable by design. Both pools
// are one here, because a decompressor forgets everything between pictures.
#include <cstring>
#include <new>

#include "data/images/jpeg_reader.hpp"
// jerror.h after jpeglib.h: it needs its types.
#include <jerror.h>

namespace surefit::data {
namespace {

// Rows are padded because libjpeg-turbo's vector code reads and writes whole registers.
constexpr std::size_t kRowPadding = 64;

JpegMemory& memory_of(j_common_ptr info) {
  return *static_cast<JpegMemory*>(info->client_data);
}

void* take(j_common_ptr info, std::size_t bytes) {
  void* memory = memory_of(info).memory.take(bytes);
  if (memory == nullptr) ERREXIT1(info, JERR_OUT_OF_MEMORY, 0);
  return memory;
}

void* allocate(j_common_ptr info, int, std::size_t bytes) {
  return take(info, bytes);
}

template <typename Row>
Row* allocate_rows(j_common_ptr info, std::size_t row_bytes, JDIMENSION rows, bool zero) {
  auto* pointers = static_cast<Row*>(take(info, rows * sizeof(Row)));
  const std::size_t stride = (row_bytes + kRowPadding - 1) / kRowPadding * kRowPadding;
  auto* bytes = static_cast<std::byte*>(take(info, stride * rows + kRowPadding));
  if (zero) std::memset(bytes, 0, stride * rows + kRowPadding);
  for (JDIMENSION i = 0; i < rows; ++i)
    pointers[i] = reinterpret_cast<Row>(bytes + std::size_t{i} * stride);
  return pointers;
}

JSAMPARRAY allocate_samples(j_common_ptr info, int, JDIMENSION width, JDIMENSION rows) {
  return allocate_rows<JSAMPROW>(info, std::size_t{width} * sizeof(JSAMPLE), rows, false);
}
JBLOCKARRAY allocate_blocks(j_common_ptr info, int, JDIMENSION width, JDIMENSION rows) {
  return allocate_rows<JBLOCKROW>(info, std::size_t{width} * sizeof(JBLOCK), rows, false);
}

template <typename Row>
JpegArray<Row>* request(j_common_ptr info, JpegArray<Row>*& list, std::size_t row_bytes,
                        JDIMENSION rows, boolean zero) {
  auto* array = new (take(info, sizeof(JpegArray<Row>))) JpegArray<Row>;
  *array = {row_bytes, rows, zero != 0, nullptr, list};
  list = array;
  return array;
}

jvirt_sarray_ptr request_samples(j_common_ptr info, int, boolean zero, JDIMENSION width,
                                 JDIMENSION rows, JDIMENSION) {
  return reinterpret_cast<jvirt_sarray_ptr>(
      request(info, memory_of(info).samples, std::size_t{width} * sizeof(JSAMPLE), rows, zero));
}
jvirt_barray_ptr request_blocks(j_common_ptr info, int, boolean zero, JDIMENSION width,
                                JDIMENSION rows, JDIMENSION) {
  return reinterpret_cast<jvirt_barray_ptr>(
      request(info, memory_of(info).blocks, std::size_t{width} * sizeof(JBLOCK), rows, zero));
}

template <typename Row>
void realize_list(j_common_ptr info, JpegArray<Row>* array) {
  for (; array != nullptr; array = array->next) {
    if (array->contents == nullptr)
      array->contents = allocate_rows<Row>(info, array->row_bytes, array->rows, array->zero);
  }
}
void realize(j_common_ptr info) {
  realize_list(info, memory_of(info).samples);
  realize_list(info, memory_of(info).blocks);
}

template <typename Row>
Row* access(j_common_ptr info, JpegArray<Row>* array, JDIMENSION start, JDIMENSION rows) {
  if (array->contents == nullptr || start > array->rows || rows > array->rows - start)
    ERREXIT(info, JERR_BAD_VIRTUAL_ACCESS);
  return array->contents + start;
}
JSAMPARRAY access_samples(j_common_ptr info, jvirt_sarray_ptr array, JDIMENSION start,
                          JDIMENSION rows, boolean) {
  return access(info, reinterpret_cast<JpegArray<JSAMPROW>*>(array), start, rows);
}
JBLOCKARRAY access_blocks(j_common_ptr info, jvirt_barray_ptr array, JDIMENSION start,
                          JDIMENSION rows, boolean) {
  return access(info, reinterpret_cast<JpegArray<JBLOCKROW>*>(array), start, rows);
}

void free_pool(j_common_ptr, int) {}  // the owner resets the memory between pictures

}  // namespace

void use_decoder_memory(jpeg_decompress_struct& info, JpegMemory& memory) {
  info.client_data = &memory;
  jpeg_memory_mgr& manager = *info.mem;
  manager.alloc_small = allocate;
  manager.alloc_large = allocate;
  manager.alloc_sarray = allocate_samples;
  manager.alloc_barray = allocate_blocks;
  manager.request_virt_sarray = request_samples;
  manager.request_virt_barray = request_blocks;
  manager.realize_virt_arrays = realize;
  manager.access_virt_sarray = access_samples;
  manager.access_virt_barray = access_blocks;
  manager.free_pool = free_pool;
}

}  // namespace surefit::data
