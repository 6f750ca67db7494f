// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "train/live_tensors.hpp"

namespace surefit {
namespace {

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

Weighting training_weights(const FitOptions& options, const Dataset& data, const Network& network) {
  Weighting weighting = weighting_of(data, network);
  weighting.classes = options.class_weight;
  for (const auto& [label, weight] : weighting.classes) {
    if (weight >= 0 && std::isfinite(weight)) continue;
    throw ConfigError(fmt::format(
        "[class_weight] expected a number of at least 0 for class {}; got {}", label, weight));
  }
  return weighting;
}

}  // namespace

const double* find_log(const Logs& logs, const std::string& name) {
  for (const auto& [key, value] : logs) {
    if (key == name) return &value;
  }
  return nullptr;
}

Trainer::Trainer(Model::Impl& model, const Dataset& train, const FitOptions& options,
                 std::shared_ptr<HeadroomSource> headroom)
    : model_(model),
      options_(options),
      pool_(threads_of(options), prepare_compute_thread),
      weighting_(training_weights(options, train, model.network)),
      lossy_(lossy_by_policy(options)),
      train_program_(model.network, &model.require_compiled("fit"), Program::Purpose::kTrain,
                     options.convolutions, weighting_, lossy_),
      train_feed_(train_program_, model.network, train, feed_options(options, pool_.threads())),
      headroom_(std::move(headroom)),
      scores_(model.compiled->targets, ""),
      validation_scores_(model.compiled->targets, "val_") {
  if (options.epochs < 1)
    throw ConfigError(fmt::format("[epochs] expected at least 1; got {}", options.epochs));
  if (options.max_steps < 0)
    throw ConfigError(fmt::format("[max_steps] expected 0 or more; got {}", options.max_steps));
  if (options.group < 0)
    throw ConfigError(fmt::format("[group] expected 0 or more; got {}", options.group));
  if (options.validation_data) {
    validation_program_ = std::make_unique<Program>(
        model.network, &*model.compiled, Program::Purpose::kEvaluate, options.convolutions,
        weighting_of(*options.validation_data, model.network));
    validation_feed_ =
        std::make_unique<Feed>(*validation_program_, model.network, *options.validation_data,
                               once_options(options, pool_.threads()), "validation data");
  }
  const auto request = [&](const Program& program, std::uint64_t slots) {
    MemoryRequest all =
        memory_request(options_, program.graph(), train_feed_.batch(), pool_.threads());
    enter_residents(all, slots);
    return all;
  };
  // A cache is a gain, never the reason to refuse a run.
  train_feed_.reader().limit_cache(request(train_program_, 0).budget / 4);
  choose_numerics();
  checkpoints_ =
      std::make_unique<Checkpointer>(model_, options_, lossy_, train_feed_, scores_, progress_);
  wants_copy_ = checkpoints_->saves() && options_.checkpoint_staging;
  MemoryRequest all = request(train_program_, model_.parameters.slot_bytes());
  all.offers = [&] {
    return offers(
        model_, options_,
        [&](const Program& program, const Candidate& candidate) {
          return request(program, slot_bytes(model_, candidate));
        },
        weighting_);
  };
  bind(plan(all));
}

// The first way to compute the training for which there is a plan; where none has one, the exact
// way, so that the refusal is about that. The model goes on with the optimizer that was chosen; its
// state of another one is of no use to it.
void Trainer::choose_numerics() {
  const std::vector<Candidate> ways =
      candidates(model_, options_, train_feed_.batch(), recorded_rungs(options_));
  const bool saves = !options_.run.empty() && options_.checkpoint_every != "never";
  // Without a copy of the state a checkpoint needs room for one tensor, callbacks for what they
  // keep.
  std::uint64_t largest = 0, kept = 0;
  for (const Parameter& parameter : model_.network.parameters())
    largest = std::max<std::uint64_t>(largest, parameter.stored_count() * sizeof(float));
  for (const CallbackHandle& callback : options_.callbacks)
    kept += callback->keeps_weights() ? model_.parameters.bytes() : 0;
  const auto compute_as = [&](const Candidate& candidate) {
    if (!(candidate.lossy == lossy_))
      train_program_ = training_program(model_, options_, candidate, weighting_);
    lossy_ = candidate.lossy;
  };
  const auto fits = [&](const Candidate& candidate) {
    compute_as(candidate);
    MemoryRequest request =
        memory_request(options_, train_program_.graph(), train_feed_.batch(), pool_.threads());
    enter_residents(request, slot_bytes(model_, candidate));
    request.outside.push_back({"checkpoints", Category::kCheckpoint, kept + (saves ? largest : 0)});
    return find_plan(request).has_value();
  };
  // With one way there is nothing to choose; the plan itself will tell.
  auto chosen = ways.begin();
  if (ways.size() > 1) chosen = std::find_if(ways.begin(), ways.end(), fits);
  if (chosen == ways.end()) chosen = ways.begin();
  compute_as(*chosen);
  if (!chosen->optimizer) return;
  model_.compiled->optimizer = *chosen->optimizer;
  if (model_.factored) return;
  model_.parameters.allocate_slots(model_.compiled->optimizer.impl());
  ++model_.compilations;
  model_.factored = true;
}

void Trainer::enter_residents(MemoryRequest& request, std::uint64_t slot_bytes) const {
  enter_data(train_feed_, "data", request);
  if (validation_program_) {
    request.validation = &validation_program_->graph();
    request.validation_batch = validation_feed_->batch();
    enter_data(*validation_feed_, "validation data", request);
  }
  enter_parameters(model_.parameters, slot_bytes, request);
}

// With a copy of the state for checkpoints where that fits; otherwise they are written from the
// state itself while training waits. Nothing is committed before a plan was found.
MemoryPlan Trainer::plan(const MemoryRequest& request) {
  const auto with = [&](bool copy) {
    MemoryRequest all = request;
    all.outside.push_back({"copy of the state for checkpoints", Category::kCheckpoint,
                           checkpoints_->staging_bytes(copy)});
    all.outside.push_back(
        {"weights that callbacks keep", Category::kCheckpoint, checkpoints_->kept_bytes()});
    return all;
  };
  std::optional<MemoryPlan> best;
  if (wants_copy_) {
    try {
      MemoryRequest all = with(true);
      all.explain = false;
      best = plan_memory(all);
      holding_.full_speed = best->full_speed_bytes;
    } catch (const MemoryRefused& refused) {  // perhaps without it
      holding_.full_speed = refused.need();
    }
  }
  // A copy that costs more time in every step than it saves at checkpoints is not worth its room.
  constexpr double kWorthIt = 1.02;
  bool copy = best.has_value();
  if (!best || best->slowdown > 1) {
    MemoryPlan lean = plan_memory(with(false));
    if (!wants_copy_) holding_.full_speed = lean.full_speed_bytes;
    if (!best || best->slowdown > lean.slowdown * kWorthIt) {
      best = std::move(lean);
      copy = false;
    }
  }
  checkpoints_->commit(copy);
  report_ = report_of(*best, request.budget_source, lossy_);
  if (wants_copy_ && !copy)
    report_.rungs.emplace_back("checkpoints without a copy: training waits for the disk", 0);
  if (progress_.history.lossy.empty()) progress_.history.lossy = report_.lossy;
  ledger_ = best->ledger;
  holding_.bytes = report_.predicted_bytes;
  holding_.budget = request.budget;
  return std::move(*best);
}

std::vector<LiveTensor> Trainer::live_tensors(std::int64_t moment) const {
  const Plan& plan = train_plan();
  if (moment < kFullestMoment || moment >= moments()) {
    throw ConfigError(fmt::format("[live_tensors] moment; expected 0 to {}, or {}; got {}",
                                  moments() - 1, kFullestMoment, moment));
  }
  return surefit::live_tensors(
      ledger_, plan, model_.parameters,
      moment == kFullestMoment ? plan.peak_instance : static_cast<int>(moment));
}

void Trainer::bind(MemoryPlan plan) {
  // Training and validation take turns in the same memory.
  spill_ = spill_file_for(plan, options_);
  arena_ = std::make_shared<Arena>(plan.arena_bytes());
  train_executable_ = bind(train_program_, std::move(plan.main));
  train_feed_.bind(*train_executable_);
  if (plan.validation) {
    validation_executable_ = bind(*validation_program_, std::move(*plan.validation));
    validation_feed_->bind(*validation_executable_);
  }
}

Trainer::~Trainer() = default;

std::unique_ptr<Executable> Trainer::bind(const Program& program, Plan plan) {
  return std::make_unique<Executable>(
      program.graph(), std::move(plan), pool_, arena_,
      [&](ValueId id) { return program.persistent(id, model_.parameters); }, spill_);
}

std::int64_t Trainer::steps_per_epoch() const {
  const auto batches = train_feed_.reader().batches();
  return batches && *batches != kInfiniteCardinality ? static_cast<std::int64_t>(*batches) : 0;
}

double Trainer::images_per_second() const {
  const double seconds = epoch_seconds_ > 0 ? epoch_seconds_ : monotonic_seconds() - epoch_started_;
  return seconds > 0 ? epoch_images_ / seconds : 0;
}

std::vector<std::string> Trainer::log_names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : scores_.names()) names.push_back(name);
  if (validation_feed_) {
    for (const auto& [name, value] : validation_scores_.names()) names.push_back(name);
  }
  return names;
}

void Trainer::request_stop(const std::string& reason) {
  progress_.stop = true;
  progress_.history.stop_reason = reason;
}

void Trainer::interrupt(const std::string& reason) {
  progress_.history.interrupted = true;
  interruption_ = reason;
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
  call(&Callback::on_train_begin);
  checkpoints_->open();
  if (options_.resume && restore()) call(&Callback::on_resume);
  checkpoints_->begin();
  watch_.emplace(headroom_, options_.memory_budget == 0 ? kNoLimit : options_.memory_budget);
  run_epochs();
  if (progress_.history.interrupted) {
    checkpoints_->save_now(*this, pool_);
    progress_.history.stop_reason = interruption_;
    return std::move(progress_.history);
  }
  progress_.finished = true;
  // Before callbacks put their best weights in: more epochs go on from where training stopped. A
  // training cut short by max_steps has been saved within its epoch.
  if (trained_ && !reached_step_limit()) checkpoints_->save_now(*this, pool_);
  model_.finish_averaging();
  call(&Callback::on_train_end);
  return std::move(progress_.history);
}

bool Trainer::restore() {
  if (!checkpoints_->restore(*this)) return false;
  mid_epoch_ = progress_.position > 0;
  return true;
}

bool Trainer::roll_back() {
  if (!restore()) return false;
  rolled_back_ = true;
  call(&Callback::on_resume);
  return true;
}

bool Trainer::reached_step_limit() const {
  return options_.max_steps > 0 && progress_.steps_done >= options_.max_steps;
}

void Trainer::run_epochs() {
  while (progress_.epoch < options_.epochs && (mid_epoch_ || !progress_.stop)) {
    trained_ = true;
    if (!std::exchange(mid_epoch_, false)) {
      train_feed_.reader().seek(static_cast<std::uint64_t>(progress_.epoch), 0);
      scores_.reset();
      progress_.position = 0;
      call(&Callback::on_epoch_begin);
    }
    train_epoch();
    if (progress_.history.interrupted) return;
    if (std::exchange(rolled_back_, false)) {
      checkpoints_->save_now(*this, pool_);  // so that what the rollback changed is not forgotten
      continue;
    }
    close_epoch();
    if (progress_.history.interrupted) return;
  }
}

void Trainer::close_epoch() {
  if (reached_step_limit()) {
    checkpoints_->save_now(*this, pool_);
    request_stop("step limit reached");
  }
  Logs logs = scores_.logs();
  if (validation_feed_) validate(logs);
  if (progress_.history.interrupted) return;
  History& history = progress_.history;
  if (history.names.empty()) {
    for (const auto& [name, value] : logs) history.names.push_back(name);
  }
  history.epochs.emplace_back();
  for (const auto& [name, value] : logs) history.epochs.back().push_back(value);
  call(&Callback::on_epoch_end, logs);
  ++progress_.epoch;
  progress_.position = 0;
  if (!reached_step_limit()) checkpoints_->after_epoch(*this, pool_);
}

void Trainer::train_epoch() {
  epoch_images_ = epoch_seconds_ = 0;
  epoch_started_ = monotonic_seconds();
  while (!progress_.stop && !progress_.history.interrupted && !reached_step_limit()) {
    const std::int64_t samples = train_feed_.next(pool_);
    if (samples == 0) break;
    try {
      train_step(samples);
    } catch (const NumericsError& error) {
      if (!survives(error)) throw;
      break;
    }
    epoch_images_ += static_cast<double>(samples);
    ++progress_.position;
    ++progress_.steps_done;
    if (!options_.callbacks.empty()) call(&Callback::on_train_batch_end, scores_.logs());
    checkpoints_->after_step(*this, pool_);
    if (!progress_.history.interrupted) mind_memory();
  }
  if (progress_.position == 0 && !rolled_back_)
    throw DataError("[data] the dataset is empty; expected at least one sample");
  epoch_seconds_ = monotonic_seconds() - epoch_started_;
}

// The first callback that has an answer decides.
bool Trainer::survives(const NumericsError& error) {
  for (const CallbackHandle& callback : options_.callbacks) {
    switch (callback->on_bad_loss(*this, error.what())) {
      case OnBadLoss::kFail:
        continue;
      case OnBadLoss::kStop:
        request_stop(error.what());
        return true;
      case OnBadLoss::kRollBack:
        return rolled_back_;
    }
  }
  return false;
}

void Trainer::train_step(std::int64_t samples) {
  model_.follow_schedule();
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
  call(&Callback::on_test_begin);
  validation_scores_.reset();
  validation_feed_->reader().seek(0, 0);
  bool any = false;
  while (const std::int64_t samples = validation_feed_->next(pool_)) {
    any = true;
    validation_executable_->run(context(samples));
    validation_scores_.add(*validation_executable_, *validation_program_, samples);
    call(&Callback::on_test_batch_end);
    if (!progress_.history.interrupted) mind_memory();
    if (progress_.history.interrupted) return;
  }
  if (!any) throw DataError("[validation data] the dataset is empty; expected at least one sample");
  const Logs& scores = validation_scores_.logs();
  logs.insert(logs.end(), scores.begin(), scores.end());
}

}  // namespace surefit
