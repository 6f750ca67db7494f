// SPDX-License-Identifier: Apache-2.0
// What must be the same for a resumed run to end in the same bits.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "surefit/model.hpp"

#include "train/lossy.hpp"

namespace surefit {

using Identity = std::vector<std::pair<std::string, std::string>>;

// Model, optimizer, loss, metrics, seed, and numerics: instruction set, oneDNN, kinds of
// convolution, type of numbers.
Identity identity_of(const Model::Impl& model, const FitOptions& options, const Lossy& lossy);
// Rungs that changed bits; absent where there were none.
inline constexpr std::string_view kRungsKey = "rungs that change bits";

// One line per difference, empty where there is none.
std::vector<std::string> differences(const Identity& then, const Identity& now);

}  // namespace surefit
