// SPDX-License-Identifier: Apache-2.0
// One training step under a plan of the test's choice.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.hpp"
#include "engine/executable.hpp"
#include "engine/onednn.hpp"
#include "train/ladder.hpp"
#include "train/support.hpp"

namespace surefit {

// What a step leaves behind.
struct StepOutcome {
  std::vector<double> losses;      // by sample
  std::vector<std::string> state;  // every parameter's bytes
  std::vector<Tensor> parameters;
  std::size_t live_bytes = 0;
};

// On samples of TinyData from `first` on; memory that nobody has written is NaN.
inline StepOutcome planned_step(Sequential model, const Lossy& lossy, std::int64_t first,
                                std::int64_t samples, std::int64_t batch, const PlanOptions& how,
                                const FitOptions& fit = {}) {
  const Program program = training_program(model.impl(), fit, {lossy});
  PlanOptions options = how;
  options.batch = batch;
  ThreadPool pool(options.threads, prepare_compute_thread);
  Plan plan = make_plan(program.graph(), options);
  StepOutcome result;
  result.live_bytes = plan.max_live_bytes;
  const auto arena = std::make_shared<Arena>(plan.arena_bytes);
  std::fill_n(reinterpret_cast<float*>(arena->base()), arena->bytes() / sizeof(float),
              std::nanf(""));
  Executable executable(program.graph(), std::move(plan), pool, arena, [&](ValueId id) {
    return program.persistent(id, model.impl().parameters);
  });
  executable.share_all();
  const TinyData data;
  for (std::int64_t n = 0; n < samples; ++n) {
    std::memcpy(executable.operand(program.inputs()[0]).at(n),
                data.x.slice(first + n, first + n + 1).raw().data(), 36 * sizeof(float));
    *executable.operand(program.labels()[0]).at<std::int32_t>(n) =
        data.y.values<std::int32_t>()[static_cast<std::size_t>(first + n)];
  }
  StepContext context;
  context.samples = samples;
  context.learning_rate = 0.1;
  executable.run(context);
  for (std::int64_t n = 0; n < samples; ++n)
    result.losses.push_back(*executable.operand(program.loss()).at<double>(n));
  result.state = bits_of(model);
  for (const std::string& name : model.parameter_names())
    result.parameters.push_back(model.parameter(name));
  return result;
}

}  // namespace surefit
