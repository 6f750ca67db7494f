// SPDX-License-Identifier: Apache-2.0
// Options of a run's life: its directory, checkpoints, resume, deadline, callbacks.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "surefit/model.hpp"

namespace surefit::worker {

struct RunOptions {
  std::string run, checkpoint_every = "auto", deadline;
  std::int64_t keep = 2;
  bool resume = false, adapt = false, no_staging = false;
  std::vector<std::string> callbacks;

  void add_to(CLI::App& app);
  // Chooses a directory where none is given: the newest run to resume, or a new one named after the
  // model. Empty where nothing is to be kept.
  void choose_directory(const std::string& model);
  // Computes with the instructions that the run began with, where this machine could do better. To
  // be called before anything is computed.
  void pin_instruction_set() const;
  // Those that a run to be resumed began with: what is the default may change from one version to
  // the next.
  Convolutions recorded_convolutions() const;
  void apply(FitOptions& fit) const;
  double deadline_s() const;  // 0: none

 private:
  std::string recorded(const std::string& key) const;
};

// `surefit train --resume` without a model: the words of the run's own command line, with those
// given put over them.
std::vector<std::string> with_recorded_arguments(const std::vector<std::string>& words);
// The words to record: without those that say how to continue.
std::vector<std::string> arguments_to_record(const std::vector<std::string>& words);

}  // namespace surefit::worker
