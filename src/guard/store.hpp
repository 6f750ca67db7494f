// SPDX-License-Identifier: Apache-2.0
// Where a supervised run leaves its traces: the black box at once, the run store and obituary when
// there is something to tell. A directory that cannot be written costs the traces, never the run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "guard/obituary.hpp"
#include "run/blackbox.hpp"
#include "run/run_store.hpp"

namespace surefit::guard {

class Store {
 public:
  void open(const std::string& directory, const std::vector<std::string>& command,
            bool own_trainer);
  // What black boxes of earlier, unfinished runs tell; to be shown at the start.
  const std::vector<std::string>& previous() const { return previous_; }
  const std::string& directory() const { return directory_; }
  BlackBox* box() { return box_.get(); }

  void memory(const BlackBoxSample&
                  sample);  // gathered, written every few seconds once the run store exists
  void event(const std::string& kind, const std::string& detail_json);
  void keep(Obituary& obituary);
  void end_well();
  void discard();  // nothing was started: no trace
  void end_badly(const std::string& ending);

 private:
  void look_back(const std::string& path, const std::string& here);
  bool open_run_store();
  void flush();

  std::string directory_;
  bool own_trainer_ = false;
  bool temporary_ = false;  // ours to remove after a clean end
  std::vector<std::string> previous_;
  std::unique_ptr<BlackBox> box_;
  std::unique_ptr<RunStore> run_store_;
  bool run_store_failed_ = false;
  std::vector<MemoryRow> rows_;
  double last_row_ = 0, last_flush_ = 0;
};

// One black box as lines for people; empty where it ended well.
std::vector<std::string> tell_black_box(const std::string& path, const BlackBoxContent& content);

}  // namespace surefit::guard
