// SPDX-License-Identifier: Apache-2.0
// Keras 3's own model JSON (model.to_json()), read and written.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "surefit/layers.hpp"

#include "interop/json_fwd.hpp"
#include "train/model_impl.hpp"

namespace surefit {

struct KerasModel {
  std::string name;
  bool sequential = false;
  std::vector<Symbol> inputs, outputs;
  // Of a model that was compiled with a loss.
  std::optional<CompileOptions> compile;
};

// Throws DataError for what is not Keras's JSON and ConfigError for models that cannot be built.
KerasModel model_from_keras_json(const std::string& text, const std::string& file);
std::string model_to_keras_json(const Model::Impl& model);

// Its "compile_config", for a model of so many outputs.
std::optional<CompileOptions> compile_from_keras_json(const Json& json, std::size_t outputs,
                                                      const JsonWhere& whole);
void check_keras_dtype(const Json& config, const JsonWhere& where);

}  // namespace surefit
