// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/reference.hpp"

namespace surefit::conformance {
namespace {

LayerCase softmax_case(std::string name, Shape input, const Softmax& spec = {}) {
  return {.name = std::move(name),
          .layer = spec,
          .inputs = {std::move(input)},
          .reference = [](const std::vector<Array>& inputs, const Parameters&) {
            return softmax(inputs[0]);
          }};
}

std::vector<LayerCase> cases() {
  std::vector<LayerCase> list = {softmax_case("one", {1}), softmax_case("ten", {10}),
                                 softmax_case("thirteen_axis", {13}, {.axis = 1}),
                                 softmax_case("picture_of_five", {3, 2, 5}),
                                 softmax_case("picture_of_thirteen", {2, 3, 13}, {.axis = 3})};
  list[1].invalid = {
      {"axis", std::int64_t{0}}, {"axis", std::int64_t{2}}, {"axis", std::string("last")}};
  return list;
}

const bool kAdded = add_conformance("Softmax", cases);

}  // namespace
}  // namespace surefit::conformance
