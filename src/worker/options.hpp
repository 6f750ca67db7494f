// SPDX-License-Identifier: Apache-2.0
// Options that several verbs share, and the one way to parse them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "interop/idx.hpp"
#include "worker/arguments.hpp"

namespace surefit::data {
struct OpenedData;
}

namespace surefit::worker {

struct ModelOptions {
  std::string model, input;
  std::int64_t classes = 0;
  void add_to(CLI::App& app);
  Model make() const { return make_model(model, input, classes); }
};

// What a verb does with data decides which of the options make sense.
enum class DataUse { kTrain, kEvaluate, kPredict, kInspect };

struct DataOptions {
  std::string data, validation, resize, augment;
  std::string cache = "auto", workers = "auto", bad_samples = "fail", input_memory;
  std::int64_t batch_size = 32;
  int threads = 0;
  void add_to(CLI::App& app, DataUse use);

  // Pictures as the command line describes them and labels, one sample an element: bytes become
  // floats in 0 ... 1. Augmented when training.
  Dataset train_samples() const;
  Dataset validation_samples() const;
  Dataset test_samples() const;                                       // of `data`
  data::OpenedData open(const std::string& spec, Split split) const;  // as they lie in the source
  Dataset augmented(const Dataset& samples) const;
  // How they are fed to the model. Skipped samples are listed in `run`/quarantine.tsv when there is
  // a run.
  InputOptions input(const std::string& run = {}, bool json = false) const;

 private:
  Dataset fixed_size(const std::string& spec, Split split) const;
};

// How convolutions are computed; of every verb that runs or describes a model.
struct ConvolutionOptions {
  std::optional<Convolutions> chosen;
  void add_to(CLI::App& app);
  Convolutions value() const { return chosen.value_or(kDefaultConvolutions); }
};

// How much memory there is, and what may be done to stay within it.
struct MemoryOptions {
  std::string memory = "auto", spill_to, policy;
  std::vector<std::string> allow;
  void add_to(CLI::App& app);
  void apply(FitOptions& fit) const;  // throws ConfigError
};

// The same error with the source that the user gave instead of "[data]".
DataError name_source(const DataError& error, const DataOptions& options);
template <typename Work>
auto naming_sources(const DataOptions& options, Work&& work) {
  try {
    return work();
  } catch (const DataError& error) {
    throw name_source(error, options);
  }
}

// Refuses a file that cannot be written, before any work goes into what it would hold. Throws
// SystemError.
void check_writable(const std::string& path, const std::string& option);

// Parses; returns an exit code when the program should end here (--help or a usage error).
std::optional<int> parse(CLI::App& app, std::vector<std::string> arguments);

}  // namespace surefit::worker
