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
  ValueType type;
  type.shape = weights.shape();
  type.batched = false;
  std::map<ValueId, Tensor> memory;
  const ValueId parameter = graph.add_persistent("w", type, Category::kWeights);
  memory[parameter] = weights;
  const ValueId gradient = graph.add_input("gradient", type);
  std::vector<ValueId> inputs = {parameter, gradient};
  for (const std::string& slot : optimizer.impl().slots()) {
    inputs.push_back(graph.add_persistent("w/" + slot, type, Category::kOptimizer));
    memory[inputs.back()] = Tensor(weights.shape());
  }
  const Clipping clip = optimizer.impl().clipping();
  const double norm = std::max(clip.norm, clip.global_norm);  // of one parameter, the same
  if (norm > 0) {
    const ValueId sums = graph.add1(make_square_sums_op(), {gradient}, "w", Phase::kUpdate);
    inputs.push_back(graph.add1(make_clip_factor_op(norm), {sums}, "w", Phase::kUpdate));
  }
  if (clip.value > 0)
    inputs[1] = graph.add1(make_clip_value_op(clip.value), {gradient}, "w", Phase::kUpdate);
  graph.add(optimizer.impl().update_op(norm > 0), inputs, "w", Phase::kUpdate);
  ThreadPool pool(run.threads, prepare_compute_thread);
  Plan plan = make_plan(graph, {.batch = 1, .threads = run.threads});
  const auto arena = std::make_shared<Arena>(plan.arena_bytes);
  Executable executable(graph, std::move(plan), pool, arena,
                        [&](ValueId id) { return memory.at(id).raw().data(); });
  std::vector<Tensor> result;
  for (std::size_t step = 0; step < gradients.size(); ++step) {
    std::memcpy(executable.operand(gradient).at(), gradients[step].raw().data(),
                gradients[step].bytes());
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
  }
  return result;
}

}  // namespace surefit
