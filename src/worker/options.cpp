// SPDX-License-Identifier: Apache-2.0
#include "worker/options.hpp"

#include <algorithm>
#include <cstdio>

#include "surefit/error.hpp"

namespace surefit::worker {

void ModelOptions::add_to(CLI::App& app) {
  app.add_option("--model", model, "zoo name (surefit model lists them) or Keras JSON file")->required();
  app.add_option("--input", input, "HxWxC of a zoo model, such as 32x32x3");
  app.add_option("--classes", classes, "number of classes of a zoo model");
}

void DataOptions::add_to(CLI::App& app, bool with_validation) {
  app.add_option("--data", data, "fashion-mnist, idx:DIR, npz:FILE or synthetic:HxWxC,CLASSES,COUNT")->required();
  if (with_validation) app.add_option("--validation", validation, "data to validate on after each epoch");
  app.add_option("--batch-size", batch_size, "samples per step")->capture_default_str();
  app.add_option("--threads", threads, "threads; any number gives the same bits (default: all cores)");
}

std::optional<int> parse(CLI::App& app, std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(arguments);
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::ParseError& error) {
    throw ConfigError("[" + app.get_name() + "] " + error.what() + "; see " + app.get_name() + " --help");
  }
}

}  // namespace surefit::worker
