// SPDX-License-Identifier: Apache-2.0
// oneDNN falls back to its reference loop without a word where it has nothing better: hundreds of
// times slower.
#include <fmt/format.h>

#include <gtest/gtest.h>

#include "surefit/zoo.hpp"

#include "train/model_impl.hpp"

namespace surefit {
namespace {

struct ZooCase {
  const char* name;
  Shape input;
};

class ZooKernels : public ::testing::TestWithParam<ZooCase> {};

TEST_P(ZooKernels, NoneIsAReferenceLoop) {
  const Model model = zoo_model(GetParam().name, {.input = GetParam().input});
  const bool pixels = std::string(GetParam().name) == "unet";
  const Loss loss = pixels ? "binary_crossentropy" : "sparse_categorical_crossentropy";
  const Compiled compiled = {"adam", {{.loss = loss, .metrics = {"accuracy"}}}};
  for (const auto purpose :
       {Program::Purpose::kTrain, Program::Purpose::kEvaluate, Program::Purpose::kPredict}) {
    const Program program(model.impl().network, &compiled, purpose);
    ASSERT_FALSE(program.graph().nodes().empty());
    for (const Node& node : program.graph().nodes()) {
      const auto kernel =
          node.op->bind(program.graph().input_types(node), program.graph().output_types(node), 1);
      const std::string implementation = kernel->implementation();
      EXPECT_FALSE(implementation.empty()) << node.layer << " " << node.op->kind();
      EXPECT_EQ(implementation.find("ref"), std::string::npos)
          << node.layer << " " << node.op->kind() << " runs " << implementation;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ZooKernels,
    ::testing::Values(ZooCase{"seed_cnn", {28, 28, 1}}, ZooCase{"seed_cnn", {224, 224, 3}},
                      ZooCase{"lenet5", {28, 28, 1}}, ZooCase{"lenet5", {32, 32, 3}},
                      ZooCase{"resnet18", {32, 32, 3}}, ZooCase{"resnet18", {224, 224, 3}},
                      ZooCase{"resnet18", {28, 28, 1}}, ZooCase{"resnet50", {224, 224, 3}},
                      ZooCase{"vgg16", {224, 224, 3}}, ZooCase{"mobilenet_v2", {224, 224, 3}},
                      ZooCase{"mobilenet_v2", {97, 65, 3}}, ZooCase{"unet", {128, 128, 3}}),
    [](const auto& each) {
      std::string name = each.param.name;
      for (const auto extent : each.param.input.dims()) name += fmt::format("_{}", extent);
      return name;
    });

}  // namespace
}  // namespace surefit
