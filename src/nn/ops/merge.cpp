// SPDX-License-Identifier: Apache-2.0
#include "nn/ops/merge.hpp"

#include <algorithm>
#include <array>
#include <functional>

#include "nn/ops/kernel.hpp"
#include "nn/ops/sample_op.hpp"

namespace surefit {
namespace {

using Extents = std::array<std::int64_t, 4>;

// How inputs lie in the output's loop: four nested extents, and per input the floats from one step
// to the next, 0 along axes that are repeated.
struct Loop {
  Layout layout = Layout::kPlain;
  Extents extents = {1, 1, 1, 1};
  std::vector<Extents> strides;
  ValueType output;
  std::vector<ValueType> inputs;
};

ValueType type_of(const Shape& shape, Layout layout) {
  if (layout == Layout::kBlocked) return ValueType::blocked(shape);
  ValueType type;
  type.shape = shape;
  return type;
}

Extents strides_of(const Extents& own, const Extents& extents) {
  Extents strides{};
  std::int64_t step = 1;
  for (std::size_t i = 4; i-- > 0;) {
    strides[i] = own[i] == 1 && extents[i] > 1 ? 0 : step;
    step *= own[i];
  }
  return strides;
}

Extents extents_of(const Shape& shape, Layout layout) {
  if (layout == Layout::kBlocked)
    return {round_up(shape[2], kChannelBlock) / kChannelBlock, shape[0], shape[1], kChannelBlock};
  Extents extents = {1, 1, 1, 1};
  const std::size_t rank = shape.rank();
  for (std::size_t i = 0; i < rank; ++i) extents[4 - rank + i] = shape[i];
  return extents;
}

Loop loop_of(const std::vector<Shape>& shapes) {
  const Shape output = *broadcast_shape(shapes);
  const bool alike =
      std::all_of(shapes.begin(), shapes.end(), [&](const Shape& s) { return s == output; });
  const bool blocked =
      output.rank() == 3 &&
      std::all_of(shapes.begin(), shapes.end(), [&](const Shape& s) { return s[2] == output[2]; });
  Loop loop;
  loop.layout = blocked ? Layout::kBlocked : Layout::kPlain;
  loop.output = type_of(output, loop.layout);
  for (const Shape& shape : shapes) loop.inputs.push_back(type_of(shape, loop.layout));
  if (alike) {
    loop.extents = {1, 1, 1, static_cast<std::int64_t>(loop.output.stored_count())};
    loop.strides.assign(shapes.size(), strides_of(loop.extents, loop.extents));
    return loop;
  }
  loop.extents = extents_of(output, loop.layout);
  for (const Shape& shape : shapes)
    loop.strides.push_back(strides_of(extents_of(shape, loop.layout), loop.extents));
  return loop;
}

// Calls visit(output offset, offsets of the innermost run) for every innermost run.
template <typename Visit>
void for_runs(const Loop& loop, const Visit& visit) {
  const Extents& e = loop.extents;
  std::int64_t at = 0;
  for (std::int64_t a = 0; a < e[0]; ++a) {
    for (std::int64_t b = 0; b < e[1]; ++b) {
      for (std::int64_t c = 0; c < e[2]; ++c, at += e[3]) visit(at, a, b, c);
    }
  }
}
std::int64_t offset(const Extents& strides, std::int64_t a, std::int64_t b, std::int64_t c) {
  return a * strides[0] + b * strides[1] + c * strides[2];
}

float combine(MergeKind kind, float left, float right) {
  switch (kind) {
    case MergeKind::kMultiply:
      return left * right;
    case MergeKind::kSubtract:
      return left - right;
    case MergeKind::kMaximum:
      return right > left || right != right ? right : left;
    case MergeKind::kMinimum:
      return right < left || right != right ? right : left;
    default:
      return left + right;
  }
}

void merge_sample(MergeKind kind, const Loop& loop, const Task& task, std::int64_t n) {
  float* y = task.outputs[0].at(n);
  const std::int64_t run = loop.extents[3];
  for_runs(loop, [&](std::int64_t at, std::int64_t a, std::int64_t b, std::int64_t c) {
    for (std::size_t i = 0; i < loop.strides.size(); ++i) {
      const float* x = task.inputs[i].at(n) + offset(loop.strides[i], a, b, c);
      const std::int64_t step = loop.strides[i][3];
      if (i == 0) {
        for (std::int64_t k = 0; k < run; ++k) y[at + k] = x[k * step];
      } else {
        for (std::int64_t k = 0; k < run; ++k) y[at + k] = combine(kind, y[at + k], x[k * step]);
      }
    }
    if (kind != MergeKind::kAverage) return;
    const float share = 1.0f / static_cast<float>(loop.strides.size());
    for (std::int64_t k = 0; k < run; ++k) y[at + k] *= share;
  });
}

// Factor of the output's gradient for input `mine` at one element; `value(i)` is that of input i
// there.
template <typename Value>
float slope(MergeKind kind, std::size_t mine, std::size_t count, const Value& value) {
  switch (kind) {
    case MergeKind::kMultiply: {
      float product = 1;
      for (std::size_t i = 0; i < count; ++i) {
        if (i != mine) product *= value(i);
      }
      return product;
    }
    case MergeKind::kSubtract:
      return mine == 0 ? 1.0f : -1.0f;
    case MergeKind::kAverage:
      return 1.0f / static_cast<float>(count);
    case MergeKind::kMaximum:
    case MergeKind::kMinimum: {
      std::size_t winner = 0;
      for (std::size_t i = 1; i < count; ++i) {
        const float best = value(winner);
        if (kind == MergeKind::kMaximum ? value(i) > best : value(i) < best) winner = i;
      }
      return winner == mine ? 1.0f : 0.0f;
    }
    default:
      return 1;
  }
}

bool reads_inputs(MergeKind kind) {
  return kind == MergeKind::kMultiply || kind == MergeKind::kMaximum || kind == MergeKind::kMinimum;
}

// Inputs: gradient of the output, then the forward inputs where the kind needs them.
void merge_backward(MergeKind kind, const Loop& loop, std::size_t mine, const Task& task,
                    std::int64_t n) {
  const float* dy = task.inputs[0].at(n);
  const std::size_t count = loop.inputs[mine].stored_count();
  auto* sums = reinterpret_cast<double*>(task.thread_scratch);
  std::fill_n(sums, count, 0.0);
  for_runs(loop, [&](std::int64_t at, std::int64_t a, std::int64_t b, std::int64_t c) {
    for (std::int64_t k = 0; k < loop.extents[3]; ++k) {
      const auto value = [&](std::size_t i) {
        return task.inputs[i + 1].at(n)[offset(loop.strides[i], a, b, c) + k * loop.strides[i][3]];
      };
      const float factor = slope(kind, mine, loop.strides.size(), value);
      sums[offset(loop.strides[mine], a, b, c) + k * loop.strides[mine][3]] +=
          static_cast<double>(dy[at + k]) * static_cast<double>(factor);
    }
  });
  float* dx = task.outputs[0].at(n);
  for (std::size_t i = 0; i < count; ++i) dx[i] = static_cast<float>(sums[i]);
}

}  // namespace

std::optional<Shape> broadcast_shape(std::span<const Shape> shapes) {
  std::vector<std::int64_t> dims(shapes[0].dims().begin(), shapes[0].dims().end());
  bool alike = true;
  for (const Shape& shape : shapes) {
    if (shape.rank() != dims.size()) return std::nullopt;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (shape[i] == dims[i]) continue;
      alike = false;
      if (shape[i] != 1 && dims[i] != 1) return std::nullopt;
      dims[i] = std::max(dims[i], shape[i]);
    }
  }
  if (!alike && dims.size() > 4) return std::nullopt;
  return Shape(std::move(dims));
}

std::shared_ptr<const Op> make_merge_op(MergeKind kind, const std::vector<Shape>& shapes) {
  const Loop loop = loop_of(shapes);
  const auto gradient = [kind, loop](GradientBuilder& builder) {
    for (std::size_t i = 0; i < loop.strides.size(); ++i) {
      if (!builder.wants(i)) continue;
      std::vector<ValueId> operands = {builder.output_gradient(0)};
      for (std::size_t j = 0; reads_inputs(kind) && j < loop.strides.size(); ++j)
        operands.push_back(builder.input(j));
      const auto run = [kind, loop, i](const Task& task) {
        for (std::int64_t n = task.begin; n < task.end; ++n) merge_backward(kind, loop, i, task, n);
      };
      builder.set_input_gradient(
          i, builder.emit1(make_sample_op({.kind = "merge_backward",
                                           .outputs = {loop.inputs[i]},
                                           .flops_per_element = 4,
                                           .thread_scratch_bytes =
                                               loop.inputs[i].stored_count() * sizeof(double),
                                           .run = run}),
                           std::move(operands)));
    }
  };
  const auto run = [kind, loop](const Task& task) {
    for (std::int64_t n = task.begin; n < task.end; ++n) merge_sample(kind, loop, task, n);
  };
  return make_sample_op({.kind = "merge",
                         .outputs = {loop.output},
                         .layout = loop.layout,
                         .flops_per_element = static_cast<double>(shapes.size()),
                         .run = run,
                         .gradient = gradient});
}

}  // namespace surefit
