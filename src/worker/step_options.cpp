// SPDX-License-Identifier: Apache-2.0
#include "worker/step_options.hpp"

#include <fmt/format.h>

namespace surefit::worker {

void StepOptions::add_to(CLI::App& app) {
  model.add_to(app);
  memory.add_to(app);
  app.add_option("--batch-size", batch_size, "samples per step")->capture_default_str();
  app.add_option("--threads", threads, "threads (default: as many as cores and CPU quota allow)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--group", group, "samples in flight at once (default: planned)")
      ->check(CLI::PositiveNumber);
  app.add_option("--optimizer", optimizer, "name:key=value,...; its slots count")
      ->capture_default_str();
  app.add_option("--loss", loss, "Keras's name of a loss")->capture_default_str();
  convolutions.add_to(app);
}

Model StepOptions::compiled() const {
  Model made = model.make();
  const NamedArguments named = parse_named(optimizer, "--optimizer");
  const NamedArguments how = parse_named(loss, "--loss");
  made.compile({.optimizer = Optimizer::from_config(named.name, named.arguments),
                .loss = Loss::from_config(how.name, how.arguments)});
  return made;
}

FitOptions StepOptions::fit() const {
  if (batch_size < 1)
    throw ConfigError(fmt::format("[--batch-size] expected at least 1; got {}", batch_size));
  FitOptions fit;
  fit.batch_size = batch_size;
  fit.threads = threads;
  fit.group = group;
  fit.convolutions = convolutions.value();
  memory.apply(fit);
  return fit;
}

}  // namespace surefit::worker
