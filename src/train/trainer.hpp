// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "surefit/model.hpp"

#include "engine/onednn.hpp"
#include "train/session.hpp"

namespace surefit {

// One call of fit(): plans, binds, runs the epochs.
class Trainer final : public TrainState {
 public:
  // `train` and the validation data are datasets of batches.
  Trainer(Model::Impl& model, const Dataset& train, const FitOptions& options);
  ~Trainer() override;

  History run();
  const Plan& plan() const { return train_executable_->plan(); }

  std::int64_t epoch() const override { return epoch_; }
  std::int64_t epochs() const override { return options_.epochs; }
  std::int64_t step() const override { return static_cast<std::int64_t>(model_.iterations); }
  std::int64_t steps_per_epoch() const override;
  double images_per_second() const override;
  double input_share() const override { return train_feed_.reader().input_share(); }
  double input_stall() const override { return train_feed_.reader().stall_share(); }
  double learning_rate() const override { return model_.learning_rate; }
  void set_learning_rate(double value) override { model_.learning_rate = value; }
  void request_stop(const std::string& reason) override;

 private:
  void train_epoch();
  void train_step(std::int64_t samples);
  void validate(Logs& logs);
  [[noreturn]] void explain_bad_loss();
  StepContext context(std::int64_t samples) const;
  std::unique_ptr<Executable> bind(const Program& program, Plan plan);

  Model::Impl& model_;
  FitOptions options_;
  ThreadPool pool_;
  Program train_program_;
  Feed train_feed_;
  std::unique_ptr<Program> validation_program_;
  std::unique_ptr<Feed> validation_feed_;
  std::shared_ptr<Arena> arena_;
  std::unique_ptr<Executable> train_executable_, validation_executable_;
  Scores scores_, validation_scores_;
  std::int64_t epoch_ = 0, steps_done_ = 0;
  double epoch_started_ = 0, epoch_images_ = 0, epoch_seconds_ = 0;
  bool stop_ = false;
  std::string stop_reason_;
};

// Loss and metrics of `batches` without training.
Logs evaluate_model(Model::Impl& model, const Dataset& batches, const FitOptions& options);
// Predictions for every sample, in order.
Tensor predict_model(Model::Impl& model, const Dataset& batches, const FitOptions& options);

}  // namespace surefit
