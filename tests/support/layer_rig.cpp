// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>

#include "base/philox.hpp"
#include "engine/executable.hpp"
#include "engine/onednn.hpp"
#include "graph/autodiff.hpp"
#include "nn/ops/kernel.hpp"
#include "nn/ops/structural.hpp"
#include "support/layer_conformance.hpp"
#include "train/parameters.hpp"

namespace surefit::conformance {
namespace {

// All bits set is a NaN in float32 and float64 and an impossible index in a byte.
constexpr std::byte kPoison{0xFF};

// Copies, and wants its input in a layout of the case's choice.
class CarryOp final : public Op {
 public:
  explicit CarryOp(std::optional<Layout> layout) : layout_(layout) {}
  std::string_view kind() const override { return "carry"; }
  Layout preferred_layout(std::size_t, const ValueType& type) const override {
    return layout_.value_or(type.layout);
  }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    return {inputs[0]};
  }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    return {};
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    return make_kernel("test", [bytes = inputs[0].stored_bytes()](const Task& task) {
      for (std::int64_t n = task.begin; n < task.end; ++n) {
        std::memcpy(task.outputs[0].at(n), task.inputs[0].at(n), bytes);
      }
    });
  }
  void gradient(GradientBuilder& builder) const override {
    builder.set_input_gradient(
        0, builder.emit1(std::make_shared<CarryOp>(std::nullopt), {builder.output_gradient(0)}));
  }

 private:
  std::optional<Layout> layout_;
};

struct Carry {
  std::optional<Layout> layout = {};
  std::string name = {};
  bool trainable = true;
  static constexpr std::string_view kClass = "Carry";
  static void fields(auto&) {}
};

class CarryImpl final : public LayerImpl {
 public:
  explicit CarryImpl(std::optional<Layout> layout) : layout_(layout) {}
  Shape infer(std::span<const Shape> inputs) const override { return inputs[0]; }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    return builder.emit1(std::make_shared<CarryOp>(layout_), {inputs[0]});
  }

 private:
  std::optional<Layout> layout_;
};

LayerPtr make_layer(const Carry& spec) {
  return std::make_shared<CarryImpl>(spec.layout);
}

Network make_network(const Layer& layer, const std::vector<Shape>& inputs, Layout layout,
                     Shape& inferred) {
  std::vector<Symbol> symbols, carried;
  for (const Shape& shape : inputs) {
    symbols.push_back(Input(shape));
    const bool picture = shape.rank() == 3;
    carried.push_back(
        Layer(Carry{.layout = picture ? std::optional(layout) : std::nullopt})(symbols.back()));
  }
  const Symbol output = layer(carried);
  if (inputs.empty()) symbols.push_back(output);
  inferred = output.shape();
  return Network(symbols, {Layer(Carry{})(output)});
}

// Pools are kept: threads cost more to start than these cases run.
ThreadPool& pool_of(int threads) {
  static std::array<std::unique_ptr<ThreadPool>, 5> pools;
  auto& pool = pools.at(static_cast<std::size_t>(threads));
  if (!pool) pool = std::make_unique<ThreadPool>(threads, prepare_compute_thread);
  return *pool;
}

// Lanes past the last channel of a blocked picture must be zero behind every node: the next one
// sums over them.
class PaddingCheck final : public RunObserver {
 public:
  PaddingCheck(const Graph& graph, std::vector<Failure>& failures)
      : graph_(graph), failures_(failures) {}
  void after(const Node& node, std::span<const Operand> outputs, std::int64_t begin,
             std::int64_t end) override {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const ValueType& type = graph_.value(node.outputs[i]).type;
      if (type.layout != Layout::kBlocked || type.dtype != DType::kFloat32) continue;
      const auto live = static_cast<std::size_t>(type.picture[2] % kChannelBlock);
      if (live == 0) continue;
      const auto tail = static_cast<std::size_t>(type.picture[0] * type.picture[1] * kChannelBlock);
      for (std::int64_t n = begin; n < end; ++n) {
        const float* last = outputs[i].at(n) + type.stored_count() - tail;
        for (std::size_t at = 0; at < tail; ++at) {
          if (at % kChannelBlock < live || last[at] == 0) continue;
          failures_.push_back({"padding", fmt::format("{} leaves {} in a padding lane of sample {}",
                                                      node.op->kind(), last[at], n)});
          return;
        }
      }
    }
  }

 private:
  const Graph& graph_;
  std::vector<Failure>& failures_;
};

// With memory of its own for every buffer: what belongs to samples that do not run, and the holes
// between buffers, must still be poison.
void check_bounds(const Plan& plan, const Arena& arena, std::int64_t samples,
                  std::vector<Failure>& failures) {
  std::vector<bool> written(plan.arena_bytes, false);
  for (const Buffer& b : plan.buffers) {
    if (b.persistent) continue;
    const auto rows = static_cast<std::size_t>(std::min(samples, b.samples));
    const std::size_t used = b.sample_bytes == 0 ? b.bytes : b.sample_bytes * rows;
    std::fill_n(written.begin() + static_cast<std::ptrdiff_t>(b.offset), used, true);
  }
  for (std::size_t at = 0; at < plan.arena_bytes; ++at) {
    if (written[at] || arena.base()[at] == kPoison) continue;
    std::string near = "the end";
    for (const Buffer& b : plan.buffers) {
      if (!b.persistent && b.offset <= at && at < b.offset + b.bytes + 64) near = b.name;
    }
    failures.push_back({"bounds", fmt::format("byte {} was written although nothing that ran owns "
                                              "it; nearest: '{}'",
                                              at, near)});
    return;
  }
}

void fill(const Operand& operand, const Tensor& from, std::int64_t samples) {
  if (operand.base == nullptr) return;  // nobody reads it
  const std::size_t row = from.bytes() / static_cast<std::size_t>(from.shape()[0]);
  for (std::int64_t n = 0; n < samples; ++n) {
    std::memcpy(operand.at(n), from.raw().data() + static_cast<std::size_t>(n) * row, row);
  }
}

Tensor collect(const Operand& operand, const Shape& shape, std::int64_t samples) {
  Tensor tensor(shape.prepend(samples));
  const std::size_t row = shape.count() * sizeof(float);
  for (std::int64_t n = 0; n < samples; ++n) {
    std::memcpy(tensor.raw().data() + static_cast<std::size_t>(n) * row, operand.at(n), row);
  }
  return tensor;
}

// A parameter's gradient in Keras's layout; what only exists in the engine's layout must be zero,
// or the padding of the weights would drift away from zero.
Tensor unpack_gradient(const Parameter& parameter, const float* gradient,
                       std::vector<Failure>& failures) {
  Tensor tensor(parameter.spec.shape);
  if (!parameter.spec.packing) {
    std::memcpy(tensor.raw().data(), gradient, tensor.bytes());
    return tensor;
  }
  parameter.spec.packing->unpack(gradient, tensor.values<float>().data());
  std::vector<float> again(parameter.stored_count());
  parameter.spec.packing->pack(tensor.values<float>().data(), again.data());
  for (std::size_t i = 0; i < again.size(); ++i) {
    if (again[i] == gradient[i] || (std::isnan(again[i]) && std::isnan(gradient[i]))) continue;
    failures.push_back({"padding", fmt::format("the gradient of '{}' has {} in padding element {}",
                                               parameter.name, gradient[i], i)});
    break;
  }
  return tensor;
}

}  // namespace

Tensor random_tensor(const Shape& shape, std::uint64_t seed, double low, double high) {
  const Philox stream(seed, Purpose::kTest, 0, 0, 0);
  Tensor tensor(shape);
  const auto values = tensor.values<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(low + (high - low) * static_cast<double>(stream.uniform(i)));
  }
  return tensor;
}

Array Array::from(const Tensor& tensor) {
  Array array(tensor.shape());
  const auto values = tensor.values<float>();
  std::copy(values.begin(), values.end(), array.values.begin());
  return array;
}

LayerRig::LayerRig(const Layer& layer, const std::vector<Shape>& inputs, const Options& options)
    : network_(make_network(layer, inputs, options.input_layout, inferred_)),
      graph_(structural_ops()) {
  built_ = network_.build(graph_, options.training, Convolutions::kExact);
  emitted_ = graph_.value(built_.outputs[0]).type.shape;
  output_ = graph_.in_layout(built_.outputs[0], Layout::kPlain, "output", Phase::kForward);
  graph_.keep(output_);
  prune(graph_);
  fuse(graph_);
  if (!options.training) {
    graph_.check();
    return;
  }
  ValueType type;
  type.shape = emitted_;
  projection_ = graph_.add_input("projection", type);
  std::vector<ValueId> wanted = built_.inputs;
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    if (parameters()[i].trainable) wanted.push_back(built_.parameters[i]);
  }
  const auto gradients = append_backward(graph_, {{output_, projection_}}, wanted);
  const auto find = [&](ValueId id) {
    const auto found = gradients.find(id);
    if (found == gradients.end()) return kNone;
    graph_.keep(found->second);
    return found->second;
  };
  for (const ValueId id : built_.inputs) input_gradients_.push_back(find(id));
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    parameter_gradients_.push_back(parameters()[i].trainable ? find(built_.parameters[i]) : kNone);
  }
  for (const Network::Built::Update& update : built_.updates) {
    graph_.add(update.op, update.inputs, update.layer, Phase::kUpdate);
  }
  prune(graph_);
  graph_.check();
}

LayerRig::Result LayerRig::run(const Feed& feed, const PlanOptions& options,
                               std::int64_t samples) const {
  Result result;
  ParameterStore store(parameters());
  for (std::size_t i = 0; i < store.count(); ++i) store.set(i, feed.parameters[i]);
  Plan plan = make_plan(graph_, options);
  const auto arena = std::make_shared<Arena>(std::max<std::size_t>(plan.arena_bytes, 64));
  std::fill_n(arena->base(), arena->bytes(), kPoison);
  Executable executable(graph_, std::move(plan), pool_of(options.threads), arena, [&](ValueId id) {
    const auto at = std::find(built_.parameters.begin(), built_.parameters.end(), id);
    return reinterpret_cast<std::byte*>(
        store.data(static_cast<std::size_t>(at - built_.parameters.begin())));
  });
  executable.share_all();
  for (std::size_t i = 0; i < feed.inputs.size(); ++i) {
    fill(executable.operand(built_.inputs[i]), feed.inputs[i], samples);
  }
  if (projection_ != kNone) fill(executable.operand(projection_), feed.projection, samples);

  StepContext context;
  context.seed = 7;
  context.step = 3;
  context.samples = samples;
  PaddingCheck padding(graph_, result.failures);
  executable.run(context, &padding);
  if (!options.allow_sharing) {
    check_bounds(executable.plan(), *arena, samples, result.failures);
  }

  result.output = collect(executable.operand(output_), emitted_, samples);
  for (std::size_t i = 0; i < input_gradients_.size(); ++i) {
    const Shape shape = feed.inputs[i].shape().drop_front();
    result.input_gradients.push_back(
        input_gradients_[i] == kNone
            ? Tensor(shape.prepend(samples))
            : collect(executable.operand(input_gradients_[i]), shape, samples));
  }
  for (std::size_t i = 0; i < parameter_gradients_.size(); ++i) {
    const ValueId id = parameter_gradients_[i];
    result.parameter_gradients.push_back(
        id == kNone
            ? Tensor()
            : unpack_gradient(parameters()[i], executable.operand(id).at(), result.failures));
  }
  for (std::size_t i = 0; i < store.count(); ++i) result.parameters.push_back(store.get(i));
  return result;
}

}  // namespace surefit::conformance
