// SPDX-License-Identifier: Apache-2.0
#include "nn/ops/round.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "surefit/error.hpp"

#include "engine/kernels/table.hpp"
#include "nn/ops/kernel.hpp"

namespace surefit {
namespace {

class RoundOp final : public Op {
 public:
  RoundOp(Half format, std::string layer) : format_(format), layer_(std::move(layer)) {}
  std::string_view kind() const override { return "round"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    return {inputs[0]};
  }
  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.in_place_input = 0;
    traits.half = format_;
    traits.flops_per_sample = static_cast<double>(inputs[0].stored_count());
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    const auto count = static_cast<std::int64_t>(inputs[0].stored_count());
    return make_kernel("own",
                       [count, half = format_ == Half::kFloat16, layer = layer_](const Task& task) {
                         for (std::int64_t n = task.begin; n < task.end; ++n) {
                           if (round(task.inputs[0].at(n), task.outputs[0].at(n), count, half))
                             overflow(layer, half);
                         }
                       });
  }

 private:
  static bool round(const float* from, float* to, std::int64_t count, bool half) {
    const kernels::ConvertKernels& convert = kernels::table().convert;
    constexpr std::int64_t kPiece = 2048;
    std::array<std::uint16_t, kPiece> small;
    bool overflows = false;
    for (std::int64_t at = 0; at < count; at += kPiece) {
      const std::int64_t size = std::min(kPiece, count - at);
      overflows |=
          (half ? convert.float_to_half : convert.float_to_bfloat)(from + at, small.data(), size);
      (half ? convert.half_to_float : convert.bfloat_to_float)(small.data(), to + at, size);
    }
    return overflows;
  }
  [[noreturn]] static void overflow(const std::string& layer, bool half) {
    throw NumericsError(fmt::format(
        "[{}] an activation is beyond {}, the largest {}; {}normalise in front of this layer, or "
        "train without 16-bit storage (--policy float32, no --allow f16-activations)",
        layer, half ? "65504" : "3.39e38", half ? "float16" : "bfloat16",
        half ? "use --policy mixed_bfloat16, " : ""));
  }
  Half format_;
  std::string layer_;
};

}  // namespace

std::shared_ptr<const Op> make_round_op(Half format, const std::string& layer) {
  return std::make_shared<RoundOp>(format, layer);
}

}  // namespace surefit
