// SPDX-License-Identifier: Apache-2.0
#include "train/ladder.hpp"

#include <algorithm>

#include "train/setup.hpp"

namespace surefit {
namespace {

// Where no batch is there to choose a ghost for: few samples, but enough for statistics.
constexpr std::int64_t kUsualGhost = 8;

std::optional<Candidate> candidate_of(const Model::Impl& model, const Lossy& lossy) {
  Candidate candidate{lossy};
  if (lossy.factored_optimizer) {
    candidate.optimizer = factored_optimizer(model.compiled->optimizer);
    // A model that a fit() before has given Adafactor has what the rung would give it.
    if (!candidate.optimizer && model.factored) candidate.optimizer = model.compiled->optimizer;
    if (!candidate.optimizer) return std::nullopt;
  }
  return candidate;
}

MemoryRequest request_without_data(const Model::Impl& model, const FitOptions& options,
                                   const Program& program, const Candidate& candidate) {
  MemoryRequest request =
      memory_request(options, program.graph(), options.batch_size, threads_of(options));
  enter_parameters(model.parameters, slot_bytes(model, candidate), request);
  return request;
}

}  // namespace

std::vector<Candidate> candidates(const Model::Impl& model, const FitOptions& options,
                                  std::int64_t batch, const std::optional<std::string>& recorded) {
  std::vector<Lossy> ladder = lossy_ladder(options, batch);
  if (recorded) {
    const Lossy before = parse_rungs(*recorded, options);
    if (Consents(options.allow).cover(before) && !(before == ladder.front()))
      ladder.insert(ladder.begin(), before);
  }
  std::vector<Candidate> list;
  for (Lossy lossy : ladder) {
    lossy.factored_optimizer = lossy.factored_optimizer || model.factored;
    if (const auto candidate = candidate_of(model, lossy)) list.push_back(*candidate);
  }
  return list;
}

Program training_program(const Model::Impl& model, const FitOptions& options,
                         const Candidate& candidate, const Weighting& weighting) {
  Compiled compiled = *model.compiled;
  if (candidate.optimizer) compiled.optimizer = *candidate.optimizer;
  return Program(model.network, &compiled, Program::Purpose::kTrain, options.convolutions,
                 weighting, candidate.lossy);
}

std::uint64_t slot_bytes(const Model::Impl& model, const Candidate& candidate) {
  const ParameterStore& store = model.parameters;
  return candidate.optimizer ? store.slot_bytes_of(candidate.optimizer->impl())
                             : store.slot_bytes();
}

std::vector<Offer> offers(const Model::Impl& model, const FitOptions& options,
                          const RequestFor& request_for, const Weighting& weighting) {
  const Consents consents(options.allow);
  const Lossy plain = lossy_by_policy(options);
  std::vector<Offer> list;
  const auto add = [&](const std::string& way, const Lossy& lossy, Convolutions convolutions) {
    const auto candidate = candidate_of(model, lossy);
    if (!candidate) return;
    FitOptions other = options;
    other.convolutions = convolutions;
    const Program program = training_program(model, other, *candidate, weighting);
    const MemoryRequest request = request_for(program, *candidate);
    if (outside_bytes(request) < request.budget) list.push_back({way, floor_bytes(request)});
  };
  if (options.convolutions == Convolutions::kWinograd)
    add("--exact-conv", plain, Convolutions::kExact);
  Lossy lossy = plain;
  lossy.storage = Half::kFloat16;
  if (!consents.half && !plain.by_policy)
    add("--allow f16-activations", lossy, options.convolutions);
  lossy = plain;
  lossy.ghost_batch = kUsualGhost;
  if (!consents.ghost) add("--allow ghost-batch-norm", lossy, options.convolutions);
  lossy = plain;
  lossy.factored_optimizer = true;
  if (!consents.factored) add("--allow factored-optimizer", lossy, options.convolutions);
  return list;
}

PlannedTraining plan_training(const Model::Impl& model, const FitOptions& options,
                              bool with_floor) {
  model.require_compiled("memory_plan");
  const RequestFor request_for = [&](const Program& program, const Candidate& candidate) {
    return request_without_data(model, options, program, candidate);
  };
  PlannedTraining planned;
  const auto attempt = [&](const Candidate& candidate) {
    planned.candidate = candidate;
    planned.program = std::make_unique<Program>(training_program(model, options, candidate));
    planned.request = request_for(*planned.program, candidate);
  };
  const std::vector<Candidate> ways = candidates(model, options, options.batch_size, std::nullopt);
  std::optional<MemoryPlan> plan;
  for (const Candidate& candidate : ways) {
    attempt(candidate);
    if ((plan = find_plan(planned.request, with_floor))) break;
  }
  if (!plan) {
    attempt(ways.front());
    planned.request.offers = [&] { return offers(model, options, request_for); };
    refuse(planned.request);
  }
  planned.plan = std::move(*plan);
  planned.report = report_of(planned.plan, planned.request.budget_source, planned.candidate.lossy);
  return planned;
}

std::int64_t largest_training_batch(const Model::Impl& model, const FitOptions& options) {
  model.require_compiled("largest_batch");
  const Consents consents(options.allow);
  // Nothing that changes bits, and everything that may.
  Lossy all = lossy_by_policy(options);
  std::vector<Lossy> ways = {all};
  if (consents.half && !all.by_policy) all.storage = Half::kFloat16;
  if (consents.ghost) all.ghost_batch = kUsualGhost;
  if (consents.factored && factored_optimizer(model.compiled->optimizer))
    all.factored_optimizer = true;
  if (!(all == ways.front())) ways.push_back(all);
  std::int64_t largest = 0;
  for (const Lossy& lossy : ways) {
    const auto candidate = candidate_of(model, lossy);
    const Program program = training_program(model, options, *candidate);
    largest =
        std::max(largest, largest_batch(request_without_data(model, options, program, *candidate)));
  }
  return largest;
}

}  // namespace surefit
