// SPDX-License-Identifier: Apache-2.0
#include "nn/ops/concat.hpp"

#include <cstring>

#include "engine/kernels/table.hpp"
#include "nn/ops/kernel.hpp"
#include "nn/ops/sample_op.hpp"

namespace surefit {
namespace {

// One input's place in the joint value.
struct Part {
  std::int64_t offset = 0, extent = 0;  // along the axis
};

struct Joint {
  bool blocked = false;
  std::int64_t pixels = 0, channels = 0;  // blocked
  std::int64_t outer = 1, inner = 1;      // plain: repetitions, floats per step along the axis
  std::int64_t extent = 0;                // along the axis
  ValueType type;
  std::vector<ValueType> parts_types;
  std::vector<Part> parts;
};

ValueType type_of(const Shape& shape, bool blocked) {
  if (blocked) return ValueType::blocked(shape);
  ValueType type;
  type.shape = shape;
  return type;
}

Joint join(const std::vector<Shape>& shapes, std::size_t axis) {
  Joint joint;
  joint.blocked = shapes[0].rank() == 3 && axis == 2;
  for (const Shape& shape : shapes) {
    joint.parts.push_back({joint.extent, shape[axis]});
    joint.parts_types.push_back(type_of(shape, joint.blocked));
    joint.extent += shape[axis];
  }
  std::vector<std::int64_t> dims(shapes[0].dims().begin(), shapes[0].dims().end());
  dims[axis] = joint.extent;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (i < axis) joint.outer *= dims[i];
    if (i > axis) joint.inner *= dims[i];
  }
  joint.pixels = joint.outer;
  joint.channels = joint.extent;
  joint.type = type_of(Shape(std::move(dims)), joint.blocked);
  return joint;
}

// Copies a part into the joint value, or out of it.
void copy(const Joint& joint, const Part& part, bool out, const Operand& from, const Operand& to,
          const Task& task) {
  if (joint.blocked) {
    kernels::ChannelCopyArgs args;
    args.pixels = joint.pixels;
    (out ? args.src_channel : args.dst_channel) = part.offset;
    args.count = part.extent;
    args.dst_channels = out ? part.extent : joint.channels;
    set_operands(args, from, to, task);
    kernels::table().layout.copy_channels(args);
    return;
  }
  const std::int64_t whole = joint.extent * joint.inner, piece = part.extent * joint.inner;
  const std::int64_t offset = part.offset * joint.inner;
  for (std::int64_t n = task.begin; n < task.end; ++n) {
    for (std::int64_t row = 0; row < joint.outer; ++row) {
      const float* src = from.at(n) + (out ? row * whole + offset : row * piece);
      float* dst = to.at(n) + (out ? row * piece : row * whole + offset);
      std::memcpy(dst, src, static_cast<std::size_t>(piece) * sizeof(float));
    }
  }
}

}  // namespace

std::shared_ptr<const Op> make_concat_op(std::vector<Shape> shapes, std::size_t axis) {
  const Joint joint = join(shapes, axis);
  const auto gradient = [joint](GradientBuilder& builder) {
    for (std::size_t i = 0; i < joint.parts.size(); ++i) {
      if (!builder.wants(i)) continue;
      const auto run = [joint, i](const Task& task) {
        copy(joint, joint.parts[i], true, task.inputs[0], task.outputs[0], task);
      };
      builder.set_input_gradient(i, builder.emit1(make_sample_op({.kind = "concatenate_backward",
                                                                  .outputs = {joint.parts_types[i]},
                                                                  .run = run}),
                                                  {builder.output_gradient(0)}));
    }
  };
  const auto run = [joint](const Task& task) {
    for (std::size_t i = 0; i < joint.parts.size(); ++i) {
      copy(joint, joint.parts[i], false, task.inputs[i], task.outputs[0], task);
    }
  };
  return make_sample_op({.kind = "concatenate",
                         .outputs = {joint.type},
                         .layout = joint.blocked ? Layout::kBlocked : Layout::kPlain,
                         .run = run,
                         .gradient = gradient});
}

}  // namespace surefit
