// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.hpp"
#include "optim/optimizers/update.hpp"

namespace surefit {
namespace {

// A parameter as Keras's Adafactor sees it, matrices of its last two axes, and as it is gone
// through: in lines of the packing, which hold one or several whole rows. Chunks of lines are
// shared out to tasks; they are fixed by the shape, and so is the order of every sum.
struct Grid {
  Grid(const Shape& shape, const Packing* packing) {
    const auto count = static_cast<std::int64_t>(shape.count());
    factored = shape.rank() >= 2;
    columns = factored ? shape[shape.rank() - 1] : count;
    rows = factored ? shape[shape.rank() - 2] : 1;
    matrices = count / (rows * columns);
    line = packing != nullptr ? static_cast<std::int64_t>(packing->line_length()) : columns;
    SUREFIT_CHECK(line % columns == 0 && rows * columns % line == 0,
                  "lines of {} in matrices of {} x {}", line, rows, columns);
    lines = rows * columns / line;
    // Few chunks, since each has sums of all columns; but none so small that it is not worth a
    // task.
    constexpr std::int64_t kMostChunks = 16, kLeastElements = 1 << 15;
    chunk = std::max((lines + kMostChunks - 1) / kMostChunks, (kLeastElements + line - 1) / line);
    chunks = (lines + chunk - 1) / chunk;
  }
  bool factored = true;
  std::int64_t matrices = 1, rows = 1, columns = 1;
  std::int64_t line = 1;    // elements of a line
  std::int64_t lines = 1;   // of a matrix
  std::int64_t chunk = 1;   // lines of a chunk
  std::int64_t chunks = 1;  // of a matrix
};

// What the phases tell each other, in the node's scratch.
struct Sums {
  Sums(const Grid& grid, std::byte* memory) {
    auto* next = reinterpret_cast<double*>(memory);
    const auto take = [&](std::int64_t count) { return std::exchange(next, next + count); };
    row = take(grid.matrices * grid.rows);
    column = take(grid.matrices * grid.columns);
    column_parts = take(grid.matrices * grid.chunks * grid.columns);
    weights = take(grid.matrices * grid.chunks);
    direction = take(grid.matrices * grid.chunks);
  }
  static std::size_t bytes(const Grid& grid) {
    const std::int64_t chunks = grid.matrices * grid.chunks;
    return static_cast<std::size_t>(grid.matrices * (grid.rows + grid.columns) +
                                    chunks * (grid.columns + 2)) *
           sizeof(double);
  }
  double* row;           // sums of squared gradients, then 1 / sqrt(r / mean r)
  double* column;        // 1 / sqrt(c)
  double* column_parts;  // by chunk: sums of squared gradients
  double* weights;       // by chunk: sum of squared weights
  double* direction;     // by chunk: sum of squared u
};

struct AdafactorNode {
  Adafactor spec;
  OptimizerOptions options;
  UpdateTarget target;
  Grid grid;
  std::size_t slots() const { return (grid.factored ? 2 : 1) + (options.average ? 1 : 0); }
  bool finishes() const { return options.average || target.constraint; }
};

constexpr int kSums = 0, kMoments = 1, kNorm = 2, kStep = 3, kFinish = 4;

class AdafactorKernel final : public Kernel {
 public:
  AdafactorKernel(AdafactorNode node, std::int64_t stored)
      : node_(std::move(node)), grid_(node_.grid), stored_(stored) {}

  void run(const Task& task) const override {
    const Sums sums(grid_, task.shared_scratch);
    if (task.phase == kSums) return add_up(task, sums);
    if (task.phase == kNorm || task.phase == kStep) return move(task, sums);
    if (task.phase == kFinish) return finish(task);
    if (task.block < grid_.matrices) moments(task, sums, task.block);
  }
  std::string implementation() const override { return "own"; }

 private:
  static std::int64_t step_of(const Task& task) {
    return static_cast<std::int64_t>(task.step->step) + 1;
  }
  float scale(const Task& task) const {
    const double factor = node_.target.factor ? *task.inputs[2 + node_.slots()].at<double>() : 1.0;
    return static_cast<float>(factor / task.step->loss_scale);
  }
  // A line of Keras's elements: where they lie, or gathered in `room`.
  float* read(const Task& task, std::size_t input, std::int64_t line, float* room) const {
    float* memory = task.inputs[input].at();
    if (!node_.target.packing) return memory + line * grid_.line;
    node_.target.packing->read_line(static_cast<std::size_t>(line), memory, room);
    return room;
  }
  void write(const Task& task, std::int64_t line, const float* values) const {
    if (!node_.target.packing) return;
    node_.target.packing->write_line(static_cast<std::size_t>(line), values, task.inputs[0].at());
  }
  // visit(matrix, line, first row of the line) for the lines of the task's chunk.
  template <typename Visit>
  void for_each_line(const Task& task, const Visit& visit) const {
    const std::int64_t matrix = task.block / grid_.chunks,
                       begin = task.block % grid_.chunks * grid_.chunk,
                       end = std::min(grid_.lines, begin + grid_.chunk);
    for (std::int64_t line = begin; line < end; ++line) {
      const std::int64_t at = matrix * grid_.lines + line;
      visit(matrix, at, at * (grid_.line / grid_.columns));
    }
  }

  void add_up(const Task& task, const Sums& sums) const {
    double* columns = sums.column_parts + task.block * grid_.columns;
    std::fill_n(columns, grid_.columns, 0.0);
    auto* room = reinterpret_cast<float*>(task.thread_scratch);
    const auto decay = static_cast<float>(node_.options.weight_decay) *
                       static_cast<float>(task.step->learning_rate);
    double squares = 0;
    for_each_line(task, [&](std::int64_t, std::int64_t line, std::int64_t row) {
      float* weights = read(task, 0, line, room);
      for (std::int64_t i = 0; i < grid_.line; ++i) {
        weights[i] -= weights[i] * decay;
        squares += static_cast<double>(weights[i]) * static_cast<double>(weights[i]);
      }
      if (decay != 0) write(task, line, weights);
      const float* gradient = read(task, 1, line, room);
      for (std::int64_t at = 0; at < grid_.line; at += grid_.columns, ++row) {
        sums.row[row] = kernels::table().optimizers.row_squares(
            gradient + at, scale(task), node_.spec.epsilon_1, grid_.columns, columns);
      }
    });
    sums.weights[task.block] = squares;
  }

  // The moving means r over columns and c over rows; their product divided by the mean of r stands
  // for the moving mean of g^2. A vector has that itself: one row of columns.
  void moments(const Task& task, const Sums& sums, std::int64_t matrix) const {
    const double fresh = kernels::power_of_step(step_of(task), node_.spec.beta_2_decay);
    const auto moved = [&](float& mean, double sum, std::int64_t count) {
      mean = static_cast<float>((1 - fresh) * static_cast<double>(mean) +
                                fresh * (sum / static_cast<double>(count)));
      return static_cast<double>(mean);
    };
    double* rows = sums.row + matrix * grid_.rows;
    if (grid_.factored) {
      float* r = task.inputs[2].at() + matrix * grid_.rows;
      double mean = 0;
      for (std::int64_t i = 0; i < grid_.rows; ++i)
        mean += moved(r[i], rows[i], grid_.columns) / static_cast<double>(grid_.rows);
      for (std::int64_t i = 0; i < grid_.rows; ++i)
        rows[i] = 1 / std::sqrt(static_cast<double>(r[i]) / mean);
    } else {
      rows[0] = 1;
    }
    float* c = task.inputs[grid_.factored ? 3 : 2].at() + matrix * grid_.columns;
    double* columns = sums.column + matrix * grid_.columns;
    for (std::int64_t i = 0; i < grid_.columns; ++i) {
      double sum = 0;
      for (std::int64_t chunk = 0; chunk < grid_.chunks; ++chunk)
        sum += sums.column_parts[(matrix * grid_.chunks + chunk) * grid_.columns + i];
      columns[i] = 1 / std::sqrt(moved(c[i], sum, grid_.rows));
    }
  }

  // First the norm of u = g / sqrt(v), then the step along it.
  void move(const Task& task, const Sums& sums) const {
    auto* room = reinterpret_cast<float*>(task.thread_scratch);
    const bool stepping = task.phase == kStep;
    const double length = stepping ? step_length(task, sums) : 0;
    double squares = 0;
    for_each_line(task, [&](std::int64_t matrix, std::int64_t line, std::int64_t row) {
      const double* columns = sums.column + matrix * grid_.columns;
      const float* gradient = read(task, 1, line, room);
      float* weights = stepping ? read(task, 0, line, room + grid_.line) : nullptr;
      for (std::int64_t at = 0; at < grid_.line; at += grid_.columns, ++row) {
        const double across = sums.row[grid_.factored ? row : 0];
        if (stepping) {
          kernels::table().optimizers.row_step(weights + at, gradient + at, scale(task),
                                               length * across, columns, grid_.columns);
        } else {
          squares += kernels::table().optimizers.row_norm(gradient + at, scale(task), across,
                                                          columns, grid_.columns);
        }
      }
      if (stepping) write(task, line, weights);
    });
    if (!stepping) sums.direction[task.block] = squares;
  }

  // max(epsilon_2, rms(w)) rho / max(1, rms(u) / clip_threshold).
  double step_length(const Task& task, const Sums& sums) const {
    const auto rms = [&](const double* parts) {
      double sum = 0;
      for (std::int64_t i = 0; i < grid_.matrices * grid_.chunks; ++i) sum += parts[i];
      return std::sqrt(sum / static_cast<double>(grid_.matrices * grid_.rows * grid_.columns));
    };
    const double rho =
        std::min(task.step->learning_rate, 1 / std::sqrt(static_cast<double>(step_of(task))));
    const double clip = rms(sums.direction) / node_.spec.clip_threshold;
    // Written so that a norm that is no number reaches the weights, as in Keras.
    return std::max(node_.spec.epsilon_2, rms(sums.weights)) * rho / (clip <= 1 ? 1 : clip);
  }

  void finish(const Task& task) const {
    const std::int64_t blocks = grid_.matrices * grid_.chunks;
    std::int64_t begin = stored_ * task.block / blocks, end = stored_ * (task.block + 1) / blocks;
    if (node_.target.constraint) {
      if (task.block > 0) return;
      begin = 0, end = stored_;
      node_.target.constraint(task.inputs[0].at());
    }
    if (node_.options.average) {
      average(node_.options, step_of(task), task.inputs[0].at() + begin,
              task.inputs[1 + node_.slots()].at() + begin, end - begin);
    }
  }

  AdafactorNode node_;
  Grid grid_;
  std::int64_t stored_;
};

class AdafactorOp final : public Op {
 public:
  explicit AdafactorOp(AdafactorNode node) : node_(std::move(node)) {}
  std::string_view kind() const override { return "adafactor"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override { return {}; }
  std::vector<int> mutated_inputs() const override {
    std::vector<int> positions = {0};
    for (std::size_t slot = 0; slot < node_.slots(); ++slot)
      positions.push_back(static_cast<int>(slot) + 2);
    return positions;
  }
  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    const Grid& grid = node_.grid;
    OpTraits traits;
    traits.role = BatchRole::kBatchFree;
    traits.blocks = static_cast<int>(grid.matrices * grid.chunks);
    traits.phases = node_.finishes() ? kFinish + 1 : kStep + 1;
    traits.thread_scratch_bytes = 2 * static_cast<std::size_t>(grid.line) * sizeof(float);
    traits.shared_scratch_bytes = Sums::bytes(grid);
    traits.flops_per_step = static_cast<double>(inputs[0].stored_count()) * 20;
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    return std::make_unique<AdafactorKernel>(node_,
                                             static_cast<std::int64_t>(inputs[0].stored_count()));
  }

 private:
  AdafactorNode node_;
};

class AdafactorOptimizer final : public OptimizerImpl {
 public:
  explicit AdafactorOptimizer(const Adafactor& spec) : spec_(spec), options_(options_of(spec)) {}
  const LearningRate& learning_rate() const override { return options_.learning_rate; }
  Clipping clipping() const override { return options_.clipping; }
  std::vector<SlotSpec> slots(const Shape& parameter) const override {
    std::vector<SlotSpec> slots;
    if (const std::size_t rank = parameter.rank(); rank >= 2) {
      std::vector<std::int64_t> rows, columns;
      for (std::size_t axis = 0; axis < rank; ++axis) {
        if (axis != rank - 1) rows.push_back(parameter[axis]);
        if (axis != rank - 2) columns.push_back(parameter[axis]);
      }
      slots = {{"row", Shape(rows)}, {"column", Shape(columns)}};
    } else {
      slots = {{"velocity", parameter}};
    }
    if (options_.average) slots.push_back({std::string(kAverageSlot)});
    return slots;
  }
  bool averages_at_end() const override { return options_.averages_at_end(); }
  std::shared_ptr<const Op> update_op(const UpdateTarget& target) const override {
    return std::make_shared<AdafactorOp>(
        AdafactorNode{spec_, options_, target, Grid(target.shape, target.packing.get())});
  }

 private:
  Adafactor spec_;
  OptimizerOptions options_;
};

}  // namespace

OptimizerPtr make_optimizer(const Adafactor& spec) {
  const auto above_zero = [](const char* name, double value) {
    if (!(value > 0))
      throw ConfigError(fmt::format("[Adafactor] {}; expected above 0; got {}", name, value));
  };
  above_zero("epsilon_1", spec.epsilon_1);
  above_zero("epsilon_2", spec.epsilon_2);
  above_zero("clip_threshold", spec.clip_threshold);
  if (!(spec.beta_2_decay <= 0)) {
    throw ConfigError(
        fmt::format("[Adafactor] beta_2_decay; expected at most 0; got {}", spec.beta_2_decay));
  }
  return std::make_shared<AdafactorOptimizer>(spec);
}

}  // namespace surefit
