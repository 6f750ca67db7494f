// SPDX-License-Identifier: Apache-2.0
// Hooks into training, as Keras's callbacks: they read the logs, may ask to stop or change the
// learning rate, and never touch tensors. They run in list order on the training thread; an
// exception ends training cleanly.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace surefit {

// Named numbers in order: loss, metrics, val_loss, ...
using Logs = std::vector<std::pair<std::string, double>>;
const double* find_log(const Logs& logs, const std::string& name);

// What a callback may see and change of the run.
class TrainState {
 public:
  virtual ~TrainState() = default;
  virtual std::int64_t epoch() const = 0;            // from 0
  virtual std::int64_t epochs() const = 0;           // asked for
  virtual std::int64_t step() const = 0;             // optimizer steps done, over all epochs
  virtual std::int64_t steps_per_epoch() const = 0;  // 0 where only running tells
  virtual double images_per_second() const = 0;      // of the current epoch so far
  // Of the time since the first step: spent on preparing batches, and of that with cores idle (0
  // ... 1).
  virtual double input_share() const { return 0; }
  virtual double input_stall() const { return 0; }
  virtual double learning_rate() const = 0;
  virtual void set_learning_rate(double value) = 0;
  virtual void request_stop(const std::string& reason) = 0;
};

class Callback {
 public:
  virtual ~Callback() = default;
  virtual void on_train_begin(TrainState&) {}
  virtual void on_epoch_begin(TrainState&) {}
  // Logs are the means over the epoch so far.
  virtual void on_train_batch_end(TrainState&, const Logs&) {}
  virtual void on_test_begin(TrainState&) {}
  virtual void on_epoch_end(TrainState&, const Logs&) {}
  virtual void on_train_end(TrainState&) {}
};

}  // namespace surefit
