// SPDX-License-Identifier: Apache-2.0
#include "train/inference.hpp"

#include "base/check.hpp"
#include "engine/onednn.hpp"
#include "train/setup.hpp"

namespace surefit {
namespace {

// A program that only looks: planned within the budget, bound, and run batch by batch.
class Inference {
 public:
  Inference(Model::Impl& model, const Compiled* compiled, Program::Purpose purpose,
            const Dataset& batches, const FitOptions& options)
      : pool_(threads_of(options), prepare_compute_thread),
        program_(model.network, compiled, purpose, policy_of(options)),
        feed_(program_, model.network, batches, once_options(options, pool_.threads())) {
    MemoryRequest request = memory_request(options, program_, feed_.batch(), pool_.threads());
    enter_data(feed_, "data", request);
    enter_parameters(model.parameters, model.parameters.slot_bytes(), request);
    MemoryPlan plan = plan_memory(request);
    const auto spill = spill_file_for(plan, options);
    executable_ = std::make_unique<Executable>(
        program_.graph(), std::move(plan.main), pool_, std::make_shared<Arena>(plan.arena_bytes()),
        [&](ValueId id) { return program_.persistent(id, model.parameters); }, spill);
    feed_.bind(*executable_);
  }

  template <typename Visit>
  void run(const Visit& visit) {
    while (const std::int64_t samples = feed_.next(pool_)) {
      StepContext context;
      context.samples = samples;
      executable_->run(context);
      visit(samples);
    }
  }
  const Program& program() const { return program_; }
  const Executable& executable() const { return *executable_; }

 private:
  ThreadPool pool_;
  Program program_;
  Feed feed_;
  std::unique_ptr<Executable> executable_;
};

}  // namespace

Logs evaluate_model(Model::Impl& model, const Dataset& batches, const FitOptions& options) {
  const Compiled& compiled = model.require_compiled("evaluate");
  Inference inference(model, &compiled, Program::Purpose::kEvaluate, batches, options);
  Scores scores(compiled.metrics, "");
  bool any = false;
  inference.run([&](std::int64_t samples) {
    any = true;
    scores.add(inference.executable(), inference.program(), samples);
  });
  if (!any) throw DataError("[data] the dataset is empty; expected at least one sample");
  return scores.logs();
}

Tensor predict_model(Model::Impl& model, const Dataset& batches, const FitOptions& options) {
  Inference inference(model, nullptr, Program::Purpose::kPredict, batches, options);
  const ValueId predictions = inference.program().outputs()[0];
  const ValueType& type = inference.program().graph().value(predictions).type;
  std::vector<float> rows;
  std::int64_t count = 0;
  inference.run([&](std::int64_t samples) {
    const Operand output = inference.executable().operand(predictions);
    for (std::int64_t n = 0; n < samples; ++n)
      rows.insert(rows.end(), output.at(n), output.at(n) + type.stored_count());
    count += samples;
  });
  return Tensor::of<float>(type.shape.prepend(count), rows);
}

}  // namespace surefit
