// SPDX-License-Identifier: Apache-2.0
// The checkpoints of one run: `step-NNNNNNNN.safetensors` in one directory, each a generation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/checkpoint.hpp"

namespace surefit {

std::string generation_name(std::uint64_t step);
// The step in such a name; none for other files.
std::optional<std::uint64_t> generation_step(const std::string& name);

struct SkippedFile {
  std::string path;
  std::string reason;
};

struct FoundCheckpoint {
  std::optional<CheckpointFile> file;
  std::vector<SkippedFile> skipped;  // newer ones that are not valid, newest first
};
// The newest valid generation. A directory that is missing has none.
FoundCheckpoint find_newest(Env& env, const std::string& directory);

// Which generations are known to be good, and which may go.
class Generations {
 public:
  // Takes stock of the directory: removes what earlier writers left half done, and checks
  // generations, newest first, until two good ones are known.
  Generations(Env& env, std::string directory, int keep);

  const std::string& directory() const { return directory_; }
  std::string path_of(std::uint64_t step) const;
  // `step` has just been written and synced.
  void add(std::uint64_t step);
  // Removes all but the newest `keep` good ones, and whatever is not good. Nothing goes while fewer
  // than two good generations are there. Returns the number of files removed; files that cannot be
  // removed stay for the next time.
  int prune() { return prune_to(keep_); }
  int prune_to(int keep);
  const std::vector<std::uint64_t>& good() const { return good_; }  // ascending

 private:
  void remove_leftovers();  // of writers that did not finish

  Env& env_;
  std::string directory_;
  int keep_;
  std::vector<std::uint64_t> good_;
};

}  // namespace surefit
