// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.hpp"

#include <cmath>
#include <cstring>

#include "base/check.hpp"
#include "base/clock.hpp"

namespace surefit {
namespace {

int threads_of(const FitOptions& options) {
  constexpr int kMost =
      1024;  // more is a slip of the hand, and would take the machine down with it
  if (options.threads < 0 || options.threads > kMost) {
    throw ConfigError(fmt::format("[threads] expected 1 to {}; got {}", kMost, options.threads));
  }
  return options.threads > 0 ? options.threads : default_threads();
}

data::ReaderOptions feed_options(const FitOptions& options, int threads) {
  return {.seed = options.seed, .threads = threads, .input = options.input};
}

// For data that are gone through once, or beside the training data: no cache, and a budget of their
// own.
data::ReaderOptions once_options(const FitOptions& options, int threads) {
  data::ReaderOptions reader = feed_options(options, threads);
  reader.input.cache = CacheMode::kOff;
  reader.input.budget_bytes = kPlannedBytes;
  return reader;
}

ConvPolicy policy_of(const FitOptions& options) {
  return {.winograd = options.winograd, .onednn = options.onednn};
}

std::string_view name_of(Phase phase) {
  return phase == Phase::kForward ? "forward" : phase == Phase::kBackward ? "backward" : "update";
}

// Stops at the first node whose output is not finite.
class NumericsCheck final : public RunObserver {
 public:
  NumericsCheck(const Graph& graph, std::uint64_t step) : graph_(graph), step_(step) {}
  void after(const Node& node, std::span<const Operand> outputs, std::int64_t begin,
             std::int64_t end) override {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const ValueType& type = graph_.value(node.outputs[i]).type;
      if (type.dtype != DType::kFloat32 && type.dtype != DType::kFloat64) continue;
      const std::int64_t first = type.batched ? begin : 0, last = type.batched ? end : 1;
      for (std::int64_t n = first; n < last; ++n) {
        const double bad = type.dtype == DType::kFloat32
                               ? first_bad(outputs[i].at(n), type.stored_count())
                               : first_bad(outputs[i].at<double>(n), type.stored_count());
        if (bad == 0) continue;
        throw NumericsError(fmt::format(
            "[{}] step {}: the {} of {} produced {}; lower the learning rate or check the data",
            node.layer, step_ + 1, name_of(node.phase), node.op->kind(),
            std::isnan(bad) ? "NaN" : "Inf"));
      }
    }
  }

 private:
  // The first NaN or Inf, or 0.
  template <typename T>
  static double first_bad(const T* values, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      if (!std::isfinite(values[i])) return static_cast<double>(values[i]);
    }
    return 0;
  }
  const Graph& graph_;
  std::uint64_t step_;
};

// Looks at the loss before anything persistent changes, so that a bad batch cannot spoil the
// weights.
class LossGuard final : public RunObserver {
 public:
  LossGuard(const Executable& executable, const Program& program, std::int64_t samples)
      : loss_(executable.operand(program.loss())), samples_(samples) {}
  void before_updates() override {
    double sum = 0;
    for (std::int64_t n = 0; n < samples_; ++n) sum += *loss_.at<double>(n);
    if (!std::isfinite(sum)) throw BadLoss{};
  }
  struct BadLoss {};

 private:
  Operand loss_;
  std::int64_t samples_;
};

}  // namespace

const double* find_log(const Logs& logs, const std::string& name) {
  for (const auto& [key, value] : logs) {
    if (key == name) return &value;
  }
  return nullptr;
}

Trainer::Trainer(Model::Impl& model, const Dataset& train, const FitOptions& options)
    : model_(model),
      options_(options),
      pool_(threads_of(options), prepare_compute_thread),
      train_program_(model.network, &model.require_compiled("fit"), Program::Purpose::kTrain,
                     policy_of(options)),
      train_feed_(train_program_, model.network, train, feed_options(options, pool_.threads())),
      scores_(model.compiled->metrics, ""),
      validation_scores_(model.compiled->metrics, "val_") {
  if (options.epochs < 1)
    throw ConfigError(fmt::format("[epochs] expected at least 1; got {}", options.epochs));
  if (options.max_steps < 0)
    throw ConfigError(fmt::format("[max_steps] expected 0 or more; got {}", options.max_steps));
  if (options.group < 0)
    throw ConfigError(fmt::format("[group] expected 0 or more; got {}", options.group));
  PlanOptions plan_options;
  plan_options.batch = train_feed_.batch();
  plan_options.threads = pool_.threads();
  plan_options.group = options.group;
  Plan train_plan = choose_plan(train_program_.graph(), plan_options);
  std::size_t arena_bytes = train_plan.arena_bytes;
  std::optional<Plan> validation_plan;
  if (options.validation_data) {
    validation_program_ = std::make_unique<Program>(
        model.network, &*model.compiled, Program::Purpose::kEvaluate, policy_of(options));
    validation_feed_ =
        std::make_unique<Feed>(*validation_program_, model.network, *options.validation_data,
                               once_options(options, pool_.threads()), "validation data");
    plan_options.batch = validation_feed_->batch();
    validation_plan = choose_plan(validation_program_->graph(), plan_options);
    arena_bytes = std::max(arena_bytes, validation_plan->arena_bytes);
  }
  // Training and validation take turns in the same memory.
  arena_ = std::make_shared<Arena>(arena_bytes);
  train_executable_ = bind(train_program_, std::move(train_plan));
  train_feed_.bind(*train_executable_);
  if (validation_plan) {
    validation_executable_ = bind(*validation_program_, std::move(*validation_plan));
    validation_feed_->bind(*validation_executable_);
  }
}

Trainer::~Trainer() = default;

std::unique_ptr<Executable> Trainer::bind(const Program& program, Plan plan) {
  return std::make_unique<Executable>(
      program.graph(), std::move(plan), pool_, arena_,
      [&](ValueId id) { return program.persistent(id, model_.parameters); });
}

std::int64_t Trainer::steps_per_epoch() const {
  const auto batches = train_feed_.reader().batches();
  return batches && *batches != kInfiniteCardinality ? static_cast<std::int64_t>(*batches) : 0;
}

double Trainer::images_per_second() const {
  const double seconds = epoch_seconds_ > 0 ? epoch_seconds_ : monotonic_seconds() - epoch_started_;
  return seconds > 0 ? epoch_images_ / seconds : 0;
}

void Trainer::request_stop(const std::string& reason) {
  stop_ = true;
  stop_reason_ = reason;
}

StepContext Trainer::context(std::int64_t samples) const {
  StepContext context;
  context.seed = options_.seed;
  context.step = model_.iterations;
  context.samples = samples;
  context.learning_rate = model_.learning_rate;
  return context;
}

History Trainer::run() {
  History history;
  for (Callback* callback : options_.callbacks) callback->on_train_begin(*this);
  for (epoch_ = 0; epoch_ < options_.epochs && !stop_; ++epoch_) {
    train_feed_.reader().seek(static_cast<std::uint64_t>(epoch_), 0);
    for (Callback* callback : options_.callbacks) callback->on_epoch_begin(*this);
    train_epoch();
    Logs logs = scores_.logs();
    if (validation_feed_) validate(logs);
    if (history.names.empty()) {
      for (const auto& [name, value] : logs) history.names.push_back(name);
    }
    history.epochs.emplace_back();
    for (const auto& [name, value] : logs) history.epochs.back().push_back(value);
    for (Callback* callback : options_.callbacks) callback->on_epoch_end(*this, logs);
  }
  for (Callback* callback : options_.callbacks) callback->on_train_end(*this);
  return history;
}

void Trainer::train_epoch() {
  scores_.reset();
  epoch_images_ = epoch_seconds_ = 0;
  epoch_started_ = monotonic_seconds();
  bool any = false;
  while (!stop_) {
    const std::int64_t samples = train_feed_.next(pool_);
    if (samples == 0) break;
    any = true;
    train_step(samples);
    epoch_images_ += static_cast<double>(samples);
    if (!options_.callbacks.empty()) {
      const Logs& logs = scores_.logs();
      for (Callback* callback : options_.callbacks) callback->on_train_batch_end(*this, logs);
    }
    if (options_.max_steps > 0 && ++steps_done_ >= options_.max_steps)
      request_stop("step limit reached");
  }
  if (!any) throw DataError("[data] the dataset is empty; expected at least one sample");
  epoch_seconds_ = monotonic_seconds() - epoch_started_;
}

void Trainer::train_step(std::int64_t samples) {
  const StepContext step = context(samples);
  if (options_.check_numerics) {
    NumericsCheck check(train_program_.graph(), model_.iterations);
    train_executable_->run(step, &check);
  } else {
    LossGuard guard(*train_executable_, train_program_, samples);
    try {
      train_executable_->run(step, &guard);
    } catch (const LossGuard::BadLoss&) {
      explain_bad_loss();
    }
  }
  scores_.add(*train_executable_, train_program_, samples);
  ++model_.iterations;
}

// The weights are still those from before the step: the same batch again, this time looking behind
// every node.
void Trainer::explain_bad_loss() {
  data::BatchReader& reader = train_feed_.reader();
  reader.seek(reader.epoch(), reader.position() - 1);
  const std::int64_t samples = train_feed_.next(pool_);
  NumericsCheck check(train_program_.graph(), model_.iterations);
  train_executable_->run(context(samples), &check);
  throw NumericsError(fmt::format("[loss] step {}: the loss is not finite", model_.iterations + 1));
}

void Trainer::validate(Logs& logs) {
  for (Callback* callback : options_.callbacks) callback->on_test_begin(*this);
  validation_scores_.reset();
  validation_feed_->reader().seek(0, 0);
  bool any = false;
  while (const std::int64_t samples = validation_feed_->next(pool_)) {
    any = true;
    validation_executable_->run(context(samples));
    validation_scores_.add(*validation_executable_, *validation_program_, samples);
  }
  if (!any) throw DataError("[validation data] the dataset is empty; expected at least one sample");
  const Logs& scores = validation_scores_.logs();
  logs.insert(logs.end(), scores.begin(), scores.end());
}

Logs evaluate_model(Model::Impl& model, const Dataset& batches, const FitOptions& options) {
  ThreadPool pool(threads_of(options), prepare_compute_thread);
  const Compiled& compiled = model.require_compiled("evaluate");
  const Program program(model.network, &compiled, Program::Purpose::kEvaluate, policy_of(options));
  Feed feed(program, model.network, batches, once_options(options, pool.threads()));
  Plan plan = choose_plan(
      program.graph(), {.batch = feed.batch(), .threads = pool.threads(), .group = options.group});
  auto arena = std::make_shared<Arena>(plan.arena_bytes);
  Executable executable(program.graph(), std::move(plan), pool, arena,
                        [&](ValueId id) { return program.persistent(id, model.parameters); });
  feed.bind(executable);
  Scores scores(compiled.metrics, "");
  bool any = false;
  while (const std::int64_t samples = feed.next(pool)) {
    any = true;
    StepContext context;
    context.samples = samples;
    executable.run(context);
    scores.add(executable, program, samples);
  }
  if (!any) throw DataError("[data] the dataset is empty; expected at least one sample");
  return scores.logs();
}

Tensor predict_model(Model::Impl& model, const Dataset& batches, const FitOptions& options) {
  ThreadPool pool(threads_of(options), prepare_compute_thread);
  const Program program(model.network, nullptr, Program::Purpose::kPredict, policy_of(options));
  Feed feed(program, model.network, batches, once_options(options, pool.threads()));
  Plan plan = choose_plan(
      program.graph(), {.batch = feed.batch(), .threads = pool.threads(), .group = options.group});
  auto arena = std::make_shared<Arena>(plan.arena_bytes);
  Executable executable(program.graph(), std::move(plan), pool, arena,
                        [&](ValueId id) { return program.persistent(id, model.parameters); });
  feed.bind(executable);
  const ValueType& type = program.graph().value(program.outputs()[0]).type;
  const Shape row = type.shape;
  std::vector<float> rows;
  std::int64_t count = 0;
  while (const std::int64_t samples = feed.next(pool)) {
    StepContext context;
    context.samples = samples;
    executable.run(context);
    const Operand output = executable.operand(program.outputs()[0]);
    for (std::int64_t n = 0; n < samples; ++n)
      rows.insert(rows.end(), output.at(n), output.at(n) + type.stored_count());
    count += samples;
  }
  return Tensor::of<float>(row.prepend(count), rows);
}

}  // namespace surefit
