// SPDX-License-Identifier: Apache-2.0
#include "support/optimizer_rig.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "engine/executable.hpp"
#include "engine/onednn.hpp"
#include "optim/optimizer.hpp"

namespace surefit {

std::vector<Tensor> run_optimizer(const Optimizer& optimizer, const Tensor& weights,
                                  const std::vector<Tensor>& gradients, const OptimizerRun& run) {
  Graph graph{StructuralOps{}};
  const Packing* packing = run.packing.get();
  // As the engine keeps it.
  const auto stored = [&](const Tensor& keras) {
    if (packing == nullptr) return keras;
    Tensor engine(Shape{static_cast<std::int64_t>(packing->stored_count())});
    packing->pack(keras.values<float>().data(), engine.values<float>().data());
    return engine;
  };
  ValueType type;
  type.shape = stored(weights).shape();
  type.batched = false;
  std::map<ValueId, Tensor> memory;
  const ValueId parameter = graph.add_persistent("w", type, Category::kWeights);
  memory[parameter] = stored(weights);
  const ValueId gradient = graph.add_input("gradient", type);
  std::vector<ValueId> inputs = {parameter, gradient};
  for (const SlotSpec& slot : optimizer.impl().slots(weights.shape())) {
    ValueType slot_type = type;
    slot_type.shape = slot.shape.value_or(type.shape);
    inputs.push_back(graph.add_persistent("w/" + slot.name, slot_type, Category::kOptimizer));
    memory[inputs.back()] = Tensor(slot_type.shape);
  }
  const Clipping clip = optimizer.impl().clipping();
  const double norm = std::max(clip.norm, clip.global_norm);  // of one parameter, the same
  if (norm > 0) {
    const ValueId sums = graph.add1(make_square_sums_op(), {gradient}, "w", Phase::kUpdate);
    inputs.push_back(graph.add1(make_clip_factor_op(norm), {sums}, "w", Phase::kUpdate));
  }
  if (clip.value > 0)
    inputs[1] = graph.add1(make_clip_value_op(clip.value), {gradient}, "w", Phase::kUpdate);
  graph.add(optimizer.impl().update_op(
                {.shape = weights.shape(), .packing = run.packing, .factor = norm > 0}),
            inputs, "w", Phase::kUpdate);
  ThreadPool pool(run.threads, prepare_compute_thread);
  Plan plan = make_plan(graph, {.batch = 1, .threads = run.threads});
  const auto arena = std::make_shared<Arena>(plan.arena_bytes);
  Executable executable(graph, std::move(plan), pool, arena,
                        [&](ValueId id) { return memory.at(id).raw().data(); });
  executable.share_all();
  std::vector<Tensor> result;
  for (std::size_t step = 0; step < gradients.size(); ++step) {
    const Tensor given = stored(gradients[step]);
    std::memcpy(executable.operand(gradient).at(), given.raw().data(), given.bytes());
    StepContext context;
    context.step = step;
    context.samples = 1;
    context.learning_rate =
        run.learning_rate > 0
            ? run.learning_rate
            : optimizer.impl().learning_rate().at(static_cast<std::int64_t>(step));
    context.loss_scale = run.loss_scale;
    executable.run(context);
    result.push_back(memory.at(parameter));
    if (packing == nullptr) continue;
    Tensor keras(weights.shape());
    packing->unpack(result.back().values<float>().data(), keras.values<float>().data());
    const Tensor padded = stored(keras);
    if (!std::equal(padded.raw().begin(), padded.raw().end(), result.back().raw().begin()))
      throw InternalError("the padding of a packed parameter was changed");
    result.back() = keras;
  }
  return result;
}

}  // namespace surefit
