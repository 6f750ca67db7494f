// SPDX-License-Identifier: Apache-2.0
// The verbs the front knows itself; everything else is the worker's.
#pragma once

#include <string>
#include <vector>

namespace surefit::cli {

using Arguments = std::vector<std::string>;  // behind the verb

int run_verb(const Arguments& arguments);
int watch_verb(const Arguments& arguments);
int doctor_verb(const Arguments& arguments);
int runs_verb(const Arguments& arguments);

// Hands `surefit VERB ...` to libexec/surefit/surefit-train: under the guard for train, by exec for
// the others.
int worker_verb(const std::string& verb, const Arguments& arguments);

}  // namespace surefit::cli
