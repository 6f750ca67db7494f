// SPDX-License-Identifier: Apache-2.0
#include "train/session.hpp"

#include <cmath>
#include <sched.h>

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

int default_threads() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

Feed::Feed(const Program& program, const Network& network, const Dataset& batches,
           data::ReaderOptions options, std::string name)
    : program_(program), reader_(batches, std::move(options)), name_(std::move(name)) {
  const auto& spec = reader_.sample_spec();
  const std::size_t wanted = program.inputs().size() + (program.labels() == kNone ? 0 : 1);
  if (spec.size() < wanted) {
    throw DataError(
        fmt::format("[{}] expected {} components per sample (inputs and labels); got {}", name_,
                    wanted, spec.size()));
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
  if (program.labels() != kNone) {
    const LabelSpec& labels = program.label_spec();
    const Dims& row = spec[program.inputs().size()].dims;
    const bool scalar = labels.shape.rank() == 0 && row.count() == 1;
    if (!scalar && !fits(row, labels.shape)) {
      throw DataError(
          fmt::format("[{}] the labels do not fit the loss; expected {} per sample; got {}", name_,
                      labels.shape.to_string(), row.to_string()));
    }
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
  for (std::size_t i = 0; i < program_.inputs().size(); ++i) add(program_.inputs()[i], i);
  if (program_.labels() != kNone) add(program_.labels(), program_.inputs().size());
  wanted_ = slots_.size();
  const auto bytes_of = [&](std::size_t i) {
    return spec[i].dims.count() * size_of(spec[i].dtype) * static_cast<std::size_t>(batch_);
  };
  std::size_t skipped = 0;
  for (std::size_t i = wanted_; i < spec.size(); ++i) skipped += bytes_of(i);
  skipped_.resize(skipped);
  std::span<std::byte> rest(skipped_);
  for (std::size_t i = wanted_; i < spec.size(); ++i) {
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
  const std::size_t pictures = program_.inputs().size();
  pool.parallel_for(static_cast<std::size_t>(samples), [&](std::size_t n, int) {
    for (std::size_t i = 0; i < wanted_; ++i) {
      const data::Slot& slot = slots_[i];
      const std::size_t bytes = slot.row_bytes();
      if (slot.dtype == DType::kFloat32) {
        const auto* values = reinterpret_cast<const float*>(slot.bytes.data() + n * bytes);
        if (!all_finite(values, bytes / sizeof(float))) {
          throw DataError(
              fmt::format("[{}] sample {}: {} contains NaN or Inf; expected finite numbers", name_,
                          ids_[n], i < pictures ? "the input" : "the label"));
        }
      } else if (i == pictures && program_.label_spec().classes > 0) {
        const auto* labels = reinterpret_cast<const std::int32_t*>(slot.bytes.data() + n * bytes);
        for (std::size_t at = 0; at < bytes / sizeof(std::int32_t); ++at) {
          if (labels[at] >= 0 && labels[at] < program_.label_spec().classes) continue;
          throw DataError(
              fmt::format("[{}] sample {}: label out of range; expected 0 to {}; got {}", name_,
                          ids_[n], program_.label_spec().classes - 1, labels[at]));
        }
      }
    }
  });
}

Scores::Scores(const std::vector<Metric>& metrics, const std::string& prefix) : metrics_(metrics) {
  logs_.emplace_back(prefix + "loss", 0.0);
  for (const Metric& metric : metrics) {
    logs_.emplace_back(prefix + metric.name(), 0.0);
    states_.emplace_back(metric.impl().state_size(), 0.0);
  }
}

void Scores::reset() {
  loss_sum_ = count_ = 0;
  for (auto& state : states_) std::fill(state.begin(), state.end(), 0.0);
}

void Scores::add(const Executable& executable, const Program& program, std::int64_t samples) {
  const Operand loss = executable.operand(program.loss());
  for (std::int64_t n = 0; n < samples; ++n) loss_sum_ += *loss.at<double>(n);
  count_ += static_cast<double>(samples);
  for (std::size_t m = 0; m < metrics_.size(); ++m) {
    const Operand values = executable.operand(program.metrics()[m]);
    const std::size_t width = values.sample_bytes / sizeof(float);
    for (std::int64_t n = 0; n < samples; ++n)
      metrics_[m].impl().update(states_[m], {values.at(n), width});
  }
}

const Logs& Scores::logs() {
  logs_[0].second = count_ > 0 ? loss_sum_ / count_ : 0;
  for (std::size_t m = 0; m < metrics_.size(); ++m)
    logs_[m + 1].second = metrics_[m].impl().result(states_[m]);
  return logs_;
}

}  // namespace surefit
