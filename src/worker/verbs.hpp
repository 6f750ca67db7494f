// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace surefit::worker {

using Arguments = std::vector<std::string>;

int train_verb(const Arguments& arguments);
int evaluate_verb(const Arguments& arguments);
int predict_verb(const Arguments& arguments);
int summary_verb(const Arguments& arguments);
int bench_verb(const Arguments& arguments);
int plan_verb(const Arguments& arguments);
int model_verb(const Arguments& arguments);
int data_verb(const Arguments& arguments);
int inspect_verb(const Arguments& arguments);
int data_verb(const Arguments& arguments);

}  // namespace surefit::worker
