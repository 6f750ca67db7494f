// SPDX-License-Identifier: Apache-2.0
// What decides a training step without any data: for verbs that plan or time one.
#pragma once

#include <cstdint>
#include <string>

#include "worker/options.hpp"

namespace surefit::worker {

struct StepOptions {
  ModelOptions model;
  MemoryOptions memory;
  ConvolutionOptions convolutions;
  std::string optimizer = "adam", loss = "sparse_categorical_crossentropy";
  std::int64_t batch_size = 32, group = 0;
  int threads = 0;

  void add_to(CLI::App& app);
  Model compiled() const;  // throws ConfigError
  FitOptions fit() const;  // throws ConfigError
};

}  // namespace surefit::worker
