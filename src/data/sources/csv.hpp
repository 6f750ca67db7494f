// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "surefit/image.hpp"

#include "data/sources/files.hpp"

namespace surefit::data {

// The table a CSV text describes; `file` names it in errors and says where relative paths begin.
// Throws DataError.
FileTable parse_csv_paths(std::string text, const std::string& file, const CsvOptions& options,
                          bool& labelled);

}  // namespace surefit::data
