// SPDX-License-Identifier: Apache-2.0
// Direct convolution's weight gradient of a batch with few samples, applied where it arises: the
// whole gradient never exists, and while one thread waits for weights and moments to come from
// memory another multiplies.
#include "engine/kernels/table.hpp"
#include "nn/ops/conv_blocked.hpp"
#include "nn/ops/conv_task.hpp"

namespace surefit {
namespace {

using kernels::ConvShape;
using kernels::DirectGradientBlock;

// Of smaller kernels the update costs nothing worth saving.
constexpr std::size_t kLargeFloats = 65536;

std::int64_t stretch_floats(const ConvShape& s, const DirectGradientBlock& block) {
  return static_cast<std::int64_t>(block.slot_end - block.slot_begin) * s.kh * s.kw * 64;
}

// Inputs: picture, gradient of the output, kernel and its slots.
class DirectUpdateOp final : public Op {
 public:
  DirectUpdateOp(const ConvShape& shape, std::int64_t samples,
                 std::shared_ptr<const ElementUpdate> update, std::size_t state)
      : shape_(shape), samples_(static_cast<int>(samples)), update_(std::move(update)) {
    for (std::size_t i = 0; i < state; ++i) positions_.push_back(static_cast<int>(i) + 2);
  }
  std::string_view kind() const override { return "conv2d_update"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override { return {}; }
  std::vector<int> mutated_inputs() const override { return positions_; }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kReduction;
    traits.sample_grain = samples_;
    traits.blocks = kernels::direct_backward_weights_blocks(shape_);
    traits.flops_per_sample = conv_flops(shape_);
    traits.thread_scratch_bytes = kernels::direct_scratch_bytes(shape_) + gradient_bytes();
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    return make_kernel("own direct", [s = shape_, update = update_,
                                      gradient_bytes = gradient_bytes()](const Task& task) {
      check_whole_batch(task);
      float* gradient = scratch_of(task);
      auto args = backward_weights_args<kernels::ConvBackwardWeights>(s, task);
      args.diff_weights = gradient;
      args.block_alone = true;
      kernels::table().direct.backward_weights(args, samples(task), task.block,
                                               gradient + gradient_bytes / sizeof(float));
      const DirectGradientBlock block = kernels::direct_gradient_block(s, task.block);
      const std::int64_t count = stretch_floats(s, block), taps = s.kh * s.kw;
      const std::int64_t in_blocks = kernels::channel_blocks(s.ic);
      for (int ob = block.ob_begin; ob < block.ob_end; ++ob, gradient += count) {
        update->run(*task.step, task.inputs.subspan(2),
                    (ob * in_blocks + block.slot_begin) * taps * 64, count, gradient);
      }
    });
  }

 private:
  // A block's gradient: the parts of a band are the first one's size or one slot more.
  std::size_t gradient_bytes() const {
    const kernels::DirectGradientCut cut = kernels::direct_gradient_cut(shape_);
    const int slots = kernels::ceil_div(kernels::channel_blocks(shape_.ic), cut.band_parts);
    return sizeof(float) * 64 * static_cast<std::size_t>(kernels::kDirectGradientBlocks * slots) *
           static_cast<std::size_t>(shape_.kh * shape_.kw);
  }

  ConvShape shape_;
  int samples_;
  std::shared_ptr<const ElementUpdate> update_;
  std::vector<int> positions_;
};

}  // namespace

std::shared_ptr<const Op> make_direct_update_op(const ConvShape& shape, const Op& consumer,
                                                std::int64_t samples) {
  auto update = consumer.element_update();
  // Larger batches go through the blocks a few samples at a time; blocks that share their taps have
  // weights here and there.
  const bool fits = samples <= 2 * samples_in_cache(shape) && shape.groups == 1 &&
                    kernels::direct_gradient_cut(shape).tap_parts == 1 &&
                    kernels::direct_weights_floats(shape) >= kLargeFloats;
  if (update == nullptr || !fits) return nullptr;
  return std::make_shared<DirectUpdateOp>(shape, samples, std::move(update),
                                          consumer.mutated_inputs().size());
}

}  // namespace surefit
