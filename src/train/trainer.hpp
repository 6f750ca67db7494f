// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "surefit/model.hpp"

#include "engine/onednn.hpp"
#include "train/checkpointing.hpp"
#include "train/memory_watch.hpp"
#include "train/session.hpp"
#include "train/setup.hpp"

namespace surefit {

// Safetensors with Keras's names and layouts.
void save_model_weights(const Model::Impl& model, const std::string& path);

// One call of fit(): plans, binds, runs the epochs.
class Trainer final : public TrainState {
 public:
  // `train` and the validation data are datasets of batches.
  Trainer(Model::Impl& model, const Dataset& train, const FitOptions& options,
          std::shared_ptr<HeadroomSource> headroom = system_headroom());
  ~Trainer() override;

  History run();
  const Plan& train_plan() const { return train_executable_->plan(); }
  // Memory besides arena and parameters, committed when the trainer is made: the copy of the state
  // that is being written, and weights that callbacks keep.
  std::size_t checkpoint_staging_bytes() const { return checkpoints_->staging_bytes(); }
  std::size_t kept_weights_bytes() const { return checkpoints_->kept_bytes(); }

  std::int64_t epoch() const override { return progress_.epoch; }
  std::int64_t epochs() const override { return options_.epochs; }
  std::int64_t step() const override { return static_cast<std::int64_t>(model_.iterations); }
  std::int64_t epoch_step() const override { return static_cast<std::int64_t>(progress_.position); }
  std::int64_t steps_per_epoch() const override;
  double images_per_second() const override;
  double input_share() const override { return train_feed_.reader().input_share(); }
  double input_stall() const override { return train_feed_.reader().stall_share(); }
  const MemoryReport& memory() const override { return report_; }
  double learning_rate() const override { return model_.learning_rate; }
  void set_learning_rate(double value) override { model_.learning_rate = value; }
  const History& history() const override { return progress_.history; }
  std::vector<std::string> log_names() const override;
  void request_stop(const std::string& reason) override;
  void interrupt(const std::string& reason) override;
  void warn(const std::string& text) override { call(&Callback::on_warning, text); }
  void save_weights(const std::string& path) override { save_model_weights(model_, path); }
  void save_checkpoint(const std::string& path) override { checkpoints_->save_to(path, pool_); }
  void keep_weights(const Callback& owner) override { checkpoints_->tensors().keep(owner); }
  void restore_weights(const Callback& owner) override { checkpoints_->tensors().restore(owner); }
  bool roll_back() override;

 private:
  template <typename Hook, typename... Args>
  void call(Hook hook, Args&&... args) {
    for (const CallbackHandle& callback : options_.callbacks)
      (callback.get()->*hook)(*this, args...);
  }
  bool restore();
  bool reached_step_limit() const;
  void run_epochs();
  void close_epoch();
  bool survives(const NumericsError& error);
  void train_epoch();
  void train_step(std::int64_t samples);
  void validate(Logs& logs);
  [[noreturn]] void explain_bad_loss();
  StepContext context(std::int64_t samples) const;
  void enter_residents(MemoryRequest& request) const;
  MemoryPlan plan(const MemoryRequest& request);
  void bind(MemoryPlan plan);
  void mind_memory();
  void change_plan(const BudgetChange& change);
  bool rebind(std::uint64_t budget);
  bool wait_for_memory();
  std::string describe_change(std::uint64_t before, bool grows) const;
  std::unique_ptr<Executable> bind(const Program& program, Plan plan);

  Model::Impl& model_;
  FitOptions options_;
  ThreadPool pool_;
  Program train_program_;
  Feed train_feed_;
  std::unique_ptr<Program> validation_program_;
  std::unique_ptr<Feed> validation_feed_;
  bool wants_copy_ = false;  // of the state for checkpoints, where that costs no time
  MemoryReport report_;
  Holding holding_;
  std::shared_ptr<HeadroomSource> headroom_;
  std::optional<MemoryWatch> watch_;
  std::shared_ptr<Arena> arena_;
  std::shared_ptr<SpillFile> spill_;
  std::unique_ptr<Executable> train_executable_, validation_executable_;
  Scores scores_, validation_scores_;
  TrainProgress progress_;
  std::string interruption_;  // why; no part of the state
  bool mid_epoch_ = false;    // the epoch goes on where a checkpoint left it
  bool rolled_back_ = false;
  bool trained_ = false;  // anything, since the last save of a finished training
  double epoch_started_ = 0, epoch_images_ = 0, epoch_seconds_ = 0;
  std::unique_ptr<Checkpointer> checkpoints_;
};

}  // namespace surefit
