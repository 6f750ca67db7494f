// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "engine/kernels/table.hpp"
#include "optim/optimizer.hpp"

namespace surefit {
namespace {

constexpr std::int64_t kElementsPerTask = 1 << 15;

std::int64_t parts(std::int64_t count, std::int64_t size) {
  return std::max<std::int64_t>(1, (count + size - 1) / size);
}

// A node without a batch over parts of one value.
class PartsOp : public Op {
 public:
  explicit PartsOp(std::int64_t part) : part_(part) {}
  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kBatchFree;
    traits.blocks =
        static_cast<int>(parts(static_cast<std::int64_t>(inputs[0].stored_count()), part_));
    traits.flops_per_step = static_cast<double>(inputs[0].stored_count()) * 2;
    return traits;
  }

 protected:
  class PartsKernel final : public Kernel {
   public:
    explicit PartsKernel(std::function<void(const Task&)> run) : run_(std::move(run)) {}
    void run(const Task& task) const override { run_(task); }
    std::string implementation() const override { return "own"; }

   private:
    std::function<void(const Task&)> run_;
  };

 private:
  std::int64_t part_;
};

constexpr std::int64_t kChunksPerTask = 16;

class SquareSumsOp final : public PartsOp {
 public:
  SquareSumsOp() : PartsOp(kChunksPerTask * kernels::kSquareChunk) {}
  std::string_view kind() const override { return "square_sums"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    ValueType type;
    type.shape =
        Shape{parts(static_cast<std::int64_t>(inputs[0].stored_count()), kernels::kSquareChunk)};
    type.dtype = DType::kFloat64;
    type.batched = false;
    return {type};
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs,
                               std::span<const ValueType> outputs, int) const override {
    const auto count = static_cast<std::int64_t>(inputs[0].stored_count());
    const auto chunks = static_cast<std::int64_t>(outputs[0].stored_count());
    return std::make_unique<PartsKernel>([count, chunks](const Task& task) {
      const std::int64_t begin = task.block * kChunksPerTask;
      // The kernel numbers its sums from chunk 0 of the whole value.
      kernels::table().optimizers.square_sums(task.inputs[0].at(), count, begin,
                                              std::min(chunks, begin + kChunksPerTask),
                                              task.outputs[0].at<double>());
    });
  }
};

class ClipFactorOp final : public Op {
 public:
  explicit ClipFactorOp(double limit) : limit_(limit) {}
  std::string_view kind() const override { return "clip_factor"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    ValueType type;
    type.shape = Shape{1};
    type.dtype = DType::kFloat64;
    type.batched = false;
    return {type};
  }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kBatchFree;
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    std::vector<std::size_t> counts;
    for (const ValueType& type : inputs) counts.push_back(type.stored_count());
    return std::make_unique<FactorKernel>(limit_, std::move(counts));
  }

 private:
  class FactorKernel final : public Kernel {
   public:
    FactorKernel(double limit, std::vector<std::size_t> counts)
        : limit_(limit), counts_(std::move(counts)) {}
    void run(const Task& task) const override {
      double sum = 0;
      for (std::size_t i = 0; i < counts_.size(); ++i) {
        const double* part = task.inputs[i].at<double>();
        for (std::size_t k = 0; k < counts_[i]; ++k) sum += part[k];
      }
      const double norm = std::sqrt(sum) / task.step->loss_scale;
      *task.outputs[0].at<double>() = norm > limit_ ? limit_ / norm : 1.0;
    }
    std::string implementation() const override { return "own"; }

   private:
    double limit_;
    std::vector<std::size_t> counts_;
  };
  double limit_;
};

class ClipValueOp final : public PartsOp {
 public:
  explicit ClipValueOp(double limit) : PartsOp(kElementsPerTask), limit_(limit) {}
  std::string_view kind() const override { return "clip_value"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    return {inputs[0]};
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    const auto count = static_cast<std::int64_t>(inputs[0].stored_count());
    return std::make_unique<PartsKernel>([count, limit = limit_](const Task& task) {
      const auto most = static_cast<float>(limit * task.step->loss_scale);
      const std::int64_t begin = task.block * kElementsPerTask,
                         end = std::min(count, begin + kElementsPerTask);
      const float* from = task.inputs[0].at();
      float* to = task.outputs[0].at();
      for (std::int64_t i = begin; i < end; ++i)
        to[i] = from[i] > most ? most : from[i] < -most ? -most : from[i];
    });
  }

 private:
  double limit_;
};

}  // namespace

std::shared_ptr<const Op> make_square_sums_op() {
  return std::make_shared<SquareSumsOp>();
}
std::shared_ptr<const Op> make_clip_factor_op(double limit) {
  return std::make_shared<ClipFactorOp>(limit);
}
std::shared_ptr<const Op> make_clip_value_op(double limit) {
  return std::make_shared<ClipValueOp>(limit);
}

}  // namespace surefit
