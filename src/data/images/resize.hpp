// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "surefit/image.hpp"

namespace surefit::data {

// For each output element of one axis, the input elements it is made of: `taps` consecutive ones
// from `start`, with weights that sum to one (shorter ones are padded with zero weights).
// Half-pixel centres, as tf.image.resize.
struct AxisTable {
  std::size_t taps = 0;
  std::vector<std::int32_t> start;
  std::vector<float> weights;  // out * taps
};
void make_axis_table(AxisTable& table, std::int64_t in, std::int64_t out,
                     const ResizeOptions& options);

// Resizes a picture while its rows arrive, so that a decoder never needs room for the whole
// picture: only as many rows as one output row is made of are kept. Reusable; memory grows to the
// largest picture met, through the meter.
class StreamResizer {
 public:
  StreamResizer() = default;
  ~StreamResizer();
  StreamResizer(const StreamResizer&) = delete;
  StreamResizer& operator=(const StreamResizer&) = delete;

  struct Job {
    std::int64_t in_height = 0, in_width = 0, out_height = 0, out_width = 0, channels = 0;
    ResizeOptions options;
  };
  // `out` takes out_height x out_width x channels and must stay valid until the last row.
  void start(const Job& job, std::span<std::uint8_t> out, Meter* meter);
  void start(const Job& job, std::span<float> out, Meter* meter);
  std::uint8_t* next_row();  // where the next input row goes
  float* next_float_row();
  void row_done();  // it is there
  bool finished() const { return emitted_ == job_.out_height; }

 private:
  void prepare(const Job& job, std::size_t element_bytes, Meter* meter);
  template <typename T>
  void emit(T* out);
  void blend_rows(std::size_t row, std::size_t values);
  void blend_float_rows(std::size_t row, std::size_t values);

  Job job_;
  AxisTable rows_, columns_;
  std::vector<std::int16_t> row_weights_;  // rows_.weights as whole numbers, for bytes
  std::int64_t arrived_ = 0, emitted_ = 0;
  std::size_t row_bytes_ = 0;
  bool float_pixels_ = false;
  std::uint8_t* out_ = nullptr;
  float* float_out_ = nullptr;
  std::vector<std::byte> kept_;     // ring of input rows
  std::vector<std::int32_t> sums_;  // one row being mixed vertically
  std::vector<float> blended_;      // one row, mixed vertically
  std::vector<float> narrowed_;     // one row, mixed horizontally
  Meter* meter_ = nullptr;
  std::uint64_t metered_ = 0;
};

}  // namespace surefit::data
