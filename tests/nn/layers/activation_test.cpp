// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/reference.hpp"

namespace surefit::conformance {
namespace {

LayerCase activation(const std::string& name, Shape input, const std::string& suffix) {
  return {.name = name + suffix,
          .layer = Activation{.activation = name},
          .inputs = {std::move(input)},
          .reference = [name](const std::vector<Array>& inputs, const Parameters&) {
            return activate(inputs[0], name);
          }};
}

std::vector<LayerCase> cases() {
  std::vector<LayerCase> list;
  for (const char* name : {"linear", "relu", "relu6", "leaky_relu", "sigmoid", "tanh", "elu",
                           "gelu", "swish", "silu", "softplus", "hard_sigmoid", "softmax"}) {
    list.push_back(activation(name, Shape{3, 2, 13}, "_picture"));
    list.push_back(activation(name, Shape{5}, "_row"));
  }
  list[0].invalid = {{"activation", std::string("tahn")}, {"activation", std::int64_t{1}}};
  return list;
}

const bool kAdded = add_conformance("Activation", cases);

}  // namespace
}  // namespace surefit::conformance
