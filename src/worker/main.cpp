// SPDX-License-Identifier: Apache-2.0
// surefit-train: every verb that needs the engine. Started by the front `surefit`.
#include <cstdio>
#include <exception>
#include <fmt/format.h>
#include <malloc.h>
#include <new>

#include "surefit/error.hpp"

#include "worker/verbs.hpp"

namespace {

int dispatch(int count, char** words) {
  namespace worker = surefit::worker;
  const std::string verb = count > 1 ? words[1] : "";
  const worker::Arguments arguments(words + (count > 1 ? 2 : 1), words + count);
  if (verb == "train") return worker::train_verb(arguments);
  if (verb == "evaluate") return worker::evaluate_verb(arguments);
  if (verb == "predict") return worker::predict_verb(arguments);
  if (verb == "summary") return worker::summary_verb(arguments);
  if (verb == "bench") return worker::bench_verb(arguments);
  if (verb == "plan") return worker::plan_verb(arguments);
  if (verb == "model") return worker::model_verb(arguments);
  if (verb == "data") return worker::data_verb(arguments);
  if (verb == "inspect") return worker::inspect_verb(arguments);
  if (verb == "data") return worker::data_verb(arguments);
  throw surefit::ConfigError(fmt::format("[surefit] unknown verb '{}'; see surefit --help", verb));
}

}  // namespace

int main(int count, char** words) {
  // Large temporaries go back to the system at once. Left alone, malloc keeps what it was given
  // once, and no plan could foresee how much that is.
  ::mallopt(M_MMAP_THRESHOLD, 256 << 10);
  ::mallopt(M_TRIM_THRESHOLD, 256 << 10);
  ::mallopt(M_ARENA_MAX, 1);
  try {
    return dispatch(count, words);
  } catch (const surefit::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(error.exit_code());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr,
               "error: [memory] the system refused an allocation; close other programs or use a "
               "smaller model\n");
    return static_cast<int>(surefit::ExitCode::kSystem);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: [internal] {}; please report this\n", error.what());
    return static_cast<int>(surefit::ExitCode::kInternal);
  }
}
