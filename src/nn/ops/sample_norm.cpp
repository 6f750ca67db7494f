// SPDX-License-Identifier: Apache-2.0
#include "nn/ops/sample_norm.hpp"

#include <cmath>

#include "nn/ops/kernel.hpp"
#include "nn/ops/sample_op.hpp"

namespace surefit {
namespace {

struct Index {
  std::int64_t row, column;
};

// Visits the elements of a sample in order.
template <typename Visit>
void for_elements(const SampleNorm& norm, const Visit& visit) {
  const auto count = static_cast<std::int64_t>(norm.type.stored_count());
  std::int64_t column = 0, row = 0;
  const std::int64_t group = norm.channels > 0 ? norm.channels / norm.rows : 0;
  for (std::int64_t i = 0; i < count; ++i) {
    visit(i, Index{norm.channels > 0 ? column / group : row, column});
    if (++column == norm.columns) {
      column = 0;
      ++row;
    }
  }
}

double per_row(const SampleNorm& norm) {
  return static_cast<double>(norm.type.stored_count()) / static_cast<double>(norm.rows);
}

// Output 1 keeps mean and 1 / deviation of every row for the backward pass.
void normalise(const SampleNorm& norm, const Task& task, std::int64_t n) {
  const float* x = task.inputs[0].at(n);
  float* y = task.outputs[0].at(n);
  double* statistics = task.outputs[1].at<double>(n);
  double* mean = statistics;
  double* inverse = statistics + norm.rows;
  std::fill_n(statistics, 2 * norm.rows, 0.0);
  const double share = 1 / per_row(norm);
  for_elements(norm, [&](std::int64_t i, Index at) { mean[at.row] += static_cast<double>(x[i]); });
  for (std::int64_t row = 0; row < norm.rows; ++row) mean[row] *= share;
  for_elements(norm, [&](std::int64_t i, Index at) {
    const double centred = static_cast<double>(x[i]) - mean[at.row];
    inverse[at.row] += centred * centred;
  });
  for (std::int64_t row = 0; row < norm.rows; ++row)
    inverse[row] = 1 / std::sqrt(inverse[row] * share + norm.epsilon);
  std::size_t next = 1;
  const float* gamma = norm.scale ? task.inputs[next++].at() : nullptr;
  const float* beta = norm.center ? task.inputs[next].at() : nullptr;
  for_elements(norm, [&](std::int64_t i, Index at) {
    double value = (static_cast<double>(x[i]) - mean[at.row]) * inverse[at.row];
    if (gamma != nullptr) value *= static_cast<double>(gamma[at.column]);
    if (beta != nullptr) value += static_cast<double>(beta[at.column]);
    y[i] = static_cast<float>(value);
  });
}

// Inputs: x, dy, statistics, [gamma].
// dx = (g - mean g - xhat mean(g xhat)) / deviation with g = dy gamma.
void backward_data(const SampleNorm& norm, const Task& task, std::int64_t n) {
  const float* x = task.inputs[0].at(n);
  const float* dy = task.inputs[1].at(n);
  const double* mean = task.inputs[2].at<double>(n);
  const double* inverse = mean + norm.rows;
  const float* gamma = norm.scale ? task.inputs[3].at() : nullptr;
  auto* sums = reinterpret_cast<double*>(task.thread_scratch);
  std::fill_n(sums, 2 * norm.rows, 0.0);
  const auto g = [&](std::int64_t i, std::int64_t column) {
    return static_cast<double>(dy[i]) *
           (gamma != nullptr ? static_cast<double>(gamma[column]) : 1.0);
  };
  const auto xhat = [&](std::int64_t i, std::int64_t row) {
    return (static_cast<double>(x[i]) - mean[row]) * inverse[row];
  };
  for_elements(norm, [&](std::int64_t i, Index at) {
    sums[at.row] += g(i, at.column);
    sums[norm.rows + at.row] += g(i, at.column) * xhat(i, at.row);
  });
  const double share = 1 / per_row(norm);
  float* dx = task.outputs[0].at(n);
  for_elements(norm, [&](std::int64_t i, Index at) {
    const double centred =
        g(i, at.column) - sums[at.row] * share - xhat(i, at.row) * sums[norm.rows + at.row] * share;
    dx[i] = static_cast<float>(centred * inverse[at.row]);
  });
}

// Inputs: x, dy, statistics. Outputs: the gradients of gamma and beta, summed sample by sample.
void backward_parameters(const SampleNorm& norm, const Task& task) {
  auto* sums = reinterpret_cast<double*>(task.thread_scratch);
  for (std::int64_t n = task.begin; n < task.end; ++n) {
    const float* x = task.inputs[0].at(n);
    const float* dy = task.inputs[1].at(n);
    const double* mean = task.inputs[2].at<double>(n);
    std::fill_n(sums, 2 * norm.columns, 0.0);
    for_elements(norm, [&](std::int64_t i, Index at) {
      const double centred = (static_cast<double>(x[i]) - mean[at.row]) * mean[norm.rows + at.row];
      sums[at.column] += static_cast<double>(dy[i]) * centred;
      sums[norm.columns + at.column] += static_cast<double>(dy[i]);
    });
    for (std::int64_t part = 0; part < 2; ++part) {
      float* to = task.outputs[static_cast<std::size_t>(part)].at();
      const double* from = sums + part * norm.columns;
      for (std::int64_t c = 0; c < norm.columns; ++c)
        to[c] = static_cast<float>(n == 0 ? from[c] : static_cast<double>(to[c]) + from[c]);
    }
  }
}

std::size_t doubles(std::int64_t count) {
  return static_cast<std::size_t>(count) * sizeof(double);
}

void gradient(const SampleNorm& norm, GradientBuilder& builder) {
  const ValueId dy = builder.output_gradient(0), x = builder.input(0),
                statistics = builder.output(1);
  const std::size_t gamma = 1, beta = norm.scale ? 2 : 1;
  if ((norm.scale && builder.wants(gamma)) || (norm.center && builder.wants(beta))) {
    const ValueType vector = vector_type(norm.columns);
    const auto gradients = builder.emit(
        make_reduction_op({.kind = "sample_norm_backward_parameters",
                           .outputs = {vector, vector},
                           .layout = Layout::kPlain,
                           .flops_per_sample = static_cast<double>(norm.type.stored_count()) * 5,
                           .thread_scratch_bytes = doubles(2 * norm.columns),
                           .run = [norm](const Task& task) { backward_parameters(norm, task); }}),
        {x, dy, statistics}, Category::kGradients);
    if (norm.scale) builder.set_input_gradient(gamma, gradients[0]);
    if (norm.center) builder.set_input_gradient(beta, gradients[1]);
  }
  if (!builder.wants(0)) return;
  std::vector<ValueId> inputs = {x, dy, statistics};
  if (norm.scale) inputs.push_back(builder.input(gamma));
  const auto run = [norm](const Task& task) {
    for (std::int64_t n = task.begin; n < task.end; ++n) backward_data(norm, task, n);
  };
  builder.set_input_gradient(
      0, builder.emit1(make_sample_op({.kind = "sample_norm_backward",
                                       .outputs = {norm.type},
                                       .layout = Layout::kPlain,
                                       .flops_per_element = 20,
                                       .thread_scratch_bytes = doubles(2 * norm.rows),
                                       .run = run}),
                       std::move(inputs)));
}

}  // namespace

std::shared_ptr<const Op> make_sample_norm_op(const SampleNorm& norm) {
  const auto run = [norm](const Task& task) {
    for (std::int64_t n = task.begin; n < task.end; ++n) normalise(norm, task, n);
  };
  return make_sample_op(
      {.kind = "sample_norm",
       .outputs = {norm.type, vector_type(2 * norm.rows, DType::kFloat64, true)},
       .layout = Layout::kPlain,
       .flops_per_element = 10,
       .run = run,
       .gradient = [norm](GradientBuilder& builder) { gradient(norm, builder); }});
}

}  // namespace surefit
