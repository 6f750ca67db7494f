// SPDX-License-Identifier: Apache-2.0
// The seam between what a layer means and how it runs. An Op declares; its Kernel computes. Neither allocates.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/value.hpp"

namespace surefit {

// How a node relates to the batch; decides where a plan may split it.
enum class BatchRole : std::uint8_t {
  kPerSample,  // sample n of every output depends on sample n of the batched inputs alone
  kReduction,  // outputs that are not batched are accumulated over samples in order; others as kPerSample
  kBatchFree,  // no batched operand at all
};

// 16-bit formats that results may be stored in without loss.
enum class Half : std::uint8_t { kNo, kFloat16, kBfloat16 };

// What the planner must know of a node. Pure function of shapes: never of budget, threads or the day.
struct OpTraits {
  BatchRole role = BatchRole::kPerSample;
  // Independent tasks: per sample for kPerSample, of the outputs for kReduction and kBatchFree.
  int blocks = 1;
  // Tasks of a kPerSample node take this many samples at once where they can (weights are read once for all of
  // them); it never changes a bit.
  int samples_per_task = 1;
  // A kPerSample node that has blocks enough for all threads is cut by samples all the same where every thread gets at
  // least so many (0: never): then it finds the samples that it wrote or read before.
  int samples_worth_splitting = 0;
  // A kReduction takes this many samples at a time through all its blocks (0: all there are), so that what one block
  // has read is still in cache for the next; it never changes a bit either.
  int samples_per_pass = 0;
  // A kReduction may keep sums of its own for up to so many parts of the batch (BatchParts), which a node behind it adds:
  // then a thread reads the samples that it wrote, all blocks of them, and none of another's.
  int parts = 1;
  // A node runs its tasks this many times over, everybody done before the next phase begins. A kReduction that does so
  // sees the whole batch at once: its sample_grain is the batch.
  int phases = 1;
  // A thread prepares itself (Kernel::prepare) before its first task of each range of samples: what all tasks of the
  // range read is made by every thread in its own scratch. Costs the work once a thread, but a line of memory that one
  // core wrote and another reads, and the next step writes again, costs both more than to compute it.
  bool prepares = false;
  // Groups end at multiples of this many samples; so do the tasks of a kPerSample node, whose samples then depend on
  // the others of their grain.
  int sample_grain = 1;
  // Every result is a number of this format.
  Half half = Half::kNo;
  // Output `in_place_output` may take the memory of this input (both batched, same bytes, last use), or kNone.
  int in_place_input = kNone;
  int in_place_output = 0;
  std::size_t thread_scratch_bytes = 0;  // one per running thread
  std::size_t shared_scratch_bytes = 0;  // one per node
  // Cost model: fixed constants, not measurements, so that plan and train agree on any day.
  double flops_per_sample = 0;
  double flops_per_step = 0;  // of a node that sees the batch: once for every group
  double efficiency = 0.6;  // share of the machine's peak that the kernel reaches
};

// How a batch is cut into parts with sums of their own: by the number of its samples alone, so that the sums do not
// depend on groups or threads.
struct BatchParts {
  BatchParts(std::int64_t batch, int most)
      : samples(batch), count(std::clamp<std::int64_t>(batch / kFewest, 1, most)) {}
  std::int64_t begin(std::int64_t part) const { return samples * part / count; }
  // That sample n is in.
  std::int64_t of(std::int64_t n) const { return ((n + 1) * count - 1) / samples; }

  static constexpr std::int64_t kFewest = 4;  // less than these read less than it takes to add their sums
  std::int64_t samples, count;
};

// The facts of the running step that kernels may read.
struct StepContext {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;           // optimizer steps done before this one
  std::int64_t samples = 0;         // of this logical batch; smaller than the plan's in a ragged last batch
  double loss_scale = 1;            // multiplies the seed of the backward pass
  double learning_rate = 0;
  const std::int64_t* sample_ids = nullptr;  // per sample of the batch, for randomness keyed by sample
};

// Memory of one operand: sample n lies at base + (n - first_sample) * sample_bytes; unbatched operands have
// sample_bytes 0.
struct Operand {
  std::byte* base = nullptr;
  std::size_t sample_bytes = 0;
  std::int64_t first_sample = 0;

  template <typename T = float>
  T* at(std::int64_t sample = 0) const {
    return reinterpret_cast<T*>(
        base + static_cast<std::ptrdiff_t>(sample - first_sample) * static_cast<std::ptrdiff_t>(sample_bytes));
  }
};

// One task: samples [begin, end) of one block on one thread.
struct Task {
  const StepContext* step = nullptr;
  std::span<const Operand> inputs;
  std::span<const Operand> outputs;
  std::int64_t begin = 0, end = 0;
  int block = 0;
  int part = 0;  // of a node whose traits have parts
  int phase = 0;
  int index = 0, count = 1;  // among the tasks of this phase
  int thread = 0;
  std::byte* thread_scratch = nullptr;
  std::byte* shared_scratch = nullptr;
};

// The bound computation of one node. run() is called from many threads at once on different tasks.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // A kReduction overwrites its sums when task.begin == 0 and accumulates otherwise.
  virtual void run(const Task& task) const = 0;
  // Of a node that `prepares`: makes in task.thread_scratch what the tasks of [task.begin, task.end) find there.
  virtual void prepare(const Task& /*task*/) const {}
  // What will run, for `summary --kernels`: "own winograd 4x4", "onednn jit:avx2".
  virtual std::string implementation() const = 0;
};

class GradientBuilder;
namespace kernels {
struct AdamArgs;
struct SgdArgs;
}  // namespace kernels

// An update that treats every element by itself: it can be applied to parts of a parameter as soon as their gradient is
// known, so that the whole gradient never exists.
class ElementUpdate {
 public:
  virtual ~ElementUpdate() = default;
  // Elements [begin, begin + count) of the parameter and its slots (`state`); `gradient` is that of the first of them.
  virtual void run(const StepContext& step, std::span<const Operand> state, std::int64_t begin, std::int64_t count,
                   const float* gradient) const = 0;
  // For kernels that apply the commonest rules themselves: whether this is it (Adam without amsgrad; SGD), and if so its
  // arguments for a whole parameter, without gradient.
  virtual bool as_adam(const StepContext& /*step*/, std::span<const Operand> /*state*/,
                       kernels::AdamArgs& /*args*/) const {
    return false;
  }
  virtual bool as_sgd(const StepContext& /*step*/, std::span<const Operand> /*state*/,
                      kernels::SgdArgs& /*args*/) const {
    return false;
  }
};

class Op {
 public:
  virtual ~Op() = default;
  virtual std::string_view kind() const = 0;  // "conv2d", "conv2d_backward_weights"
  // Types of the outputs for these inputs; throws ConfigError where they do not fit.
  virtual std::vector<ValueType> infer(std::span<const ValueType> inputs) const = 0;
  virtual OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType> outputs) const = 0;
  virtual std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs,
                                       std::span<const ValueType> outputs, int threads) const = 0;
  // Emits the nodes that carry gradients from the outputs to the inputs. The default refuses.
  virtual void gradient(GradientBuilder& builder) const;
  // Layout wanted for input `index`, so that the graph can insert a conversion; the default takes what comes.
  virtual Layout preferred_layout(std::size_t index, const ValueType& type) const;
  // Fuses with the sole consumer of output 0, taking over its other inputs behind the own ones: returns the joint
  // op, or nothing. `consumer_input` is the position at which our output enters the consumer.
  virtual std::shared_ptr<const Op> absorb(const Op& consumer, std::size_t consumer_input,
                                           std::span<const ValueType> inputs) const;
  // As absorb, where the whole batch has so few samples that two nodes are better off as one; the results keep their
  // bits (Form::kFew).
  virtual std::shared_ptr<const Op> absorb_few(const Op& consumer, std::int64_t samples) const;
  // The same results, bit for bit, of the same inputs from a node that holds less at once and takes longer; what its
  // other nodes were to prepare may become small (Form::kFrugal). Nothing where there is no such form.
  virtual std::shared_ptr<const Op> frugal() const { return nullptr; }
  // Of an update node with inputs (parameter, gradient, slots...) that works element by element; others have none.
  virtual std::shared_ptr<const ElementUpdate> element_update() const { return nullptr; }
  // Persistent inputs (by position) that the node overwrites: optimizer updates, running statistics.
  virtual std::vector<int> mutated_inputs() const { return {}; }
  // Recomputing gives the same result and has no side effect.
  bool pure() const { return mutated_inputs().empty(); }
};

}  // namespace surefit
