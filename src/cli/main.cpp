// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <fmt/format.h>

#include "surefit/error.hpp"

#include "cli/verbs.hpp"

namespace surefit::cli {
namespace {

constexpr const char* kHelp = R"(surefit: CNN training that fits, survives and explains

usage: surefit VERB [options]        surefit VERB --help tells more

training
  train      train a model, under the guard
  evaluate   measure a trained model on data
  predict    run a trained model
  plan       what a training will hold in memory; the largest batch that fits
  data       look into a data set: classes, sizes, broken files, a contact sheet
  summary    layers, shapes and parameters of a model
  model      write a model as Keras's JSON
  bench      time training steps on one batch in memory
  inspect    what a checkpoint or weights file holds, verified

supervision
  run        run any command under the guard:  surefit run -- python3 train.py
  watch      watch a process that already runs:  surefit watch 1234
  doctor     check this machine before a long run
  runs       list runs; `surefit runs show RUN` prints one

surefit --version prints the version
)";

int dispatch(int count, char** words) {
  const std::string verb = count > 1 ? words[1] : "--help";
  const Arguments arguments(words + (count > 1 ? 2 : 1), words + count);
  if (verb == "--help" || verb == "-h" || verb == "help") {
    std::fputs(kHelp, stdout);
    return 0;
  }
  if (verb == "--version" || verb == "-V") {
    fmt::print("surefit {}\n", SUREFIT_VERSION);
    return 0;
  }
  if (verb == "run") return run_verb(arguments);
  if (verb == "watch") return watch_verb(arguments);
  if (verb == "doctor") return doctor_verb(arguments);
  if (verb == "runs") return runs_verb(arguments);
  if (verb.starts_with("-")) {
    throw ConfigError(
        fmt::format("[surefit] unknown option before the verb; expected `surefit VERB [options]`; "
                    "got '{}'; see surefit --help",
                    verb));
  }
  return worker_verb(verb, arguments);
}

}  // namespace
}  // namespace surefit::cli

int main(int count, char** words) {
  try {
    return surefit::cli::dispatch(count, words);
  } catch (const surefit::Error& error) {
    fmt::print(stderr, "surefit: {}\n", error.what());
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "surefit: [internal] {}; this is a bug, please report it\n", error.what());
    return static_cast<int>(surefit::ExitCode::kInternal);
  }
}
