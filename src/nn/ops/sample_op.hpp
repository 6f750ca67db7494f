// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/autodiff.hpp"
#include "graph/op.hpp"

namespace surefit {

// A node over single samples that has nothing more to say than these: most data movers and
// elementwise nodes.
struct SampleOpParts {
  std::string_view kind;  // a literal
  std::vector<ValueType> outputs;
  // Layout wanted of every batched input; none: what comes.
  std::optional<Layout> layout = {};
  int in_place_input = kNone;
  double flops_per_element = 1;  // of output 0
  std::size_t thread_scratch_bytes = 0;
  std::function<void(const Task&)> run;
  std::function<void(GradientBuilder&)> gradient = {};  // none: nothing flows back
};

std::shared_ptr<const Op> make_sample_op(SampleOpParts parts);

// A sum over samples in one block: gradients of small parameters. Overwrites when task.begin == 0,
// adds otherwise.
struct ReductionOpParts {
  std::string_view kind;  // a literal
  std::vector<ValueType> outputs;
  std::optional<Layout> layout = {};
  double flops_per_sample = 1;
  std::size_t thread_scratch_bytes = 0;
  std::function<void(const Task&)> run;
};

std::shared_ptr<const Op> make_reduction_op(ReductionOpParts parts);

}  // namespace surefit
