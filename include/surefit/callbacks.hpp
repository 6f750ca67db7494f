// SPDX-License-Identifier: Apache-2.0
// Hooks into training, as Keras's callbacks: they read the logs, may ask to stop, save or change
// the learning rate, and never touch tensors. They run in list order on the training thread; an
// exception ends training cleanly. What a callback must remember over a crash it names in
// visit_state(); then a resumed run decides as one that never stopped.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "surefit/config.hpp"

namespace surefit {

// Named numbers in order: loss, metrics, val_loss, ...
using Logs = std::vector<std::pair<std::string, double>>;
const double* find_log(const Logs& logs, const std::string& name);

// Per epoch: the number of each log, "loss", "accuracy", "val_loss", ...
struct History {
  std::vector<std::string> names;
  std::vector<std::vector<double>> epochs;  // epochs[e][i] belongs to names[i]
  std::string stop_reason = {};  // why training ended before its last epoch; empty where it did not
  // Stopped from outside (signal, deadline, memory taken away); resume goes on from there.
  bool interrupted = false;
  // What was computed otherwise than in plain float32, by policy or by consent: "f16-activations",
  // "ghost-batch-norm:8", "factored-optimizer", "mixed_float16".
  std::vector<std::string> lossy = {};
  const std::vector<double> series(const std::string& name) const;
};

class Callback;

// What the process holds while it trains, known before the first step.
struct MemoryReport {
  std::uint64_t predicted_bytes = 0;  // the measured peak stays below
  std::uint64_t budget_bytes = 0;
  std::string budget_source;  // "--memory", "the control group ..."
  std::uint64_t full_speed_bytes = 0;
  std::uint64_t floor_bytes = 0;  // the least with the same bits; 0 where nobody asked
  std::uint64_t arena_bytes = 0;
  double slowdown = 1;  // against full speed, by the planner's constants
  std::vector<std::pair<std::string, std::uint64_t>> categories;
  std::vector<std::pair<std::string, std::uint64_t>> rungs;  // taken, with the bytes they save
  std::string peak;                // layer and operation at the fullest moment
  std::vector<std::string> lossy;  // as History::lossy
  std::string numbers = "float32";

  std::string to_text() const;  // one line
};

// Something that is in memory at one moment of a training step.
struct LiveTensor {
  std::string layer, what;
  std::string category;  // as in MemoryReport::categories
  std::uint64_t bytes = 0;
  std::string from, until;  // operations of the step; empty: always there
};

// What a callback may see and change of the run.
class TrainState {
 public:
  virtual ~TrainState() = default;
  virtual std::int64_t epoch() const = 0;            // from 0
  virtual std::int64_t epochs() const = 0;           // asked for
  virtual std::int64_t step() const = 0;             // optimizer steps done, over all epochs
  virtual std::int64_t epoch_step() const = 0;       // of them, in this epoch
  virtual std::int64_t steps_per_epoch() const = 0;  // 0 where only running tells
  virtual double images_per_second() const = 0;      // of the current epoch so far
  // Of the time since the first step: spent on preparing batches, and of that with cores idle (0
  // ... 1).
  virtual double input_share() const { return 0; }
  virtual double input_stall() const { return 0; }
  // The plan: bytes of the process by category, and what it was chosen for.
  virtual const MemoryReport& memory() const = 0;
  // Everything in memory at the given moment of a training step, by layer; the bytes add up to what
  // is predicted at any moment, since all memory stays committed.
  static constexpr std::int64_t kFullestMoment = -1;
  virtual std::vector<LiveTensor> live_tensors(std::int64_t moment = kFullestMoment) const = 0;
  virtual std::int64_t moments() const = 0;  // operations of a step
  virtual double learning_rate() const = 0;
  virtual void set_learning_rate(double value) = 0;
  virtual const History& history() const = 0;  // of the epochs so far; at an epoch's end with it
  virtual std::vector<std::string> log_names() const = 0;  // that an epoch's end will have
  // Ends training: the epoch is closed as usual, with validation.
  virtual void request_stop(const std::string& reason) = 0;
  // Ends training behind this step, as if it had not been asked for more; a checkpoint keeps what
  // is needed to go on.
  virtual void interrupt(const std::string& reason) = 0;

  // Tells every callback, and so the user. For what does not stop a training: a file that cannot be
  // written, say.
  virtual void warn(const std::string& text) = 0;

  // Safetensors, written beside `path` and renamed over it.
  virtual void save_weights(const std::string& path) = 0;
  virtual void save_checkpoint(
      const std::string& path) = 0;  // weights, optimizer and all other state
  // One copy of the weights per callback whose keeps_weights() is true; it is part of the
  // checkpoints.
  virtual void keep_weights(const Callback& owner) = 0;
  virtual void restore_weights(const Callback& owner) = 0;
  // Back to the newest checkpoint of the run. False where there is none.
  virtual bool roll_back() = 0;
};

// A checkpoint was written, or could not be.
struct CheckpointEvent {
  std::int64_t step = 0;
  bool saved = false;
  std::string problem = {};
  std::uint64_t bytes = 0;
  double seconds = 0;  // from beginning to end, mostly beside the training
  double cost_s = 0;   // taken from the training: the time it waited, and CPU time of the writer
};

// Reads a callback's members out, or puts them back: one list serves both ways.
class StateVisitor {
 public:
  virtual ~StateVisitor() = default;
  virtual void field(std::string_view name, bool& value) = 0;
  virtual void field(std::string_view name, std::int64_t& value) = 0;
  virtual void field(std::string_view name, double& value) = 0;
  virtual void field(std::string_view name, std::string& value) = 0;
};

// What to do about a loss that is not finite; the weights are still those from before the step.
enum class OnBadLoss { kFail, kStop, kRollBack };

class Callback {
 public:
  virtual ~Callback() = default;
  virtual void on_train_begin(TrainState&) {}
  // Behind on_train_begin and visit_state, where training goes on from a checkpoint. Within an
  // epoch, on_epoch_begin is not called again.
  virtual void on_resume(TrainState&) {}
  virtual void on_epoch_begin(TrainState&) {}
  // Logs are the means over the epoch so far.
  virtual void on_train_batch_end(TrainState&, const Logs&) {}
  virtual void on_test_begin(TrainState&) {}
  virtual void on_test_batch_end(TrainState&) {}
  virtual void on_epoch_end(TrainState&, const Logs&) {}
  // Not called when training was interrupted.
  virtual void on_train_end(TrainState&) {}
  virtual void on_checkpoint(TrainState&, const CheckpointEvent&) {}
  // Others took memory away or gave it back: training goes on with the plan that state.memory() now
  // tells of, same bits. The text says so to people.
  virtual void on_plan_change(TrainState&, const std::string&) {}
  // Something the user should know: a damaged checkpoint was skipped, the disk is full.
  virtual void on_warning(TrainState&, const std::string&) {}
  virtual OnBadLoss on_bad_loss(TrainState&, const std::string&) { return OnBadLoss::kFail; }

  // Names the state in checkpoints; callbacks without state have no name.
  virtual std::string_view state_name() const { return {}; }
  virtual void visit_state(StateVisitor&) {}
  virtual bool keeps_weights() const { return false; }
};
using CallbackPtr = std::shared_ptr<Callback>;

// "epoch", or a number of steps.
struct SaveFrequency {
  std::int64_t steps = 0;  // 0: at the end of each epoch
  constexpr SaveFrequency(std::int64_t count = 0)
      : steps(count) {}             // NOLINT(google-explicit-constructor)
  SaveFrequency(const char* text);  // NOLINT(google-explicit-constructor)
};
ConfigValue to_config(const SaveFrequency& value);
void from_config(const ConfigValue& value, const std::string& where, SaveFrequency& out);

// Saves weights, or the whole state, at the end of epochs or every `save_freq` steps. `filepath`
// may hold {epoch} (from 1) and the names of logs, with Python's formats:
// "w-{epoch:02d}-{val_loss:.2f}.safetensors".
struct ModelCheckpoint {
  std::string filepath = "";
  std::string monitor = "val_loss";
  bool save_best_only = false;
  bool save_weights_only = false;  // false: a whole checkpoint, with optimizer and progress
  std::string mode = "auto";       // min, max; auto: max for accuracies, else min
  SaveFrequency save_freq = "epoch";
  std::optional<double> initial_value_threshold = {};  // better than this to be saved at all
  static constexpr std::string_view kClass = "ModelCheckpoint";
  static void fields(auto& field) {
    using S = ModelCheckpoint;
    field("filepath", &S::filepath);
    field("monitor", &S::monitor);
    field("save_best_only", &S::save_best_only);
    field("save_weights_only", &S::save_weights_only);
    field("mode", &S::mode);
    field("save_freq", &S::save_freq);
    field("initial_value_threshold", &S::initial_value_threshold);
  }
};
CallbackPtr make_callback(const ModelCheckpoint&);

// Stops when the monitored number has not become better by more than `min_delta` for `patience`
// epochs.
struct EarlyStopping {
  std::string monitor = "val_loss";
  double min_delta = 0;
  std::int64_t patience = 0;
  std::string mode = "auto";
  std::optional<double> baseline = {};  // waiting begins anew only when better than this, too
  bool restore_best_weights = false;
  std::int64_t start_from_epoch = 0;
  static constexpr std::string_view kClass = "EarlyStopping";
  static void fields(auto& field) {
    using S = EarlyStopping;
    field("monitor", &S::monitor);
    field("min_delta", &S::min_delta);
    field("patience", &S::patience);
    field("mode", &S::mode);
    field("baseline", &S::baseline);
    field("restore_best_weights", &S::restore_best_weights);
    field("start_from_epoch", &S::start_from_epoch);
  }
};
CallbackPtr make_callback(const EarlyStopping&);

// Multiplies the learning rate by `factor` when the monitored number has not become better for
// `patience` epochs.
struct ReduceLROnPlateau {
  std::string monitor = "val_loss";
  double factor = 0.1;
  std::int64_t patience = 10;
  std::string mode = "auto";
  double min_delta = 1e-4;
  std::int64_t cooldown = 0;  // epochs to wait after a change
  double min_lr = 0;
  static constexpr std::string_view kClass = "ReduceLROnPlateau";
  static void fields(auto& field) {
    using S = ReduceLROnPlateau;
    field("monitor", &S::monitor);
    field("factor", &S::factor);
    field("patience", &S::patience);
    field("mode", &S::mode);
    field("min_delta", &S::min_delta);
    field("cooldown", &S::cooldown);
    field("min_lr", &S::min_lr);
  }
};
CallbackPtr make_callback(const ReduceLROnPlateau&);

// Sets the learning rate at the beginning of each epoch: by `schedule`, or without one by
// multiplying it by `factor` from epoch `start_from_epoch` (from 0) on.
struct LearningRateScheduler {
  std::function<double(std::int64_t epoch, double learning_rate)> schedule = {};
  double factor = 1;
  std::int64_t start_from_epoch = 0;
  static constexpr std::string_view kClass = "LearningRateScheduler";
  static void fields(auto& field) {
    using S = LearningRateScheduler;
    field("factor", &S::factor);
    field("start_from_epoch", &S::start_from_epoch);
  }
};
CallbackPtr make_callback(const LearningRateScheduler&);

// A loss that is not finite stops training without an error; the weights are those before the bad
// step. With `rollbacks` training goes on from the newest checkpoint instead, that many times, at a
// learning rate multiplied by `factor` each time. Which checkpoint is newest depends on the clock,
// unless checkpoints are asked for by steps.
struct TerminateOnNaN {
  std::int64_t rollbacks = 0;
  double factor = 0.5;
  static constexpr std::string_view kClass = "TerminateOnNaN";
  static void fields(auto& field) {
    field("rollbacks", &TerminateOnNaN::rollbacks);
    field("factor", &TerminateOnNaN::factor);
  }
};
CallbackPtr make_callback(const TerminateOnNaN&);

// One line per epoch: epoch (from 0), then the logs by name. A resumed run leaves the same file as
// one that never stopped.
struct CSVLogger {
  std::string filename = "";
  std::string separator = ",";
  bool append = false;  // behind what the file holds already
  static constexpr std::string_view kClass = "CSVLogger";
  static void fields(auto& field) {
    field("filename", &CSVLogger::filename);
    field("separator", &CSVLogger::separator);
    field("append", &CSVLogger::append);
  }
};
CallbackPtr make_callback(const CSVLogger&);

// Progress on stderr: a live bar on a terminal, one line per epoch elsewhere.
struct ProgbarLogger {
  static constexpr std::string_view kClass = "ProgbarLogger";
  static void fields(auto&) {}
};
CallbackPtr make_callback(const ProgbarLogger&);

// Process memory at the begin and end of each epoch against the plan, and its trend: memory that
// grows from epoch to epoch is a leak, and is named with its size per epoch.
struct MemoryMonitor {
  bool verbose = true;            // a line per epoch on stderr
  double leak_megabytes = 1;      // per epoch, over at least three epochs, to be called a leak
  std::int64_t live_tensors = 0;  // list so many of the largest at the fullest moment of a step
  static constexpr std::string_view kClass = "MemoryMonitor";
  static void fields(auto& field) {
    using S = MemoryMonitor;
    field("verbose", &S::verbose);
    field("leak_megabytes", &S::leak_megabytes);
    field("live_tensors", &S::live_tensors);
  }
};
CallbackPtr make_callback(const MemoryMonitor&);

// Functions of your own. They keep no state over a crash.
struct LambdaCallback {
  std::function<void(TrainState&)> on_train_begin = {}, on_epoch_begin = {}, on_train_end = {};
  std::function<void(TrainState&, const Logs&)> on_train_batch_end = {}, on_epoch_end = {};
  static constexpr std::string_view kClass = "LambdaCallback";
};
CallbackPtr make_callback(const LambdaCallback&);

using BuiltinCallbacks = TypeList<ModelCheckpoint, MemoryMonitor, EarlyStopping, ReduceLROnPlateau,
                                  LearningRateScheduler, TerminateOnNaN, CSVLogger, ProgbarLogger>;

// Any callback: a spec, or an object of yours, which must live until fit() returns.
class CallbackHandle {
 public:
  CallbackHandle(Callback* yours)
      : callback_(CallbackPtr(), yours) {}  // NOLINT(google-explicit-constructor)
  CallbackHandle(CallbackPtr shared)
      : callback_(std::move(shared)) {}  // NOLINT(google-explicit-constructor)
  template <typename Spec>
  requires requires(const Spec& spec) { make_callback(spec); }
  CallbackHandle(const Spec& spec)
      : callback_(make_callback(spec)) {}  // NOLINT(google-explicit-constructor)
  // By Keras's name, also in snake_case: "early_stopping". Throws ConfigError.
  static CallbackHandle from_config(const std::string& name, const ConfigMap& config);

  Callback* get() const { return callback_.get(); }
  Callback* operator->() const { return callback_.get(); }

 private:
  CallbackPtr callback_;
};

}  // namespace surefit
