// SPDX-License-Identifier: Apache-2.0
#include "worker/run_options.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>

#include "base/env.hpp"
#include "base/units.hpp"
#include "interop/json.hpp"
#include "run/run_directory.hpp"
#include "train/setup.hpp"
#include "worker/arguments.hpp"

namespace surefit::worker {
namespace {

// An option with its values: "--run r", "--run=r", "--resume".
using Group = std::vector<std::string>;

std::string name_of(const Group& group) {
  return group.front().substr(0, group.front().find('='));
}

std::vector<Group> groups_of(const std::vector<std::string>& words) {
  std::vector<Group> groups;
  for (const std::string& word : words) {
    if (groups.empty() || word.starts_with("--")) groups.emplace_back();
    groups.back().push_back(word);
  }
  return groups;
}

const Group* find_group(const std::vector<Group>& groups, const std::string& name) {
  const auto found = std::find_if(groups.begin(), groups.end(),
                                  [&](const Group& group) { return name_of(group) == name; });
  return found == groups.end() ? nullptr : &*found;
}

std::string value_of(const Group& group) {
  const std::size_t equals = group.front().find('=');
  if (equals != std::string::npos) return group.front().substr(equals + 1);
  return group.size() > 1 ? group[1] : "";
}

}  // namespace

void RunOptions::add_to(CLI::App& app) {
  app.add_option("--run", run, "directory of the run (default: runs/MODEL-TIME)");
  app.add_flag("--resume", resume,
               "continue the run (default: the newest in runs/) from its newest valid checkpoint");
  app.add_flag("--adapt", adapt,
               "resume although model, data or numerics differ; what does not fit starts anew");
  app.add_option("--checkpoint-every", checkpoint_every,
                 "auto (at most 1 % of the time), 30s, 500steps, 1epoch or never")
      ->capture_default_str();
  app.add_option("--keep", keep, "checkpoints to keep, at least 2")
      ->capture_default_str()
      ->check(CLI::Range(2, 1000000));
  app.add_flag("--no-staging", no_staging,
               "write checkpoints without a copy in memory; training waits for the disk");
  app.add_option("--deadline", deadline,
                 "stop with a checkpoint before this much time is over, such as 11h50m");
  app.add_option(
      "--callback", callbacks,
      "name:key=value,..., such as early_stopping:monitor=val_loss,patience=3 (may be repeated)");
}

void RunOptions::choose_directory(const std::string& model) {
  if (!run.empty()) return;
  if (resume) run = newest_training_run("runs");
  if (run.empty() && checkpoint_every != "never") {
    run = fresh_run_directory(
        "runs", std::filesystem::path(model.substr(0, model.find(':'))).stem().string());
  }
}

// What config.json of a run to be resumed says; empty where there is none, or no such word.
std::string RunOptions::recorded(const std::string& key) const {
  const std::string path = run + "/config.json";
  if (!resume || run.empty() || !Env::posix().exists(path)) return {};
  const Json config = read_json(Env::posix(), path);
  const Json* value = find_field(config, key, path);
  return value == nullptr ? std::string() : require_string(*value, path);
}

void RunOptions::pin_instruction_set() const {
  if (!adapt && recorded("instruction_set") == "baseline") ::setenv("SUREFIT_ISA", "baseline", 0);
}

Convolutions RunOptions::recorded_convolutions() const {
  return convolutions_by_name(recorded("convolutions")).value_or(kDefaultConvolutions);
}

void RunOptions::apply(FitOptions& fit) const {
  fit.run = run;
  fit.resume = resume && !run.empty();
  fit.adapt = adapt;
  fit.checkpoint_every = checkpoint_every;
  fit.keep = static_cast<int>(keep);
  fit.checkpoint_staging = !no_staging;
  for (const std::string& text : callbacks) {
    const NamedArguments named = parse_named(text, "--callback");
    fit.callbacks.push_back(CallbackHandle::from_config(named.name, named.arguments));
  }
  if (!run.empty() && fit.validation_data) {
    fit.callbacks.push_back(ModelCheckpoint{
        .filepath = run + "/best.safetensors", .save_best_only = true, .save_weights_only = true});
  }
}

double RunOptions::deadline_s() const {
  return deadline.empty() ? 0 : parse_duration(deadline, "--deadline");
}

std::vector<std::string> with_recorded_arguments(const std::vector<std::string>& words) {
  const std::vector<Group> given = groups_of(words);
  if (find_group(given, "--resume") == nullptr || find_group(given, "--model") != nullptr)
    return words;
  const Group* run = find_group(given, "--run");
  const std::string directory = run != nullptr ? value_of(*run) : newest_training_run("runs");
  const std::string path = directory + "/config.json";
  if (directory.empty() || !Env::posix().exists(path)) return words;
  const Json config = read_json(Env::posix(), path);
  std::vector<std::string> recorded;
  for (const Json& word : get_array(config, "arguments", path))
    recorded.push_back(require_string(word, path));
  std::vector<std::string> all;
  for (const Group& group : groups_of(recorded)) {
    if (find_group(given, name_of(group)) == nullptr)
      all.insert(all.end(), group.begin(), group.end());
  }
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

std::vector<std::string> arguments_to_record(const std::vector<std::string>& words) {
  std::vector<std::string> kept;
  for (const Group& group : groups_of(words)) {
    const std::string name = name_of(group);
    if (name == "--run" || name == "--resume" || name == "--adapt") continue;
    kept.insert(kept.end(), group.begin(), group.end());
  }
  return kept;
}

}  // namespace surefit::worker
