// SPDX-License-Identifier: Apache-2.0
// Statistics of a few samples at a time: nothing has to wait for the whole batch.
#include <algorithm>
#include <cstring>
#include <functional>

#include "nn/ops/batch_norm_parts.hpp"

namespace surefit {
namespace {

// Partials (float64, one per sample) -> two rows of channels per sample, the same for all samples
// of a ghost batch. A ragged batch ends with a smaller ghost.
class GhostStatisticsOp : public Op {
 public:
  GhostStatisticsOp(std::int64_t channels, std::int64_t pixels, std::int64_t ghost)
      : channels_(channels), pixels_(pixels), ghost_(ghost) {}
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    const ValueType row = vector_type(round_up(channels_, kChannelBlock), DType::kFloat32, true);
    return {row, row};
  }
  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.sample_grain = static_cast<int>(ghost_);
    // The sum over a ghost, and the two rows that a combination writes besides.
    traits.thread_scratch_bytes = inputs[0].stored_bytes() + 2 * row_bytes();
    traits.flops_per_sample = static_cast<double>(inputs[0].stored_count());
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    const auto combine = combination();
    return make_kernel("own", [combine, ghost = ghost_, pixels = pixels_, bytes = row_bytes(),
                               count = inputs[0].stored_count()](const Task& task) {
      auto* sum = reinterpret_cast<double*>(task.thread_scratch);
      for (std::int64_t begin = task.begin; begin < task.end; begin += ghost) {
        const std::int64_t end = std::min(task.end, begin + ghost);
        for (std::int64_t n = begin; n < end; ++n) {
          const double* partial = task.inputs[0].at<double>(n);
          for (std::size_t i = 0; i < count; ++i)
            sum[i] = n == begin ? partial[i] : sum[i] + partial[i];
        }
        combine(sum, pixels * (end - begin), task.outputs[0].at(begin), task.outputs[1].at(begin),
                reinterpret_cast<float*>(sum + count));
        for (std::int64_t n = begin + 1; n < end; ++n) {
          for (const Operand& output : task.outputs)
            std::memcpy(output.at(n), output.at(begin), bytes);
        }
      }
    });
  }
  void gradient(GradientBuilder&) const override {}

 protected:
  // (sum, pixels, row, row, two rows of scratch)
  using Combination = std::function<void(const double*, std::int64_t, float*, float*, float*)>;
  virtual Combination combination() const = 0;
  std::int64_t channels() const { return channels_; }

 private:
  std::size_t row_bytes() const {
    return static_cast<std::size_t>(round_up(channels_, kChannelBlock)) * sizeof(float);
  }
  std::int64_t channels_, pixels_, ghost_;
};

class BnGhostStatisticsOp final : public GhostStatisticsOp {
 public:
  BnGhostStatisticsOp(std::int64_t channels, std::int64_t pixels, double epsilon,
                      std::int64_t ghost)
      : GhostStatisticsOp(channels, pixels, ghost), epsilon_(static_cast<float>(epsilon)) {}
  std::string_view kind() const override { return "batch_norm_ghost_statistics"; }

 private:
  Combination combination() const override {
    return [channels = channels(), epsilon = epsilon_](const double* sum, std::int64_t pixels,
                                                       float* mean, float* inv_std, float*) {
      kernels::BatchNormCombineArgs args;
      args.channels = channels;
      args.samples = 1;  // the sum over samples is already one
      args.epsilon = epsilon;
      args.pixels = pixels;
      args.partials = sum;
      args.mean = mean;
      args.inv_std = inv_std;
      kernels::table().batch_norm.combine(args);
    };
  }
  float epsilon_;
};

class BnGhostBackwardStatisticsOp final : public GhostStatisticsOp {
 public:
  using GhostStatisticsOp::GhostStatisticsOp;
  std::string_view kind() const override { return "batch_norm_ghost_backward_statistics"; }

 private:
  Combination combination() const override {
    return [channels = channels()](const double* sum, std::int64_t pixels, float* mean_dy,
                                   float* mean_dy_xhat, float* scratch) {
      kernels::BatchNormBackwardCombineArgs args;
      args.channels = channels;
      args.samples = 1;
      args.pixels = pixels;
      args.partials = sum;
      args.mean_dy = mean_dy;
      args.mean_dy_xhat = mean_dy_xhat;
      // The gradients of gamma and beta are sums over the batch, made elsewhere.
      args.diff_gamma = scratch;
      args.diff_beta = scratch + round_up(channels, kChannelBlock);
      kernels::table().batch_norm.backward_combine(args);
    };
  }
};

}  // namespace

std::shared_ptr<const Op> make_bn_ghost_statistics_op(std::int64_t channels, std::int64_t pixels,
                                                      double epsilon, std::int64_t ghost) {
  return std::make_shared<BnGhostStatisticsOp>(channels, pixels, epsilon, ghost);
}
std::shared_ptr<const Op> make_bn_ghost_backward_statistics_op(std::int64_t channels,
                                                               std::int64_t pixels,
                                                               std::int64_t ghost) {
  return std::make_shared<BnGhostBackwardStatisticsOp>(channels, pixels, ghost);
}

}  // namespace surefit
