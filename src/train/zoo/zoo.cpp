// SPDX-License-Identifier: Apache-2.0
#include "surefit/zoo.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "train/zoo/architectures.hpp"

namespace surefit {
namespace {

struct Entry {
  const char* name;
  Shape input;
  int classes;
  Model (*make)(const Shape& input, int classes);
  int least_classes = 2;
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> list = {
      {"seed_cnn", Shape{28, 28, 1}, 10, zoo::seed_cnn},
      {"lenet5", Shape{28, 28, 1}, 10, zoo::lenet5},
      {"resnet18", Shape{32, 32, 3}, 10, zoo::resnet18},
      {"resnet50", Shape{224, 224, 3}, 1000, zoo::resnet50},
      {"vgg16", Shape{224, 224, 3}, 1000, zoo::vgg16},
      {"mobilenet_v2", Shape{224, 224, 3}, 1000, zoo::mobilenet_v2},
      {"unet", Shape{128, 128, 3}, 1, zoo::unet, 1},
  };
  return list;
}

}  // namespace

std::vector<std::string> zoo_names() {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) names.emplace_back(entry.name);
  return names;
}

Model zoo_model(const std::string& name, const ZooOptions& options) {
  for (const Entry& entry : entries()) {
    if (name != entry.name) continue;
    const Shape input = options.input.rank() == 0 ? entry.input : options.input;
    if (input.rank() != 3)
      throw ConfigError(fmt::format("[input] expected HxWxC; got {}", input.to_string()));
    const bool usual = options.classes == 0;
    if (!usual && (options.classes < entry.least_classes || options.classes > 1000000)) {
      throw ConfigError(fmt::format("[classes] expected {} or more; got {}", entry.least_classes,
                                    options.classes));
    }
    return entry.make(input, usual ? entry.classes : static_cast<int>(options.classes));
  }
  throw ConfigError(fmt::format("[model] unknown model '{}'; expected a .json file or one of: {}",
                                name, fmt::join(zoo_names(), ", ")));
}

}  // namespace surefit
