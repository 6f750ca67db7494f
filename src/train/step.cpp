// SPDX-License-Identifier: Apache-2.0
#include "surefit/step.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.hpp"
#include "base/thread_pool.hpp"
#include "engine/executable.hpp"
#include "engine/onednn.hpp"
#include "train/setup.hpp"
#include "train/tape.hpp"

namespace surefit {
namespace {

FitOptions fit_options(const StepOptions& options) {
  FitOptions fit;
  fit.threads = options.threads;
  fit.group = options.group;
  fit.convolutions = options.convolutions;
  fit.memory_budget = options.memory_budget;
  fit.spill_directory = options.spill_directory;
  return fit;
}

template <typename From, typename To>
void convert(std::span<const From> from, To* to) {
  std::transform(from.begin(), from.end(), to, [](From value) { return static_cast<To>(value); });
}

template <typename To>
void convert(const Tensor& tensor, To* to) {
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return convert(tensor.values<float>(), to);
    case DType::kFloat64:
      return convert(tensor.values<double>(), to);
    case DType::kInt8:
      return convert(tensor.values<std::int8_t>(), to);
    case DType::kInt16:
      return convert(tensor.values<std::int16_t>(), to);
    case DType::kInt32:
      return convert(tensor.values<std::int32_t>(), to);
    case DType::kInt64:
      return convert(tensor.values<std::int64_t>(), to);
    case DType::kUInt8:
      return convert(tensor.values<std::uint8_t>(), to);
    case DType::kUInt16:
      return convert(tensor.values<std::uint16_t>(), to);
    case DType::kUInt32:
      return convert(tensor.values<std::uint32_t>(), to);
    case DType::kUInt64:
      return convert(tensor.values<std::uint64_t>(), to);
    case DType::kBool:
      return convert(tensor.values<bool>(), to);
    case DType::kFloat16:
      break;
  }
  throw ConfigError(
      fmt::format("[step] inputs of type {} are not supported", name_of(tensor.dtype())));
}

}  // namespace

class Step::Impl {
 public:
  Impl(const StepOptions& options, const std::function<LossValue(Tape&)>& trace)
      : options_(options),
        pool_(threads_of(fit_options(options)), prepare_compute_thread),
        tape_(options.convolutions) {
    if (options.batch_size < 1)
      throw ConfigError(
          fmt::format("[batch_size] expected at least 1; got {}", options.batch_size));
    Tape tape(tape_);
    returned_ = trace(tape);
    tape_.finish(returned_);
    bind();
    for (const auto& model : tape_.models()) compilations_.push_back(model->compilations);
  }

  double run(std::span<const Tensor* const> inputs) {
    check_models();
    const std::int64_t samples = fill(inputs);
    StepContext context;
    context.seed = options_.seed;
    context.samples = samples;
    context.sample_ids = ids_.data();
    context.step = static_cast<std::uint64_t>(calls_);
    if (Model::Impl* model = tape_.applied()) {
      model->follow_schedule();
      context.step = model->iterations;
      context.learning_rate = model->learning_rate;
    }
    for (const auto& sum : tape_.taken()) {
      if (*sum->fresh)
        throw ConfigError("[step] the sum of gradients is empty; accumulate before taking it");
    }
    samples_ = samples;
    LossGuard guard(*this);
    executable_->run(context, &guard);
    ++calls_;
    if (tape_.applied() != nullptr) ++tape_.applied()->iterations;
    for (const auto& sum : tape_.added()) *sum->fresh = false;
    for (const auto& sum : tape_.taken()) *sum->fresh = true;
    return mean(returned_);
  }

  double number(const std::string& name) const {
    for (const TapeImpl::NamedLoss& output : tape_.loss_outputs()) {
      if (output.name == name) return mean(output.loss);
    }
    throw ConfigError(fmt::format("[step] no loss '{}' among the outputs", name));
  }

  Tensor tensor(const std::string& name) const {
    for (const TapeImpl::NamedValue& output : tape_.value_outputs()) {
      if (output.name == name) return read(output);
    }
    throw ConfigError(fmt::format("[step] no value '{}' among the outputs", name));
  }

  const MemoryReport& memory() const { return report_; }
  std::int64_t calls() const { return calls_; }

 private:
  // Stops before anything persistent changes.
  class LossGuard final : public RunObserver {
   public:
    explicit LossGuard(const Impl& step) : step_(step) {}
    void before_updates() override {
      for (const int index : step_.tape_.used_losses()) {
        const double sum = step_.sum_of(index);
        if (std::isfinite(sum)) continue;
        throw NumericsError(
            fmt::format("[step] call {}: the loss is {}; lower the learning rate or check the data",
                        step_.calls_ + 1, std::isnan(sum) ? "NaN" : "Inf"));
      }
    }

   private:
    const Impl& step_;
  };

  void bind() {
    const FitOptions fit = fit_options(options_);
    MemoryRequest request =
        memory_request(fit, tape_.graph(), options_.batch_size, pool_.threads());
    for (const auto& model : tape_.models()) enter_parameters(model->parameters, request);
    for (const auto& sums : {tape_.added(), tape_.taken()}) {
      for (const auto& sum : sums)
        request.outside.push_back({"sum of gradients", Category::kGradients, sum->memory->bytes()});
    }
    MemoryPlan plan = plan_memory(request);
    report_ = report_of(plan, request.budget_source);
    const auto spill = spill_file_for(plan, fit);
    const std::size_t bytes = plan.arena_bytes();
    executable_ = std::make_unique<Executable>(
        tape_.graph(), std::move(plan.main), pool_, std::make_shared<Arena>(bytes),
        [&](ValueId id) { return tape_.persistent(id); }, spill);
    ids_.resize(static_cast<std::size_t>(options_.batch_size));
    for (std::size_t i = 0; i < ids_.size(); ++i) ids_[i] = static_cast<std::int64_t>(i);
  }

  // The addresses of a step are fixed when it is traced; compile() gives optimizers new slots.
  void check_models() const {
    for (std::size_t i = 0; i < compilations_.size(); ++i) {
      if (compilations_[i] == tape_.models()[i]->compilations) continue;
      throw ConfigError(
          fmt::format("[step] model '{}' was compiled again after the step was traced; trace it "
                      "again",
                      tape_.models()[i]->name));
    }
  }

  std::int64_t fill(std::span<const Tensor* const> inputs) {
    if (inputs.size() != tape_.inputs().size()) {
      throw ConfigError(fmt::format("[step] expected {} tensors, one for each input; got {}",
                                    tape_.inputs().size(), inputs.size()));
    }
    std::int64_t samples = inputs.empty() ? 1 : -1;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& tensor = *inputs[i];
      const ValueType& type = tape_.graph().value(tape_.inputs()[i].id).type;
      const std::int64_t rows = tensor.shape().rank() > 0 ? tensor.shape()[0] : 0;
      if (samples == -1) samples = rows;
      if (rows < 1 || rows > options_.batch_size || rows != samples) {
        throw ConfigError(fmt::format(
            "[step] input {}; expected {} samples; got shape {}", i,
            i == 0 ? fmt::format("1 to {}", options_.batch_size) : fmt::format("{}", samples),
            tensor.shape().to_string()));
      }
      if (tensor.count() != static_cast<std::size_t>(rows) * type.shape.count()) {
        throw ConfigError(fmt::format("[step] input {}; expected samples of shape {}; got {}", i,
                                      type.shape.to_string(),
                                      tensor.shape().drop_front().to_string()));
      }
      const Operand slot = executable_->operand(tape_.inputs()[i].id);
      if (slot.base == nullptr) continue;  // nobody reads it
      if (type.dtype == DType::kFloat32) {
        convert(tensor, slot.at<float>(0));
      } else {
        convert(tensor, slot.at<std::int32_t>(0));
        check_labels(i, {slot.at<std::int32_t>(0), tensor.count()});
      }
    }
    return samples;
  }

  void check_labels(std::size_t input, std::span<const std::int32_t> labels) const {
    const std::int64_t classes = tape_.inputs()[input].classes;
    if (classes == 0) return;
    for (const std::int32_t label : labels) {
      if (label >= 0 && label < classes) continue;
      throw DataError(fmt::format("[step] input {}: label out of range; expected 0 to {}; got {}",
                                  input, classes - 1, label));
    }
  }

  double sum_of(int index) const {
    const Operand loss = executable_->operand(tape_.losses()[static_cast<std::size_t>(index)].loss);
    double sum = 0;
    for (std::int64_t n = 0; n < samples_; ++n) sum += *loss.at<double>(n);
    return sum;
  }
  double mean(const LossValue& loss) const {
    if (samples_ == 0) return 0;
    double sum = 0;
    for (const LossValue::Term& term : loss.terms()) sum += term.factor * sum_of(term.index);
    return sum / static_cast<double>(samples_);
  }

  Tensor read(const TapeImpl::NamedValue& output) const {
    const ValueType& type = tape_graph().value(output.id).type;
    if (output.model != nullptr) {
      Tensor tensor(output.model->network.parameters()[output.parameter].spec.shape);
      const float* memory = tape_graph().value(output.id).origin == Origin::kPersistent
                                ? reinterpret_cast<const float*>(tape_.persistent(output.id))
                                : executable_->operand(output.id).at<float>();
      output.model->parameters.unpack(output.parameter, memory, tensor.values<float>().data());
      return tensor;
    }
    Tensor tensor(type.shape.prepend(samples_), type.dtype);
    const Operand value = executable_->operand(output.id);
    const std::size_t row = type.stored_bytes();
    for (std::int64_t n = 0; n < samples_; ++n)
      std::memcpy(tensor.raw().data() + static_cast<std::size_t>(n) * row, value.at<std::byte>(n),
                  row);
    return tensor;
  }
  const Graph& tape_graph() const { return executable_->graph(); }

  StepOptions options_;
  ThreadPool pool_;
  TapeImpl tape_;
  LossValue returned_;
  MemoryReport report_;
  std::unique_ptr<Executable> executable_;
  std::vector<std::uint64_t> compilations_;
  std::vector<std::int64_t> ids_;
  std::int64_t calls_ = 0, samples_ = 0;
};

Step::Step(const StepOptions& options, const std::function<LossValue(Tape&)>& trace, Written)
    : impl_(std::make_unique<Impl>(options, trace)) {}
Step::~Step() = default;
Step::Step(Step&&) noexcept = default;
Step& Step::operator=(Step&&) noexcept = default;

double Step::run(std::span<const Tensor* const> inputs) {
  return impl_->run(inputs);
}
double Step::number(const std::string& name) const {
  return impl_->number(name);
}
Tensor Step::tensor(const std::string& name) const {
  return impl_->tensor(name);
}
const MemoryReport& Step::memory() const {
  return impl_->memory();
}
std::int64_t Step::calls() const {
  return impl_->calls();
}

}  // namespace surefit
