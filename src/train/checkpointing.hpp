// SPDX-License-Identifier: Apache-2.0
// Checkpoints of one call of fit(): gathers the state, decides when to save, puts a state back.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/saver.hpp"
#include "ckpt/schedule.hpp"
#include "interop/json_fwd.hpp"
#include "run/run_lock.hpp"
#include "train/identity.hpp"
#include "train/session.hpp"
#include "train/state_tensors.hpp"

namespace surefit {

// Where a training stands: what a checkpoint keeps besides tensors, sums and callbacks.
struct TrainProgress {
  std::int64_t epoch = 0;
  std::uint64_t position = 0;   // batches of this epoch done
  std::int64_t steps_done = 0;  // of this training, against max_steps
  bool stop = false;            // the epoch is closed and training ends
  bool finished = false;
  std::int64_t epochs = 0;  // asked for when this was saved
  History history;
};

// The rungs that a run to be resumed has used, by its newest valid checkpoint; nothing where there
// is none.
std::optional<std::string> recorded_rungs(const FitOptions& options);

class Checkpointer {
 public:
  // Nothing is committed or written yet.
  Checkpointer(Model::Impl& model, const FitOptions& options, const Lossy& lossy, Feed& feed,
               Scores& scores, TrainProgress& progress);
  ~Checkpointer();
  // Locks the run. Refuses one that has checkpoints unless options.resume.
  void open();

  // Commits all memory: with a copy of the state training goes on while it is written. May be
  // called again to change that; then it waits for a save under way.
  void commit(bool copy);
  // Bytes held besides the arena: the copy being written, and weights that callbacks keep.
  std::size_t staging_bytes() const { return tensors_.staging_bytes(); }
  std::size_t staging_bytes(bool copy) const { return saves_ ? tensors_.staging_bytes(copy) : 0; }
  std::size_t kept_bytes() const { return tensors_.kept_bytes(); }

  // Puts the newest valid checkpoint back: model, feed, scores, progress and callbacks. False where
  // there is none. Throws ConfigError with the differences when it belongs to something else.
  bool restore(TrainState& state);

  void begin();
  void after_step(TrainState& state, ThreadPool& pool);
  void after_epoch(TrainState& state, ThreadPool& pool);
  // Now, and done when it returns.
  void save_now(TrainState& state, ThreadPool& pool);
  void save_to(const std::string& path, ThreadPool& pool);
  // Reports of saves that are over.
  void report(TrainState& state);

  bool saves() const { return saves_; }
  StateTensors& tensors() { return tensors_; }

 private:
  void write_text();
  void save(TrainState& state, ThreadPool& pool);
  void tell(TrainState& state, const SaveReport& report, double cost_s);
  void restore_callbacks(TrainState& state, const Json& list, const JsonWhere& where);
  std::vector<std::string> differences_from(const Json& json, const JsonWhere& where);

  Model::Impl& model_;
  const FitOptions& options_;
  Feed& feed_;
  Scores& scores_;
  TrainProgress& progress_;
  bool saves_;
  std::unique_ptr<RunLock> lock_;
  StateTensors tensors_;
  Identity identity_;
  std::string fixed_members_;  // of the state: those that never change
  std::string text_;
  SaveSchedule schedule_;
  double stall_s_ = 0;  // of the save under way
  std::unique_ptr<Saver> saver_;
};

}  // namespace surefit
