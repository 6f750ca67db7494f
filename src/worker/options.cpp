// SPDX-License-Identifier: Apache-2.0
#include "worker/options.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

#include "surefit/error.hpp"

#include "base/units.hpp"

namespace surefit::worker {

void ModelOptions::add_to(CLI::App& app) {
  app.add_option("--model", model, "zoo name (surefit model lists them) or Keras JSON file")
      ->required();
  app.add_option("--input", input, "HxWxC of a zoo model, such as 32x32x3");
  app.add_option("--classes", classes, "number of classes of a zoo model");
}

void ConvolutionOptions::add_to(CLI::App& app) {
  const auto add = [&](const char* name, Convolutions convolutions, std::string help) {
    if (convolutions == kDefaultConvolutions) help += " (the default)";
    return app.add_flag_callback(
        name, [this, convolutions] { chosen = convolutions; }, help);
  };
  auto* exact = add("--exact-conv", Convolutions::kExact, "convolutions by their definition");
  auto* winograd = add("--winograd", Convolutions::kWinograd,
                       "those of 3x3 by Winograd: faster, slightly larger rounding");
  auto* onednn = add("--onednn", Convolutions::kOneDnn, "those behind the first by oneDNN");
  exact->excludes(winograd)->excludes(onednn);
  winograd->excludes(onednn);
}

void MemoryOptions::add_to(CLI::App& app) {
  app.add_option("--memory", memory,
                 "what the whole process may hold, such as 512M or 1.5G; never changes a bit "
                 "(auto: what control groups, limits and the machine leave)")
      ->capture_default_str();
  app.add_option("--allow", allow,
                 "consent to what changes bits, used only where nothing else fits: "
                 "f16-activations, ghost-batch-norm, factored-optimizer")
      ->delimiter(',');
  app.add_option("--policy", policy,
                 "dtype policy: float32, mixed_float16 or mixed_bfloat16 (16-bit storage of what "
                 "the backward pass needs, 32-bit arithmetic)");
  app.add_option("--spill-to", spill_to,
                 "directory for activations when memory is short (default: the run's, or TMPDIR)");
}

void MemoryOptions::apply(FitOptions& fit) const {
  if (memory != "auto") {
    fit.memory_budget = parse_bytes(memory, "--memory");
    if (fit.memory_budget == 0)
      throw ConfigError("[--memory] expected a size such as 512M, or auto; got 0");
  }
  fit.allow = allow;
  fit.policy = policy;
  fit.spill_directory = spill_to;
}

DataError name_source(const DataError& error, const DataOptions& options) {
  std::string text = error.what();
  for (const auto& [name, source] :
       {std::pair<std::string, std::string>("[data]", options.data),
        std::pair<std::string, std::string>("[validation data]", options.validation)}) {
    if (text.starts_with(name)) text.replace(0, name.size(), fmt::format("[{}]", source));
  }
  return DataError(text, error.path(), error.offset());
}

void check_writable(const std::string& path, const std::string& option) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const char* directory = parent.empty() ? "." : parent.c_str();
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw SystemError(
        fmt::format("[{}] cannot write {}; expected the name of a file; got a directory", option,
                    path),
        EISDIR);
  }
  if (::access(directory, W_OK | X_OK) != 0) {
    throw SystemError(fmt::format("[{}] cannot write {}: {}", option, path, std::strerror(errno)),
                      errno);
  }
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
    throw ConfigError("[" + app.get_name() + "] " + error.what() + "; see " + app.get_name() +
                      " --help");
  }
}

}  // namespace surefit::worker
