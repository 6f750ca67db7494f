// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "surefit/callbacks.hpp"

namespace surefit {

class Model;

// Keeps a run's directory: model.json, the run store's scalars at each epoch, events, and the
// heartbeat that the guard reads. Throws ConfigError when the directory already holds a run and
// `resume` is false: nothing is ever overwritten.
std::unique_ptr<Callback> make_recorder(const std::string& directory, const Model& model,
                                        const std::string& config_json, bool resume);

}  // namespace surefit
