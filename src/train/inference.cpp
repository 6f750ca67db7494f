// SPDX-License-Identifier: Apache-2.0
#include "train/inference.hpp"

#include <algorithm>

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
        program_(model.network, compiled, purpose, options.convolutions,
                 compiled != nullptr ? weighting_of(batches, model.network) : Weighting{}),
        feed_(program_, model.network, batches, once_options(options, pool_.threads())) {
    MemoryRequest request =
        memory_request(options, program_.graph(), feed_.batch(), pool_.threads());
    enter_data(feed_, "data", request);
    enter_parameters(model.parameters, request);
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

std::int64_t largest(std::span<const float> scores) {
  return std::max_element(scores.begin(), scores.end()) - scores.begin();
}

// A count for each pair of classes; each row of scores (a sample, or a pixel of one) is counted.
struct Confusions {
  std::int64_t classes = 2;
  std::int64_t scores_per_row = 2;  // as many as classes, or one: that of class 1
  std::string name = "confusions";
  static constexpr std::string_view kClass = "Confusions";
  static void fields(auto& field) { field("classes", &Confusions::classes); }

  std::size_t state_size() const { return static_cast<std::size_t>(classes * classes); }
  void update(std::span<double> state, std::span<const float> prediction,
              std::span<const float> target) const {
    const auto width = static_cast<std::size_t>(scores_per_row);
    const bool whole = target.size() * width == prediction.size();
    for (std::size_t row = 0; row * width < prediction.size(); ++row) {
      const auto scores = prediction.subspan(row * width, width);
      const std::int64_t taken = width == 1 ? scores[0] >= 0.5f : largest(scores);
      const std::int64_t truth =
          whole ? std::clamp(static_cast<std::int64_t>(target[row]), std::int64_t{0}, classes - 1)
                : largest(target.subspan(row * width, width));
      state[static_cast<std::size_t>(truth * classes + taken)] += 1;
    }
  }
  double result(std::span<const double>) const { return 0; }
};

}  // namespace

Tensor count_confusions(Model::Impl& model, const Dataset& batches, const FitOptions& options) {
  const Compiled& compiled = model.require_compiled("confusion_matrix");
  const auto& outputs = model.network.output_calls();
  const Shape& scores = model.network.calls()[static_cast<std::size_t>(outputs[0])].shape;
  if (outputs.size() != 1 || scores.rank() == 0)
    throw ConfigError("[confusion_matrix] expected a model with one output of scores");
  const std::int64_t width = scores.dims().back(), classes = std::max<std::int64_t>(2, width);
  Compiled counting{compiled.optimizer,
                    {{.loss = compiled.targets[0].loss,
                      .metrics = {Confusions{.classes = classes, .scores_per_row = width}}}}};
  Inference inference(model, &counting, Program::Purpose::kEvaluate, batches, options);
  Scores counts(counting.targets, "");
  inference.run([&](std::int64_t samples) {
    counts.add(inference.executable(), inference.program(), samples);
  });
  Tensor matrix({classes, classes}, DType::kInt64);
  const std::span<const double> state = counts.state(0);
  std::transform(state.begin(), state.end(), matrix.values<std::int64_t>().begin(),
                 [](double count) { return static_cast<std::int64_t>(count); });
  return matrix;
}

Logs evaluate_model(Model::Impl& model, const Dataset& batches, const FitOptions& options) {
  const Compiled& compiled = model.require_compiled("evaluate");
  Inference inference(model, &compiled, Program::Purpose::kEvaluate, batches, options);
  Scores scores(compiled.targets, "");
  bool any = false;
  inference.run([&](std::int64_t samples) {
    any = true;
    scores.add(inference.executable(), inference.program(), samples);
  });
  if (!any) throw DataError("[data] the dataset is empty; expected at least one sample");
  return scores.logs();
}

std::vector<Tensor> predict_model(Model::Impl& model, const Dataset& batches,
                                  const FitOptions& options) {
  Inference inference(model, nullptr, Program::Purpose::kPredict, batches, options);
  const std::vector<ValueId>& outputs = inference.program().outputs();
  std::vector<std::vector<float>> rows(outputs.size());
  std::int64_t count = 0;
  const auto type = [&](std::size_t i) -> const ValueType& {
    return inference.program().graph().value(outputs[i]).type;
  };
  inference.run([&](std::int64_t samples) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Operand output = inference.executable().operand(outputs[i]);
      for (std::int64_t n = 0; n < samples; ++n)
        rows[i].insert(rows[i].end(), output.at(n), output.at(n) + type(i).stored_count());
    }
    count += samples;
  });
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    tensors.push_back(Tensor::of<float>(type(i).shape.prepend(count), rows[i]));
  return tensors;
}

}  // namespace surefit
