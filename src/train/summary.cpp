// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "surefit/model.hpp"

#include "base/units.hpp"
#include "train/model_impl.hpp"

namespace surefit {
namespace {

std::string with_commas(std::size_t number) {
  if (number < 1000) return fmt::format("{}", number);
  return fmt::format("{},{:03}", with_commas(number / 1000), number % 1000);
}

}  // namespace

std::string Model::summary() const {
  const Network& network = impl_->network;
  std::string text = fmt::format("Model: \"{}\"\n{:<42} {:<20} {:>12}  {}\n", impl_->name,
                                 "Layer (type)", "Output shape", "Parameters", "Connected to");
  text += std::string(100, '-') + "\n";
  std::size_t trainable = 0, frozen = 0;
  std::vector<bool> counted(network.layers().size(), false);
  for (const LayerCall& call : network.calls()) {
    const auto index = static_cast<std::size_t>(call.layer);
    const NamedLayer& layer = network.layers()[index];
    std::size_t own = 0;
    for (const Parameter& parameter : network.parameters()) {
      if (parameter.name.rfind(layer.name + "/", 0) != 0) continue;
      own += parameter.spec.shape.count();
      if (!counted[index])
        (parameter.trainable ? trainable : frozen) += parameter.spec.shape.count();
    }
    counted[index] = true;
    std::vector<std::string> inputs;
    for (const int input : call.inputs) {
      inputs.push_back(network
                           .layers()[static_cast<std::size_t>(
                               network.calls()[static_cast<std::size_t>(input)].layer)]
                           .name);
    }
    text += fmt::format("{:<42} {:<20} {:>12}  {}\n",
                        fmt::format("{} ({})", layer.name, layer.layer.class_name()),
                        call.shape.to_string(), with_commas(own),
                        impl_->is_sequential ? "" : fmt::to_string(fmt::join(inputs, ", ")));
  }
  text += std::string(100, '-') + "\n";
  text += fmt::format("Total parameters: {} ({})\nTrainable: {}\nNot trainable: {}\n",
                      with_commas(trainable + frozen), format_bytes((trainable + frozen) * 4),
                      with_commas(trainable), with_commas(frozen));
  return text;
}

}  // namespace surefit
