// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>

namespace surefit {

// How a parameter lies in the engine's memory. Keras's elements are taken in lines of one length,
// one behind the other; where a line's elements lie is the packing's business. Padding is zero.
class Packing {
 public:
  virtual ~Packing() = default;
  virtual std::size_t stored_count() const = 0;
  virtual std::size_t lines() const = 0;
  virtual std::size_t line_length() const = 0;
  virtual void write_line(std::size_t line, const float* keras, float* engine) const = 0;
  virtual void read_line(std::size_t line, const float* engine, float* keras) const = 0;

  // All of it. Line by line: a copy of the whole would double the largest layers each time they are
  // saved.
  void pack(const float* keras, float* engine) const {
    std::memset(engine, 0, stored_count() * sizeof(float));
    for (std::size_t line = 0; line < lines(); ++line)
      write_line(line, keras + line * line_length(), engine);
  }
  void unpack(const float* engine, float* keras) const {
    for (std::size_t line = 0; line < lines(); ++line)
      read_line(line, engine, keras + line * line_length());
  }
};

}  // namespace surefit
