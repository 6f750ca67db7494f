// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.hpp"

namespace surefit {

// Layout conversion and gradient accumulation for the graph.
StructuralOps structural_ops();

}  // namespace surefit
