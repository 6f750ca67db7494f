// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "surefit/zoo.hpp"

#include "engine/executable.hpp"
#include "engine/onednn.hpp"
#include "train/model_impl.hpp"
#include "worker/options.hpp"
#include "worker/verbs.hpp"

namespace surefit::worker {
namespace {

// What runs for every node of a training step.
void print_kernels(const Model& model, Convolutions convolutions) {
  prepare_compute_thread();
  const Compiled compiled{"adam", {{"mse"}}};
  const Network& network = model.impl().network;
  const Program program(network, &compiled, Program::Purpose::kTrain, convolutions);
  fmt::print("\n{:<28} {:<34} {:<10} {}\n", "Layer", "Node", "Phase", "Kernel");
  for (const Node& node : program.graph().nodes()) {
    const auto kernel =
        node.op->bind(program.graph().input_types(node), program.graph().output_types(node), 1);
    const char* phase = node.phase == Phase::kForward    ? "forward"
                        : node.phase == Phase::kBackward ? "backward"
                                                         : "update";
    fmt::print("{:<28} {:<34} {:<10} {}\n", node.layer, node.op->kind(), phase,
               kernel->implementation());
  }
}

}  // namespace

int summary_verb(const Arguments& arguments) {
  CLI::App app("Layers, shapes and parameters of a model.", "surefit summary");
  ModelOptions options;
  ConvolutionOptions convolutions;
  options.add_to(app);
  bool kernels = false;
  app.add_flag("--kernels", kernels,
               "also list which kernel runs for every node of a training step");
  convolutions.add_to(app);
  app.footer("\nExample:\n  surefit summary --model resnet18 --kernels\n");
  if (const auto code = parse(app, arguments)) return *code;
  const Model model = options.make();
  fmt::print("{}", model.summary());
  if (kernels) print_kernels(model, convolutions.value());
  return 0;
}

int model_verb(const Arguments& arguments) {
  CLI::App app("Writes a zoo model as Keras JSON, to edit or to train.", "surefit model");
  std::string name, input;
  std::int64_t classes = 0;
  app.add_option("NAME", name, fmt::format("one of: {}", fmt::join(zoo_names(), ", ")))->required();
  app.add_option("--input", input, "HxWxC, such as 32x32x3");
  app.add_option("--classes", classes, "number of classes");
  app.footer("\nExample:\n  surefit model lenet5 --input 28x28x1 --classes 10 > lenet5.json\n");
  if (const auto code = parse(app, arguments)) return *code;
  fmt::print("{}", make_model(name, input, classes).to_json());
  return 0;
}

}  // namespace surefit::worker
