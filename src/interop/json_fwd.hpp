// SPDX-License-Identifier: Apache-2.0
// For headers that only name JSON: the library behind it is slow to compile.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace surefit {

using Json = nlohmann::json;
class JsonWhere;

}  // namespace surefit
