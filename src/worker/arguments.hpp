// SPDX-License-Identifier: Apache-2.0
// Command-line words to things: models, data, optimizers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "surefit/data.hpp"
#include "surefit/model.hpp"

namespace surefit {

// "adam", "adamw:learning_rate=1e-3,weight_decay=0.01".
struct NamedArguments {
  std::string name;
  ConfigMap arguments;
};
NamedArguments parse_named(const std::string& text, const std::string& what);

Shape parse_input_shape(const std::string& text);  // "32x32x3"

// A zoo name or a .json file.
Model make_model(const std::string& model, const std::string& input, std::int64_t classes);

// The cross-entropy (or error) that fits the model's output and the labels.
Loss default_loss(const Model& model, const Dataset& samples);

// What the command line says; where it is silent, what the model's file was compiled with; else
// adam, the default loss and accuracy where there are classes.
struct ScoreArguments {
  std::string optimizer = {}, loss = {};
  std::vector<std::string> metrics = {};
};
CompileOptions compile_options(const Model& model, const Dataset& samples,
                               const ScoreArguments& given);

}  // namespace surefit
