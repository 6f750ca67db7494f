// SPDX-License-Identifier: Apache-2.0
// The harness itself on trial: a user's layer that conforms, and the same layer with one fault at a
// time, each of which must be found by the check that is there for it.
#include <algorithm>

#include <gtest/gtest.h>

#include "graph/autodiff.hpp"
#include "nn/ops/kernel.hpp"
#include "support/layer_conformance.hpp"

namespace surefit::conformance {
namespace {

enum class Fault {
  kNone,
  kForward,        // a value is off
  kInputGradient,  // off by one percent
  kWeightGradient,
  kWritesBeyond,  // touches the sample behind its last
  kGroupOrder,    // adds up each group by itself first
  kTaskSize,      // the result depends on how many samples a task gets
  kInPlace,       // permits in place, but still needs what it has overwritten
  kPadding,       // writes into the padding lanes
  kScratch,       // expects its scratch to be zero
  kShape,         // promises another shape than it emits
  kPacking,       // loses an element between the layouts
};

// y = w * x, element by element.
class WeighOp : public Op {
 public:
  WeighOp(Fault fault, bool backward) : fault_(fault), backward_(backward) {}
  std::string_view kind() const override { return "weigh"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    return {inputs[0]};
  }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.samples_per_task = 64;
    if (fault_ == Fault::kInPlace) traits.in_place_input = 0;
    if (fault_ == Fault::kScratch) traits.thread_scratch_bytes = sizeof(float);
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    const std::size_t stored = inputs[0].stored_count();
    const std::size_t weights = inputs[1].stored_count();
    return make_kernel("test",
                       [fault = fault_, backward = backward_, stored, weights](const Task& task) {
                         const float* w = task.inputs[1].at();
                         for (std::int64_t n = task.begin; n < task.end; ++n) {
                           const float* x = task.inputs[0].at(n);
                           float* y = task.outputs[0].at(n);
                           for (std::size_t i = 0; i < stored; ++i) {
                             float factor = w[i % weights];
                             if (fault == Fault::kInputGradient && backward) factor *= 1.01f;
                             if (fault == Fault::kForward && !backward) factor += 1e-3f;
                             if (fault == Fault::kTaskSize)
                               factor *= (task.end - task.begin) % 2 == 1 ? 1.0f : 1.0000002f;
                             if (fault == Fault::kScratch)
                               factor += *reinterpret_cast<float*>(task.thread_scratch);
                             y[i] = factor * x[i];
                             if (fault == Fault::kInPlace)
                               y[i] += x[(i + 1) % stored] - x[(i + stored - 1) % stored];
                             if (fault == Fault::kPadding && i % 8 == 7) y[i] = 1;
                           }
                         }
                         // Only ever 64 bytes from the buffer's start, so it stays inside the
                         // arena.
                         if (fault == Fault::kWritesBeyond && task.end == task.step->samples)
                           task.outputs[0].at(task.end)[0] = 1;
                       });
  }
  void gradient(GradientBuilder& builder) const override;

 private:
  Fault fault_;
  bool backward_;
};

class WeighBackwardWeightsOp final : public Op {
 public:
  WeighBackwardWeightsOp(Fault fault, ValueType weights)
      : fault_(fault), weights_(std::move(weights)) {}
  std::string_view kind() const override { return "weigh_backward_weights"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override { return {weights_}; }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kReduction;
    traits.samples_per_pass = 2;
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    const std::size_t stored = inputs[0].stored_count();
    const std::size_t weights = weights_.stored_count();
    return make_kernel("test", [fault = fault_, stored, weights](const Task& task) {
      float* sum = task.outputs[0].at();
      for (std::size_t w = 0; w < weights; ++w) {
        float total = task.begin == 0 || fault == Fault::kGroupOrder ? 0.0f : sum[w];
        for (std::int64_t n = task.begin; n < task.end; ++n) {
          for (std::size_t i = w; i < stored; i += weights)
            total += task.inputs[0].at(n)[i] * task.inputs[1].at(n)[i];
        }
        if (fault == Fault::kGroupOrder && task.begin > 0) total += sum[w];
        sum[w] = fault == Fault::kWeightGradient ? total * 1.01f : total;
      }
    });
  }

 private:
  Fault fault_;
  ValueType weights_;
};

void WeighOp::gradient(GradientBuilder& builder) const {
  const ValueId diff_dst = builder.output_gradient(0);
  builder.set_input_gradient(1, builder.emit1(std::make_shared<WeighBackwardWeightsOp>(
                                                  fault_, builder.type(builder.input(1))),
                                              {builder.input(0), diff_dst}, Category::kGradients));
  // Its own in-place fault is the forward's.
  const Fault fault = fault_ == Fault::kInPlace ? Fault::kNone : fault_;
  builder.set_input_gradient(
      0, builder.emit1(std::make_shared<WeighOp>(fault, true), {diff_dst, builder.input(1)}));
}

class ForgetfulPacking final : public Packing {
 public:
  explicit ForgetfulPacking(std::size_t count) : count_(count) {}
  std::size_t stored_count() const override { return count_; }
  std::size_t lines() const override { return 1; }
  std::size_t line_length() const override { return count_; }
  void write_line(std::size_t, const float* keras, float* engine) const override {
    std::copy_n(keras, count_ - 1, engine);
  }
  void read_line(std::size_t, const float* engine, float* keras) const override {
    std::copy_n(engine, count_, keras);
  }

 private:
  std::size_t count_;
};

struct Weigh {
  Fault fault = Fault::kNone;
  std::string name = {};
  bool trainable = true;
  static constexpr std::string_view kClass = "Weigh";
  static void fields(auto&) {}
};

class WeighImpl final : public LayerImpl {
 public:
  explicit WeighImpl(Fault fault) : fault_(fault) {}
  Shape infer(std::span<const Shape> inputs) const override {
    return fault_ == Fault::kShape ? Shape{1, static_cast<std::int64_t>(inputs[0].count())}
                                   : inputs[0];
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    // One weight per element of a row, one for all of a picture.
    const ValueType type = builder.type(inputs[0]);
    const Shape shape = type.shape.rank() == 1 ? type.shape : Shape{1};
    std::shared_ptr<const Packing> packing;
    if (fault_ == Fault::kPacking) packing = std::make_shared<ForgetfulPacking>(shape.count());
    const ValueId weights =
        builder.parameter({.name = "weights", .shape = shape, .packing = packing});
    return builder.emit1(std::make_shared<WeighOp>(fault_, false), {inputs[0], weights});
  }

 private:
  Fault fault_;
};

LayerPtr make_layer(const Weigh& spec) {
  return std::make_shared<WeighImpl>(spec.fault);
}

LayerCase weigh(Fault fault, Shape input) {
  return {.layer = Weigh{.fault = fault},
          .inputs = {std::move(input)},
          .reference = [](const std::vector<Array>& inputs, const Parameters& parameters) {
            Array y = inputs[0];
            const auto& weights = parameters.at("weights").values;
            for (std::size_t i = 0; i < y.values.size(); ++i)
              y.values[i] *= weights[i % weights.size()];
            return y;
          }};
}

bool found(const std::vector<Failure>& failures, const std::string& check) {
  return std::any_of(failures.begin(), failures.end(),
                     [&](const Failure& f) { return f.check == check; });
}

TEST(HarnessControl, AcceptsAUsersSoundLayer) {
  for (const Shape& shape : {Shape{3}, Shape{3, 2, 5}}) {
    const auto failures = check_layer(weigh(Fault::kNone, shape));
    EXPECT_TRUE(failures.empty()) << to_string(failures);
  }
}

struct Control {
  Fault fault;
  const char* check;
  Shape input = {3};
};

class HarnessFinds : public ::testing::TestWithParam<Control> {};

TEST_P(HarnessFinds, TheFault) {
  const auto failures = check_layer(weigh(GetParam().fault, GetParam().input));
  EXPECT_TRUE(found(failures, GetParam().check))
      << "not found by '" << GetParam().check << "'; found:\n"
      << to_string(failures);
}

INSTANTIATE_TEST_SUITE_P(
    All, HarnessFinds,
    ::testing::Values(
        Control{Fault::kForward, "forward"}, Control{Fault::kInputGradient, "gradient"},
        Control{Fault::kWeightGradient, "gradient"}, Control{Fault::kWritesBeyond, "bounds"},
        Control{Fault::kGroupOrder, "group"}, Control{Fault::kTaskSize, "group"},
        Control{Fault::kTaskSize, "ragged"}, Control{Fault::kInPlace, "in-place"},
        Control{Fault::kPadding, "padding", {3, 2, 5}}, Control{Fault::kScratch, "forward"},
        Control{Fault::kShape, "shape"}, Control{Fault::kPacking, "packing"}),
    [](const auto& each) {
      std::string check = each.param.check;
      std::replace(check.begin(), check.end(), '-', '_');
      return check + "_" + std::to_string(static_cast<int>(each.param.fault));
    });

// A reference that is wrong must be found as well: otherwise it is not looked at.
TEST(HarnessControl, RefusesAWrongReference) {
  LayerCase layer_case = {
      .layer = ReLU{},
      .inputs = {Shape{4}},
      .reference = [](const std::vector<Array>& inputs, const Parameters&) { return inputs[0]; }};
  const auto failures = check_layer(layer_case);
  EXPECT_TRUE(found(failures, "forward"));
  EXPECT_TRUE(found(failures, "gradient"));
}

TEST(HarnessControl, NoticesAValidConfigurationAmongTheInvalid) {
  LayerCase layer_case = {.layer = Dense{.units = 2}, .inputs = {Shape{4}}};
  layer_case.invalid = {{"units", std::int64_t{3}}};
  EXPECT_TRUE(found(check_layer(layer_case), "config"));
}

}  // namespace
}  // namespace surefit::conformance
