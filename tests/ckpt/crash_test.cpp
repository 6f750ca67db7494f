// SPDX-License-Identifier: Apache-2.0
// Power cuts behind every operation of a sequence of saves, with all that a disk may have made of
// it.
#include <gtest/gtest.h>

#include "ckpt/model_env.hpp"
#include "ckpt/support.hpp"

namespace surefit {
namespace {

constexpr const char* kDirectory = "run/checkpoints";

struct Outcome {
  int states = 0;       // looked at
  int neither = 0;      // no checkpoint could be loaded
  int mixed = 0;        // loaded, but not what was saved at that step
  int broken_word = 0;  // older than one that had been reported as saved
  int newer = 0;        // the save under way when the power went was found complete
  std::string first;    // the first bad one
};

// Reads without looking at hashes, as if there were none.
bool looks_whole_unchecked(Env& env, const std::string& path, std::uint64_t step) {
  try {
    const SafetensorsFile file = SafetensorsFile::open(env, path);
    TestSource expected(step);
    for (std::size_t i = 0; i < test_tensors().size(); ++i) {
      const auto want = expected.tensor(i);
      std::vector<std::byte> got(want.size());
      file.read_into(test_tensors()[i].name, got);
      if (!std::equal(got.begin(), got.end(), want.begin())) return false;
    }
  } catch (const DataError&) {  // cut off: any reader would notice
  }
  return true;
}

struct Sabotage {
  bool no_sync = false, no_directory_sync = false, no_checksum = false;
};

Outcome crash_everywhere(const Sabotage& sabotage) {
  // Two generations are there before.
  ModelEnv before;
  {
    Saver saver(before, kDirectory, 2, test_tensors());
    for (const std::uint64_t step : {10, 20}) {
      TestSource source(step);
      EXPECT_TRUE(saver.save_now(step, test_state(step), source).saved);
    }
  }
  Outcome outcome;
  std::mt19937 generator(1);
  for (int crash = 0;; ++crash) {
    ModelEnv env(before.files());
    env.ignore_sync = sabotage.no_sync;
    env.ignore_directory_sync = sabotage.no_directory_sync;
    env.crash_behind(crash);
    std::uint64_t reported = 20;
    bool crashed = false;
    try {
      Saver saver(env, kDirectory, 2, test_tensors());
      for (const std::uint64_t step : {30, 40, 50}) {
        TestSource source(step);
        if (saver.save_now(step, test_state(step), source).saved) reported = step;
      }
    } catch (const Crash&) {
      crashed = true;
    }
    for (const ModelEnv::Files& files : env.after_crash(generator, 12)) {
      ++outcome.states;
      ModelEnv disk(files);
      const FoundCheckpoint found = find_newest(disk, kDirectory);
      const auto blame = [&](const char* what) {
        if (outcome.first.empty())
          outcome.first = std::string(what) + " behind operation " + std::to_string(crash) + ": " +
                          env.log().back();
      };
      if (!found.file) {
        ++outcome.neither;
        blame("nothing to load");
        continue;
      }
      if (!is_whole(*found.file)) ++outcome.mixed;
      if (found.file->step() < reported) {
        ++outcome.broken_word;
        blame("lost what was reported as saved");
      }
      outcome.newer += found.file->step() > reported;
      if (sabotage.no_checksum) {
        for (const std::uint64_t step : {30, 40, 50}) {
          const std::string path = std::string(kDirectory) + "/" + generation_name(step);
          if (disk.exists(path) && !looks_whole_unchecked(disk, path, step)) ++outcome.mixed;
        }
      }
    }
    const bool sabotaged = sabotage.no_sync || sabotage.no_directory_sync;
    if (!crashed ||
        (sabotaged && outcome.broken_word > 0 && (!sabotage.no_checksum || outcome.mixed > 0)))
      return outcome;  // a control is over when it has shown what it should
  }
}

TEST(CheckpointCrash, OldOrNewNeverNeitherNeverAMixture) {
  const Outcome outcome = crash_everywhere({});
  EXPECT_EQ(outcome.neither, 0) << outcome.first;
  EXPECT_EQ(outcome.mixed, 0);
  EXPECT_EQ(outcome.broken_word, 0) << outcome.first;
  // The model does something: many states, and some where the new one got through unreported.
  EXPECT_GT(outcome.states, 10000);
  EXPECT_GT(outcome.newer, 0);
}

// Negative controls: what the test would say if a step were left out.
TEST(CheckpointCrash, WithoutSyncSavedIsNotSaved) {
  EXPECT_GT(crash_everywhere({.no_sync = true}).broken_word, 0);
}
TEST(CheckpointCrash, WithoutDirectorySyncSavedIsNotSaved) {
  EXPECT_GT(crash_everywhere({.no_directory_sync = true}).broken_word, 0);
}
// Renamed before its data reached the disk, a file has the right size and wrong bytes: only hashes
// tell.
TEST(CheckpointCrash, WithoutChecksumsMixturesAreTaken) {
  EXPECT_GT(crash_everywhere({.no_sync = true, .no_checksum = true}).mixed, 0);
}

}  // namespace
}  // namespace surefit
