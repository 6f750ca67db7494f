// SPDX-License-Identifier: Apache-2.0
#include "nn/ops/activation.hpp"

#include "base/check.hpp"
#include "engine/kernels/table.hpp"
#include "graph/autodiff.hpp"
#include "nn/ops/kernel.hpp"
#include "nn/ops/pool.hpp"

namespace surefit {
namespace {

using kernels::Activation;

OpTraits elementwise_traits(const ValueType& type, double flops_per_element) {
  OpTraits traits;
  traits.in_place_input = 0;
  traits.flops_per_sample = static_cast<double>(type.stored_count()) * flops_per_element;
  return traits;
}

class ActivationBackwardOp final : public Op {
 public:
  explicit ActivationBackwardOp(ActivationSpec spec) : spec_(spec) {}
  std::string_view kind() const override { return "activation_backward"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    return {inputs[1]};
  }
  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    OpTraits traits = elementwise_traits(inputs[1], 4);
    traits.in_place_input = 1;
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    kernels::ActivationBackwardArgs args;
    args.kind = spec_.kind;
    args.alpha = spec_.alpha;
    args.count = static_cast<std::int64_t>(inputs[0].stored_count());
    return make_kernel("own", [args](const Task& task) {
      for (std::int64_t n = task.begin; n < task.end; ++n) {
        kernels::ActivationBackwardArgs own = args;
        own.saved = task.inputs[0].at(n);
        own.diff_dst = task.inputs[1].at(n);
        own.diff_src = task.outputs[0].at(n);
        kernels::table().elementwise.activation_backward(own);
      }
    });
  }

 private:
  ActivationSpec spec_;
};

}  // namespace

std::optional<ActivationSpec> activation_by_name(const std::string& name) {
  struct Named {
    std::string_view name;
    ActivationSpec spec;
  };
  static constexpr Named kNamed[] = {
      {"linear", {Activation::kLinear}},
      {"relu", {Activation::kRelu}},
      {"relu6", {Activation::kRelu6}},
      {"leaky_relu", {Activation::kLeakyRelu, 0.2f}},
      {"sigmoid", {Activation::kSigmoid}},
      {"tanh", {Activation::kTanh}},
      {"elu", {Activation::kElu, 1.0f}},
      {"gelu", {Activation::kGelu}},
      {"swish", {Activation::kSwish}},
      {"silu", {Activation::kSwish}},
      {"softplus", {Activation::kSoftplus}},
      {"hard_sigmoid", {Activation::kHardSigmoid}},
      {"exponential", {Activation::kExponential}},
      {"selu", {Activation::kSelu}},
      {"hard_silu", {Activation::kHardSwish}},
      {"hard_swish", {Activation::kHardSwish}},
      {"mish", {Activation::kMish}},
      {"softsign", {Activation::kSoftsign}},
  };
  if (name == "softmax") return std::nullopt;
  std::string known = "softmax";
  for (const Named& named : kNamed) {
    if (named.name == name) return named.spec;
    known += ", " + std::string(named.name);
  }
  throw ConfigError(fmt::format("unknown activation; expected one of: {}; got '{}'", known, name));
}

std::optional<Activation> relu_kind(const Op& op) {
  const auto* activation = dynamic_cast<const ActivationOp*>(&op);
  if (activation == nullptr) return std::nullopt;
  const Activation kind = activation->spec().kind;
  return kind == Activation::kRelu || kind == Activation::kRelu6 ? std::optional(kind)
                                                                 : std::nullopt;
}

ValueId before_sigmoid(const Graph& graph, ValueId value) {
  const Value& predicted = graph.value(value);
  if (predicted.producer == kNone || predicted.view_of != kNone) return kNone;
  const Node& node = graph.node(predicted.producer);
  const auto* activation = dynamic_cast<const ActivationOp*>(node.op.get());
  return activation != nullptr && activation->spec().kind == Activation::kSigmoid ? node.inputs[0]
                                                                                  : kNone;
}

bool is_relu(const Op& op) {
  return relu_kind(op) == Activation::kRelu;
}

std::shared_ptr<const Op> make_activation_backward(ActivationSpec spec) {
  return std::make_shared<ActivationBackwardOp>(spec);
}

OpTraits ActivationOp::traits(std::span<const ValueType> inputs, std::span<const ValueType>) const {
  return elementwise_traits(inputs[0], 4);
}

std::unique_ptr<Kernel> ActivationOp::bind(std::span<const ValueType> inputs,
                                           std::span<const ValueType>, int) const {
  const ValueType& type = inputs[0];
  kernels::ActivationArgs args;
  args.kind = spec_.kind;
  args.alpha = spec_.alpha;
  args.count = static_cast<std::int64_t>(type.stored_count());
  // Lanes past the last channel must stay zero where f(0) is not zero: the last channel block runs
  // on its own.
  std::int64_t tail = 0;
  int live = 8;
  if (type.layout == Layout::kBlocked && type.picture[2] % kChannelBlock != 0 &&
      !kernels::activation_keeps_zero(spec_.kind)) {
    tail = type.picture[0] * type.picture[1] * kChannelBlock;
    live = static_cast<int>(type.picture[2] % kChannelBlock);
  }
  return make_kernel("own", [args, tail, live](const Task& task) {
    for (std::int64_t n = task.begin; n < task.end; ++n) {
      kernels::ActivationArgs own = args;
      own.src = task.inputs[0].at(n);
      own.dst = task.outputs[0].at(n);
      own.count = args.count - tail;
      kernels::table().elementwise.activation(own);
      if (tail == 0) continue;
      own.src += own.count;
      own.dst += own.count;
      own.count = tail;
      own.live_lanes = live;
      kernels::table().elementwise.activation(own);
    }
  });
}

std::shared_ptr<const Op> ActivationOp::absorb(const Op& consumer, std::size_t,
                                               std::span<const ValueType>) const {
  const auto* pool = dynamic_cast<const MaxPoolOp*>(&consumer);
  const bool joins = spec_.kind == Activation::kRelu && pool != nullptr && !pool->relu();
  return joins ? pool->with_relu() : nullptr;
}

void ActivationOp::gradient(GradientBuilder& builder) const {
  const ValueId saved =
      kernels::activation_saves_input(spec_.kind) ? builder.input(0) : builder.output(0);
  if (spec_.kind == Activation::kLinear) {
    builder.set_input_gradient(0, builder.output_gradient(0));
    return;
  }
  builder.set_input_gradient(
      0, builder.emit1(make_activation_backward(spec_), {saved, builder.output_gradient(0)}));
}

// Mixed layouts meet in the blocked one.
Layout AddOp::preferred_layout(std::size_t, const ValueType& type) const {
  return type.shape.rank() == 3 ? Layout::kBlocked : Layout::kPlain;
}

OpTraits AddOp::traits(std::span<const ValueType> inputs, std::span<const ValueType>) const {
  return elementwise_traits(inputs[0], 1);
}

std::unique_ptr<Kernel> AddOp::bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                                    int) const {
  const auto count = static_cast<std::int64_t>(inputs[0].stored_count());
  return make_kernel("own", [count](const Task& task) {
    for (std::int64_t n = task.begin; n < task.end; ++n) {
      kernels::table().elementwise.add(task.inputs[0].at(n), task.inputs[1].at(n),
                                       task.outputs[0].at(n), count);
      for (std::size_t i = 2; i < task.inputs.size(); ++i) {
        kernels::table().elementwise.accumulate(task.inputs[i].at(n), task.outputs[0].at(n), count);
      }
    }
  });
}

void AddOp::gradient(GradientBuilder& builder) const {
  for (std::size_t i = 0; i < builder.input_count(); ++i)
    builder.set_input_gradient(i, builder.output_gradient(0));
}

}  // namespace surefit
