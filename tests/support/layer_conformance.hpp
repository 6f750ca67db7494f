// SPDX-License-Identifier: Apache-2.0
// The one harness that every layer goes through. A case names a layer, its inputs and a plain
// reference in double precision; check_layer() compares shapes, values, gradients, schedules and
// configuration, and returns what is wrong as data, so that negative controls can ask for it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "train/network.hpp"

namespace surefit::conformance {

// A dense double array, row-major, channels last, the batch first.
struct Array {
  Shape shape;
  std::vector<double> values;

  explicit Array(Shape extents) : shape(std::move(extents)), values(shape.count(), 0.0) {}
  static Array from(const Tensor& tensor);
  // Pictures: sample, row, column, channel.
  double& at(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) {
    return values[index(n, h, w, c)];
  }
  double at(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) const {
    return values[index(n, h, w, c)];
  }

 private:
  std::size_t index(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) const {
    return static_cast<std::size_t>(((n * shape[1] + h) * shape[2] + w) * shape[3] + c);
  }
};

using Parameters = std::map<std::string, Array>;  // by short name: "kernel"
using Reference =
    std::function<Array(const std::vector<Array>& inputs, const Parameters& parameters)>;

struct LayerCase {
  std::string name = {};  // letters and digits; unique within the layer
  Layer layer;
  std::vector<Shape> inputs = {};  // of one sample; none for an InputLayer
  Reference reference = {};  // none: gradients are checked against the kernels' own forward pass
  Reference inference = {};  // where evaluation differs from training
  // Largest error of a value, relative to the largest reference value: float32 against double sums.
  double forward_tolerance = 1e-5;
  double gradient_tolerance = 1e-5;
  // Parameters drawn from [0.5, 1.5] instead of [-1, 1].
  std::vector<std::string> positive = {};
  // Config fields that must be refused, by construction or by shape inference.
  std::vector<std::pair<std::string, ConfigValue>> invalid = {};
  std::int64_t batch = 5;
};

struct Failure {
  std::string check;  // "shape", "forward", "gradient", "in-place", "planned", "group", "ragged",
                      // "bounds", ...
  std::string detail;
};
std::string to_string(const std::vector<Failure>& failures);

// Every check on one case. Empty: the layer conforms.
std::vector<Failure> check_layer(const LayerCase& layer_case);

// The cases of all layers, by class. Called from the layers' test files before main().
bool add_conformance(const std::string& class_name, std::vector<LayerCase> (*cases)());
const std::map<std::string, std::vector<LayerCase> (*)()>& conformance_cases();

// Forward and backward of a single layer between two copying layers, so that its operands are
// ordinary intermediate values: they die, are shared and overwritten in place like in a real
// network.
class LayerRig {
 public:
  struct Options {
    bool training = true;
    Layout input_layout = Layout::kPlain;  // in which the layer meets its pictures
  };
  LayerRig(const Layer& layer, const std::vector<Shape>& inputs, const Options& options);
  LayerRig(const LayerRig&) = delete;
  LayerRig& operator=(const LayerRig&) = delete;

  const std::vector<Parameter>& parameters() const { return network_.parameters(); }
  const Graph& graph() const { return graph_; }
  const Shape& inferred() const { return inferred_; }  // by the layer
  const Shape& emitted() const { return emitted_; }    // by the graph

  struct Feed {
    std::vector<Tensor> inputs;      // the batch first
    std::vector<Tensor> parameters;  // Keras's layouts
    Tensor projection;               // gradient of the loss with respect to the output
  };
  struct Result {
    Tensor output;
    std::vector<Tensor> input_gradients;
    std::vector<Tensor> parameter_gradients;  // empty where a parameter is not trained
    std::vector<Tensor> parameters;           // after the step
    std::vector<Failure> failures;            // found while running: padding, bounds
  };
  // Runs `samples` of the feed in a plan made with these options, on memory that is NaN at the
  // start.
  Result run(const Feed& feed, const PlanOptions& options, std::int64_t samples) const;

 private:
  Shape inferred_, emitted_;  // before the network, whose making sets the first
  Network network_;
  Network::Built built_;
  Graph graph_;
  ValueId output_ = kNone, projection_ = kNone;
  std::vector<ValueId> input_gradients_, parameter_gradients_;  // kNone: zero
};

// Uniform in [low, high), a function of the seed.
Tensor random_tensor(const Shape& shape, std::uint64_t seed, double low = -1, double high = 1);

}  // namespace surefit::conformance
