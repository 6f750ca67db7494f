// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/clock.hpp"
#include "base/process_memory.hpp"
#include "base/units.hpp"
#include "engine/kernels/table.hpp"
#include "interop/json.hpp"
#include "train/model_impl.hpp"
#include "train/setup.hpp"
#include "worker/interruption.hpp"
#include "worker/options.hpp"
#include "worker/progress.hpp"
#include "worker/recorder.hpp"
#include "worker/run_options.hpp"
#include "worker/verbs.hpp"

namespace surefit::worker {
namespace {

constexpr const char* kExample = R"(
Example:
  surefit train --model seed_cnn --data fashion-mnist --validation fashion-mnist --epochs 3 --save w.safetensors
A run that was stopped or killed goes on by:
  surefit train --resume
)";

struct TrainOptions {
  ModelOptions model;
  DataOptions data;
  RunOptions run;
  MemoryOptions memory;
  ConvolutionOptions convolutions;
  std::string optimizer, loss, init, save;
  std::vector<std::string> metrics, class_weight;
  std::int64_t epochs = 1, steps = 0, group = 0;
  std::uint64_t seed = 0;
  bool no_shuffle = false, check_numerics = false, json = false, quiet = false;

  void add_to(CLI::App& app) {
    model.add_to(app);
    data.add_to(app, DataUse::kTrain);
    app.add_option("--epochs", epochs, "passes over the data")->capture_default_str();
    app.add_option("--optimizer", optimizer,
                   "name:key=value,..., such as sgd:learning_rate=0.1,momentum=0.9 (default: the "
                   "model file's, or adam)");
    app.add_option("--loss", loss,
                   "Keras's name of a loss (default: the model file's, or what fits output and "
                   "labels)");
    app.add_option("--metrics", metrics, "comma separated (default: the model file's, or accuracy)")
        ->delimiter(',');
    app.add_option("--class-weight", class_weight,
                   "class:weight,...: how much the loss of a class counts in training, such as "
                   "0:1,1:2.5 (1 for classes that are not listed)")
        ->delimiter(',');
    app.add_option("--seed", seed, "of initial weights, shuffling and dropout")
        ->capture_default_str();
    app.add_option("--steps", steps, "stop after this many steps over all epochs")
        ->check(CLI::PositiveNumber);
    memory.add_to(app);
    app.add_option("--group", group,
                   "samples in flight at once; never changes a bit (default: planned)")
        ->check(CLI::PositiveNumber);
    convolutions.add_to(app);
    app.add_flag("--no-shuffle", no_shuffle, "take the data in order");
    app.add_option("--init", init, "initial weights, safetensors");
    app.add_option("--save", save, "where to write the trained weights, safetensors");
    run.add_to(app);
    app.add_flag("--check-numerics", check_numerics,
                 "look for NaN and Inf behind every node (slow)");
    app.add_flag("--json", json, "one JSON object per line on stdout");
    app.add_flag("--quiet", quiet, "no progress");
  }
};

Dataset batches(const Dataset& samples, const TrainOptions& options, bool shuffle) {
  Dataset data = samples;
  if (shuffle) data = data.shuffle(data.cardinality().value_or(10000));
  return data.batch(static_cast<std::uint64_t>(options.data.batch_size)).prefetch();
}

// What was asked for, so that a run can be understood and repeated.
std::string config_json(const TrainOptions& options, const FitOptions& fit, const Model& model,
                        const Arguments& arguments) {
  const Compiled& compiled = *model.impl().compiled;
  std::vector<std::string> metrics;
  for (const Metric& metric : compiled.targets[0].metrics) metrics.push_back(metric.name());
  Json json = {{"arguments", arguments_to_record(arguments)},
               {"model", options.model.model},
               {"data", options.data.data},
               {"validation", options.data.validation},
               {"epochs", options.epochs},
               {"batch_size", options.data.batch_size},
               {"optimizer",
                options.optimizer.empty() ? compiled.optimizer.class_name() : options.optimizer},
               {"loss", options.loss.empty() ? compiled.targets[0].loss.name() : options.loss},
               {"metrics", metrics},
               {"class_weight", options.class_weight},
               {"seed", options.seed},
               {"shuffle", !options.no_shuffle},
               {"resize", options.data.resize},
               {"augment", options.data.augment},
               {"convolutions", name_of(fit.convolutions)},
               {"instruction_set", kernels::table().bits}};
  return dump_json(json, 1) + "\n";
}

std::pair<std::int64_t, double> parse_class_weight(const std::string& text) {
  std::int64_t label = 0;
  double weight = 0;
  const char* end = text.data() + text.size();
  const auto [colon, bad_label] = std::from_chars(text.data(), end, label);
  const bool split = bad_label == std::errc() && label >= 0 && colon != end && *colon == ':';
  if (split) {
    const auto [rest, bad_weight] = std::from_chars(colon + 1, end, weight);
    if (bad_weight == std::errc() && rest == end) return {label, weight};
  }
  throw ConfigError(
      fmt::format("[--class-weight] expected class:weight, such as 3:2.5; got '{}'", text));
}

void print_result(const History& history, const TrainOptions& options, double seconds) {
  if (options.json) {
    fmt::print("{{\"event\":\"end\",\"time\":{:.3f},\"epochs\":{},\"peak_bytes\":{}",
               wall_seconds(), history.epochs.size(), read_process_memory().peak_bytes);
    if (!history.epochs.empty()) {
      for (std::size_t i = 0; i < history.names.size(); ++i) {
        fmt::print(",\"{}\":{}", history.names[i], history.epochs.back()[i]);
      }
    }
    if (!history.lossy.empty()) fmt::print(",\"lossy\":{}", dump_json(Json(history.lossy)));
    fmt::print("}}\n");
    return;
  }
  std::string text = fmt::format("trained {} epoch{} in {}", history.epochs.size(),
                                 history.epochs.size() == 1 ? "" : "s", format_duration(seconds));
  for (std::size_t i = 0; i < history.names.size() && !history.epochs.empty(); ++i) {
    text += fmt::format(" - {}: {:.4f}", history.names[i], history.epochs.back()[i]);
  }
  fmt::print("{}\n", text);
  if (!history.lossy.empty())
    fmt::print("not the exact bits, as allowed: {}\n", fmt::join(history.lossy, ", "));
  if (!history.stop_reason.empty()) fmt::print("ended early: {}\n", history.stop_reason);
  if (!options.save.empty()) fmt::print("saved {}\n", options.save);
}

}  // namespace

int train_verb(const Arguments& given) {
  const Arguments arguments = with_recorded_arguments(given);
  CLI::App app("Trains a model.", "surefit train");
  TrainOptions options;
  options.add_to(app);
  app.footer(kExample);
  if (const auto code = parse(app, arguments)) return *code;
  if (options.data.batch_size < 1) {
    throw ConfigError(
        fmt::format("[--batch-size] expected at least 1; got {}", options.data.batch_size));
  }
  if (!options.save.empty()) check_writable(options.save, "--save");

  options.run.choose_directory(options.model.model);
  options.run.pin_instruction_set();
  Model model = options.model.make();
  const Dataset samples = options.data.train_samples();
  model.compile(naming_sources(options.data, [&] {
    return compile_options(
        model, samples,
        {.optimizer = options.optimizer, .loss = options.loss, .metrics = options.metrics});
  }));
  if (options.seed != 0) model.initialize(options.seed);  // a new model has seed 0
  if (!options.init.empty()) model.load_weights(options.init);

  FitOptions fit;
  fit.batch_size = options.data.batch_size;
  fit.epochs = options.epochs;
  fit.seed = options.seed;
  fit.threads = options.data.threads;
  fit.max_steps = options.steps;
  fit.group = options.group;
  options.memory.apply(fit);
  fit.convolutions = options.convolutions.chosen.value_or(options.run.recorded_convolutions());
  fit.check_numerics = options.check_numerics;
  for (const std::string& pair : options.class_weight)
    fit.class_weight.push_back(parse_class_weight(pair));
  if (!options.data.validation.empty()) {
    fit.validation_data = batches(options.data.validation_samples(), options, false);
  }
  const auto interruption = make_interruption(options.run.deadline_s());
  fit.callbacks.push_back(interruption.get());
  fit.callbacks.push_back(make_progress(options.json    ? ProgressStyle::kJson
                                        : options.quiet ? ProgressStyle::kQuiet
                                                        : ProgressStyle::kAuto));
  fit.input = options.data.input(options.run.run, options.json);
  options.run.apply(fit);
  std::unique_ptr<Callback> recorder;  // behind those that may refuse their options
  if (!options.run.run.empty()) {
    recorder = make_recorder(options.run.run, model, config_json(options, fit, model, arguments),
                             options.run.resume);
    fit.callbacks.push_back(recorder.get());
  }
  const double started = monotonic_seconds();
  const History history = naming_sources(
      options.data, [&] { return model.fit(batches(samples, options, !options.no_shuffle), fit); });
  if (history.interrupted) {
    fmt::print(stderr, "stopped: {}; continue with: surefit train --resume --run {}\n",
               history.stop_reason, options.run.run);
    return static_cast<int>(ExitCode::kStopped);
  }
  if (!options.save.empty()) model.save_weights(options.save);
  print_result(history, options, monotonic_seconds() - started);
  return 0;
}

}  // namespace surefit::worker
