// SPDX-License-Identifier: Apache-2.0
// Writes checkpoints beside the training: one thread, one checkpoint at a time. No fault of the
// disk ends a training; each is reported, and the next save tries again with a new file.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ckpt/generations.hpp"

namespace surefit {

struct SaveReport {
  std::uint64_t step = 0;
  bool saved = false;
  std::string problem;      // why not, or what was done to make room
  bool not_finite = false;  // refused because of its contents
  std::uint64_t bytes = 0;
  double seconds = 0;      // from beginning to end
  double cpu_seconds = 0;  // of the thread that wrote
};

class Saver {
 public:
  // `tensors` are those of every checkpoint. Throws SystemError when the directory cannot be made.
  Saver(Env& env, const std::string& directory, int keep, std::vector<SafetensorsSpec> tensors);
  ~Saver();  // waits for a save under way
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  bool busy() const;
  // Begins to write. `source` must stay as it is until busy() is false; `state` is swapped with an
  // old one, so that neither side allocates. Waits first where a save is under way.
  void start(std::uint64_t step, std::string& state, TensorSource& source);
  // Writes on the caller's thread.
  SaveReport save_now(std::uint64_t step, const std::string& state, TensorSource& source);
  // Each report once, when its save is over.
  std::optional<SaveReport> take_report();
  // Until no save is under way.
  void wait();

  // The string that the first start() gives back.
  void reserve_state(std::string state);

  const std::string& directory() const { return generations_.directory(); }

 private:
  void run();
  SaveReport write(std::uint64_t step, std::string_view state, TensorSource& source);
  void write_once(std::uint64_t step, std::string_view state, TensorSource& source,
                  SaveReport& report);

  Env& env_;
  std::vector<SafetensorsSpec> tensors_;
  Generations generations_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false, stop_ = false;
  std::uint64_t step_ = 0;
  std::string state_;
  TensorSource* source_ = nullptr;
  std::optional<SaveReport> report_;
  std::thread thread_;
};

}  // namespace surefit
