// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/reference.hpp"

namespace surefit::conformance {
namespace {

LayerCase dense(std::string name, std::int64_t inputs, const Dense& spec) {
  const Reference reference = [spec](const std::vector<Array>& arrays,
                                     const Parameters& parameters) {
    const Array& x = arrays[0];
    const Array& kernel = parameters.at("kernel");
    const std::int64_t batch = x.shape[0], features = x.shape[1], units = spec.units;
    Array y(Shape{batch, units});
    for (std::int64_t n = 0; n < batch; ++n) {
      for (std::int64_t u = 0; u < units; ++u) {
        double sum = spec.use_bias ? parameters.at("bias").values[static_cast<std::size_t>(u)] : 0;
        for (std::int64_t k = 0; k < features; ++k) {
          sum += x.values[static_cast<std::size_t>(n * features + k)] *
                 kernel.values[static_cast<std::size_t>(k * units + u)];
        }
        y.values[static_cast<std::size_t>(n * units + u)] = sum;
      }
    }
    return activate(std::move(y), spec.activation);
  };
  return {
      .name = std::move(name), .layer = spec, .inputs = {Shape{inputs}}, .reference = reference};
}

std::vector<LayerCase> cases() {
  std::vector<LayerCase> list = {
      dense("one_to_one", 1, {.units = 1}),
      dense("three_to_five", 3, {.units = 5}),
      dense("thirteen_to_eight_relu", 13, {.units = 8, .activation = "relu"}),
      dense("eight_to_thirteen", 8, {.units = 13, .use_bias = false}),
      dense("ten_classes", 67, {.units = 10, .activation = "softmax"}),
      dense("many_rows", 2500,
            {.units = 3, .activation = "tanh"}),
      dense("many_units", 21, {.units = 77}),
      dense("parts_of_panels", 403, {.units = 50, .activation = "relu"}),
      dense("parts_of_rows", 1531, {.units = 10}),
      dense("parts_and_panels", 397, {.units = 90}),
  };
  list[0].invalid = {{"units", std::int64_t{0}},
                     {"units", 1.5},
                     {"activation", std::string("")},
                     {"bias_constraint", std::string("NotNeg")},
                     {"use_bias", ConfigValue{}}};
  for (const std::size_t slow : {5, 7, 8, 9}) list[slow].batch = 3;  // the reference is slow here
  return list;
}

const bool kAdded = add_conformance("Dense", cases);

}  // namespace
}  // namespace surefit::conformance
