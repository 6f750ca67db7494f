// SPDX-License-Identifier: Apache-2.0
// What flows through the graph. Shapes are per sample: the batch is a schedule, not a shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "surefit/tensor.hpp"

namespace surefit {

using ValueId = int;
using NodeId = int;
inline constexpr int kNone = -1;

// How the elements of one sample lie in memory.
enum class Layout : std::uint8_t {
  kPlain,    // row-major, channels last, no padding
  kBlocked,  // nChw8c: [ceil(C/8)][H][W][8], lanes past C are zero
};
inline constexpr std::int64_t kChannelBlock = 8;

// What a value is for; the categories of the memory plan.
enum class Category : std::uint8_t {
  kWeights,     // parameters and running statistics
  kGradients,   // of parameters
  kOptimizer,   // optimizer slots
  kActivations, // everything between the input and the loss, and its gradients
  kData,        // input slots, labels, pipeline buffers
  kScratch,     // alive during one node
  kRuntime,     // libraries, code, stacks
  kCheckpoint,  // staging of checkpoints
};
inline constexpr int kCategoryCount = 8;
std::string_view name_of(Category category);

struct ValueType {
  Shape shape;            // of one sample when batched, of the whole otherwise
  bool batched = true;    // one per sample, or one per step
  DType dtype = DType::kFloat32;
  Layout layout = Layout::kPlain;
  // The (H, W, C) behind a blocked value. It equals `shape` unless a view flattened or reshaped it.
  Shape picture = {};

  static ValueType blocked(Shape picture);
  // Elements in memory, padding included: of one sample when batched.
  std::size_t stored_count() const;
  std::size_t stored_bytes() const { return stored_count() * size_of(dtype); }
  std::string to_string() const;
};

inline std::int64_t div_up(std::int64_t value, std::int64_t divisor) {
  return (value + divisor - 1) / divisor;
}
inline std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Where a value comes from.
enum class Origin : std::uint8_t {
  kNode,        // computed by a node each step
  kInput,       // filled by the caller before the step (pictures, labels, sample weights)
  kPersistent,  // lives between steps (parameters, optimizer slots, running statistics)
};

struct Value {
  ValueId id = kNone;
  ValueType type;
  Category category = Category::kActivations;
  Origin origin = Origin::kNode;
  NodeId producer = kNone;
  ValueId view_of = kNone;  // the same memory under another type
  std::string name;  // "conv2d_1/output", for people
};

}  // namespace surefit
