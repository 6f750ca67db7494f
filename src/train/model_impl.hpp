// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "surefit/model.hpp"

#include "train/network.hpp"
#include "train/parameters.hpp"
#include "train/program.hpp"

namespace surefit {

// What a model owns between calls: layers, parameters, optimizer slots and the count of steps.
class Model::Impl {
 public:
  Impl(const std::vector<Symbol>& inputs, const std::vector<Symbol>& outputs,
       std::string model_name, bool sequential)
      : name(std::move(model_name)),
        is_sequential(sequential),
        network(inputs, outputs),
        parameters(network.parameters()) {
    parameters.initialize(0);
  }

  const Compiled& require_compiled(const char* what) const;

  std::string name;
  bool is_sequential;
  Network network;
  ParameterStore parameters;
  std::optional<Compiled> compiled;
  double learning_rate = 0;
  // The rate of the next step where the optimizer has a schedule.
  void follow_schedule();
  // Puts the moving mean of the weights in their place, where the optimizer keeps one.
  void finish_averaging();
  bool factored = false;           // a fit() has put Adafactor in the place of Adam, by consent
  std::uint64_t iterations = 0;    // optimizer steps since compile
  std::uint64_t compilations = 0;  // slots move with each
};

}  // namespace surefit
