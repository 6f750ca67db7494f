// SPDX-License-Identifier: Apache-2.0
// Where runs live: `runs/<name>-<time>` for trainings; the user's state directory for foreign
// commands, which must not litter the place they were started in.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace surefit {

// A path that does not exist yet: `<parent>/<name>-<time>`, with a number added where that is
// taken.
std::string fresh_run_directory(const std::string& parent, std::string_view name);

// $SUREFIT_STATE, $XDG_STATE_HOME/surefit, ~/.local/state/surefit or a directory of this user under
// the temp directory: the first that can be written. Empty where none can.
std::string state_directory();

struct RunSummary {
  std::string path;
  double changed = 0;     // newest of its files, Unix time
  bool training = false;  // has config.json or run.sqlite: not only a black box
};
// Directories under `parent` that hold a run, newest first; empty where there is none.
std::vector<RunSummary> list_runs(const std::string& parent);
// The path of the newest that is a training; empty where there is none.
std::string newest_training_run(const std::string& parent);

}  // namespace surefit
