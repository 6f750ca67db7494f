// SPDX-License-Identifier: Apache-2.0
// From the exact training down the rungs that change bits, as far as memory asks for it and the
// user has consented.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "train/lossy.hpp"
#include "train/memory_plan.hpp"
#include "train/model_impl.hpp"

namespace surefit {

// One way to compute a training.
struct Candidate {
  Lossy lossy;
  std::optional<Optimizer> optimizer = {};  // in place of the model's
};
// In the order in which they are tried: the rungs that a resumed run has recorded, then the ladder.
// What the user has not consented to is left out.
std::vector<Candidate> candidates(const Model::Impl& model, const FitOptions& options,
                                  std::int64_t batch, const std::optional<std::string>& recorded);

Program training_program(const Model::Impl& model, const FitOptions& options,
                         const Candidate& candidate, const Weighting& weighting = {});
std::uint64_t slot_bytes(const Model::Impl& model, const Candidate& candidate);

// The rungs that the user has not consented to and the floor with each, for a refusal.
using RequestFor = std::function<MemoryRequest(const Program&, const Candidate&)>;
std::vector<Offer> offers(const Model::Impl& model, const FitOptions& options,
                          const RequestFor& request_for, const Weighting& weighting = {});

// A training planned without its data.
struct PlannedTraining {
  Candidate candidate;
  std::unique_ptr<Program> program;
  MemoryRequest request;
  MemoryPlan plan;
  MemoryReport report;
};
// Throws MemoryRefused.
PlannedTraining plan_training(const Model::Impl& model, const FitOptions& options,
                              bool with_floor = false);
// The largest batch that fits; 0 where not even one sample does.
std::int64_t largest_training_batch(const Model::Impl& model, const FitOptions& options);

}  // namespace surefit
