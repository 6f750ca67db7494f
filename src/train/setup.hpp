// SPDX-License-Identifier: Apache-2.0
// What fit, evaluate and predict set up alike from their options.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "surefit/model.hpp"

#include "engine/spill_file.hpp"
#include "train/memory_plan.hpp"
#include "train/session.hpp"

namespace surefit {

int threads_of(const FitOptions& options);
// As identities and config.json have them.
std::string_view name_of(Convolutions convolutions);
std::optional<Convolutions> convolutions_by_name(std::string_view name);
// A component behind inputs and labels is the weight of the sample.
Weighting weighting_of(const Dataset& data, const Network& network);
data::ReaderOptions feed_options(const FitOptions& options, int threads);
// For data that are gone through once, or beside the training data: no cache, and a budget of their
// own.
data::ReaderOptions once_options(const FitOptions& options, int threads);

// What to plan for, with the budget, but without data and parameters yet. Throws ConfigError on
// an unknown consent.
MemoryRequest memory_request(const FitOptions& options, const Graph& graph, std::int64_t batch,
                             int threads);
void enter_data(const Feed& feed, const std::string& name, MemoryRequest& request);
void enter_parameters(const ParameterStore& store, MemoryRequest& request);
void enter_parameters(const ParameterStore& store, std::uint64_t slot_bytes,
                      MemoryRequest& request);
MemoryReport report_of(const MemoryPlan& plan, const std::string& budget_source,
                       const Lossy& lossy = {});

// Room on disk for a plan that needs it, or nothing.
std::shared_ptr<SpillFile> spill_file_for(const MemoryPlan& plan, const FitOptions& options);

}  // namespace surefit
