// SPDX-License-Identifier: Apache-2.0
#include "train/session.hpp"

#include <cmath>

#include "base/check.hpp"

namespace surefit {
namespace {

// (28, 28) is accepted for (28, 28, 1): a missing last axis of one.
bool fits(const Dims& row, const Shape& wanted) {
  const auto have = row.values();
  const auto want = wanted.dims();
  if (have.size() != want.size() && !(have.size() + 1 == want.size() && want.back() == 1))
    return false;
  return std::equal(have.begin(), have.end(), want.begin());
}

bool all_finite(const float* values, std::size_t count) {
  // x - x is 0 for finite x and NaN otherwise; the sum stays in vector registers.
  float sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += values[i] - values[i];
  return sum == 0;
}

}  // namespace

Feed::Feed(const Program& program, const Network& network, const Dataset& batches,
           data::ReaderOptions options, std::string name)
    : program_(program), reader_(batches, std::move(options)), name_(std::move(name)) {
  const auto& spec = reader_.sample_spec();
  components_ = program.inputs();
  components_.insert(components_.end(), program.labels().begin(), program.labels().end());
  if (program.sample_weights() != kNone) components_.push_back(program.sample_weights());
  if (spec.size() < components_.size()) {
    throw DataError(
        fmt::format("[{}] expected {} components per sample (inputs and labels); got {}", name_,
                    components_.size(), spec.size()));
  }
  for (std::size_t i = 0; i < program.inputs().size(); ++i) {
    const Shape& shape = program.graph().value(program.inputs()[i]).type.shape;
    if (!fits(spec[i].dims, shape)) {
      const auto call = static_cast<std::size_t>(network.input_calls()[i]);
      throw DataError(fmt::format(
          "[{}] the samples do not fit the model's input '{}'; expected {}; got {}", name_,
          network.layers()[static_cast<std::size_t>(network.calls()[call].layer)].name,
          shape.to_string(), spec[i].dims.to_string()));
    }
  }
  for (std::size_t i = 0; i < program.labels().size(); ++i) {
    const LabelSpec& labels = program.label_specs()[i];
    const Dims& row = spec[program.inputs().size() + i].dims;
    const bool scalar = labels.shape.rank() == 0 && row.count() == 1;
    if (!scalar && !fits(row, labels.shape)) {
      throw DataError(
          fmt::format("[{}] the labels do not fit the loss; expected {} per sample; got {}", name_,
                      labels.shape.to_string(), row.to_string()));
    }
  }
  if (program.sample_weights() != kNone && spec[components_.size() - 1].dims.count() != 1) {
    throw DataError(
        fmt::format("[{}] expected one number per sample behind the labels, its weight; got {}",
                    name_, spec[components_.size() - 1].dims.to_string()));
  }
  batch_ = static_cast<std::int64_t>(reader_.batch_size());
  if (batch_ == 0)
    throw ConfigError(
        fmt::format("[{}] the batch size is not known; end the dataset with batch(n)", name_));
}

void Feed::bind(const Executable& executable) {
  slots_.clear();
  const auto& spec = reader_.sample_spec();
  const auto add = [&](ValueId id, std::size_t component) {
    const ValueType& type = executable.graph().value(id).type;
    const Operand memory = executable.operand(id);
    SUREFIT_CHECK(memory.base != nullptr, "input '{}' is not read by anyone",
                  executable.graph().value(id).name);
    slots_.push_back(
        {type.dtype, spec[component].dims,
         std::span(memory.base, memory.sample_bytes * static_cast<std::size_t>(batch_))});
  };
  for (std::size_t i = 0; i < components_.size(); ++i) add(components_[i], i);
  const auto bytes_of = [&](std::size_t i) {
    return spec[i].dims.count() * size_of(spec[i].dtype) * static_cast<std::size_t>(batch_);
  };
  std::size_t skipped = 0;
  for (std::size_t i = components_.size(); i < spec.size(); ++i) skipped += bytes_of(i);
  skipped_.resize(skipped);
  std::span<std::byte> rest(skipped_);
  for (std::size_t i = components_.size(); i < spec.size(); ++i) {
    slots_.push_back({spec[i].dtype, spec[i].dims, rest.first(bytes_of(i))});
    rest = rest.subspan(bytes_of(i));
  }
  ids_.assign(static_cast<std::size_t>(batch_), 0);
}

std::int64_t Feed::next(ThreadPool& pool) {
  const auto samples = static_cast<std::int64_t>(reader_.fill(slots_, ids_, pool));
  if (samples > 0) check(samples, pool);
  return samples;
}

void Feed::check(std::int64_t samples, ThreadPool& pool) const {
  pool.parallel_for(static_cast<std::size_t>(samples), [&](std::size_t n, int) {
    for (std::size_t i = 0; i < components_.size(); ++i) check_component(i, n);
  });
}

void Feed::check_component(std::size_t component, std::size_t n) const {
  const data::Slot& slot = slots_[component];
  const std::size_t bytes = slot.row_bytes(), first_label = program_.inputs().size();
  if (slot.dtype == DType::kFloat32) {
    const auto* values = reinterpret_cast<const float*>(slot.bytes.data() + n * bytes);
    if (all_finite(values, bytes / sizeof(float))) return;
    throw DataError(fmt::format(
        "[{}] sample {}: {} contains NaN or Inf; expected finite numbers", name_, ids_[n],
        component < first_label                              ? "the input"
        : component < first_label + program_.labels().size() ? "the label"
                                                             : "the weight"));
  }
  const std::int64_t classes =
      component >= first_label ? program_.label_specs()[component - first_label].classes : 0;
  if (classes == 0) return;
  const auto* labels = reinterpret_cast<const std::int32_t*>(slot.bytes.data() + n * bytes);
  for (std::size_t at = 0; at < bytes / sizeof(std::int32_t); ++at) {
    if (labels[at] >= 0 && labels[at] < classes) continue;
    throw DataError(fmt::format("[{}] sample {}: label out of range; expected 0 to {}; got {}",
                                name_, ids_[n], classes - 1, labels[at]));
  }
}

Scores::Scores(const std::vector<Target>& targets, const std::string& prefix) {
  logs_.emplace_back(prefix + "loss", 0.0);
  for (const Target& target : targets) {
    if (target.name.empty()) continue;
    logs_.emplace_back(prefix + target.name + "_loss", 0.0);
    loss_sums_.push_back(0);
  }
  for (const Target& target : targets) {
    const std::string stem = prefix + (target.name.empty() ? "" : target.name + "_");
    for (const Metric& metric : target.metrics) {
      logs_.emplace_back(stem + metric.name(), 0.0);
      states_.push_back({&metric.impl(), std::vector<double>(metric.impl().state_size(), 0.0)});
    }
  }
}

void Scores::reset() {
  loss_sum_ = count_ = 0;
  std::fill(loss_sums_.begin(), loss_sums_.end(), 0.0);
  for (auto& [metric, numbers] : states_) std::fill(numbers.begin(), numbers.end(), 0.0);
}

void Scores::add(const Executable& executable, const Program& program, std::int64_t samples) {
  const auto sum = [&](ValueId id, double& to) {
    const Operand loss = executable.operand(id);
    for (std::int64_t n = 0; n < samples; ++n) to += *loss.at<double>(n);
  };
  sum(program.loss(), loss_sum_);
  for (std::size_t i = 0; i < loss_sums_.size(); ++i)
    sum(program.target_losses()[i], loss_sums_[i]);
  count_ += static_cast<double>(samples);
  for (std::size_t m = 0; m < states_.size(); ++m) {
    const Operand values = executable.operand(program.metrics()[m]);
    const std::size_t width = values.sample_bytes / sizeof(float);
    for (std::int64_t n = 0; n < samples; ++n)
      states_[m].metric->update(states_[m].numbers, {values.at(n), width});
  }
}

const Logs& Scores::logs() {
  const double share = count_ > 0 ? 1 / count_ : 0;
  std::size_t at = 0;
  logs_[at++].second = count_ > 0 ? loss_sum_ / count_ : 0;
  for (const double sum : loss_sums_) logs_[at++].second = sum * share;
  for (const State& state : states_) logs_[at++].second = state.metric->result(state.numbers);
  return logs_;
}

}  // namespace surefit
