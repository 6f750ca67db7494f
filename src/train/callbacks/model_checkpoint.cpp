// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "train/callbacks/monitor.hpp"

namespace surefit {
namespace {

// "{epoch:02d}-{val_loss:.2f}": Python's format strings, as far as names and numbers go.
std::string fill_pattern(const std::string& pattern, std::int64_t epoch, const Logs& logs) {
  std::string text;
  for (std::size_t at = 0; at < pattern.size();) {
    const char c = pattern[at];
    if ((c == '{' || c == '}') && at + 1 < pattern.size() && pattern[at + 1] == c) {
      text += c;
      at += 2;
      continue;
    }
    if (c != '{') {
      text += c;
      ++at;
      continue;
    }
    const std::size_t end = pattern.find('}', at);
    if (end == std::string::npos)
      throw ConfigError(
          fmt::format("[ModelCheckpoint.filepath] '{{' without '}}' in '{}'", pattern));
    const std::string field = pattern.substr(at + 1, end - at - 1);
    const std::string name = field.substr(0, field.find(':'));
    const std::string format =
        "{" + (name.size() < field.size() ? field.substr(name.size()) : "") + "}";
    const double* value = find_log(logs, name);
    if (name != "epoch" && value == nullptr) {
      throw ConfigError(
          fmt::format("[ModelCheckpoint.filepath] no number '{}' for '{}'; expected epoch or a log",
                      name, pattern));
    }
    try {
      text += name == "epoch" ? fmt::format(fmt::runtime(format), epoch)
                              : fmt::format(fmt::runtime(format), *value);
    } catch (const fmt::format_error& error) {
      throw ConfigError(
          fmt::format("[ModelCheckpoint.filepath] '{}' of '{}': {}", field, pattern, error.what()));
    }
    at = end + 1;
  }
  return text;
}

class ModelCheckpointImpl final : public Callback {
 public:
  explicit ModelCheckpointImpl(const ModelCheckpoint& spec)
      : spec_(spec), monitor_(spec.monitor, spec.mode, "ModelCheckpoint") {
    if (spec.filepath.empty())
      throw ConfigError("[ModelCheckpoint.filepath] expected the name of a file; got none");
  }

  std::string_view state_name() const override { return ModelCheckpoint::kClass; }
  void visit_state(StateVisitor& visitor) override {
    visitor.field("best", best_);
    visitor.field("steps", steps_);
  }

  void on_train_begin(TrainState& state) override {
    if (spec_.save_best_only) monitor_.check(state);
    Logs sample;
    for (const std::string& name : state.log_names()) sample.emplace_back(name, 0.0);
    fill_pattern(spec_.filepath, 1,
                 sample);  // a bad pattern is told before the first epoch, not behind it
    best_ = spec_.initial_value_threshold.value_or(monitor_.worst());
    steps_ = 0;
  }
  void on_train_batch_end(TrainState& state, const Logs& logs) override {
    if (spec_.save_freq.steps == 0 || ++steps_ < spec_.save_freq.steps) return;
    steps_ = 0;
    save(state, logs);
  }
  void on_epoch_end(TrainState& state, const Logs& logs) override {
    if (spec_.save_freq.steps == 0) save(state, logs);
  }

 private:
  void save(TrainState& state, const Logs& logs) {
    // Within an epoch there is no validation yet; then there is nothing to compare.
    const double* value = find_log(logs, monitor_.name());
    if (spec_.save_best_only && (value == nullptr || !monitor_.better(*value, best_))) return;
    const std::string path = fill_pattern(spec_.filepath, state.epoch() + 1, logs);
    try {
      spec_.save_weights_only ? state.save_weights(path) : state.save_checkpoint(path);
    } catch (const SystemError& error) {  // a full disk is no reason to lose the training
      state.warn(fmt::format("[ModelCheckpoint] {}", error.what()));
      return;
    }
    if (spec_.save_best_only) best_ = *value;
  }

  ModelCheckpoint spec_;
  Monitor monitor_;
  double best_ = 0;
  std::int64_t steps_ = 0;  // since the last save
};

}  // namespace

CallbackPtr make_callback(const ModelCheckpoint& spec) {
  return std::make_shared<ModelCheckpointImpl>(spec);
}

SaveFrequency::SaveFrequency(const char* text) {
  from_config(ConfigValue(std::string(text)), "save_freq", *this);
}

ConfigValue to_config(const SaveFrequency& value) {
  return value.steps == 0 ? ConfigValue(std::string("epoch")) : ConfigValue(value.steps);
}

void from_config(const ConfigValue& value, const std::string& where, SaveFrequency& out) {
  const auto* text = std::get_if<std::string>(&value.data);
  const auto* steps = std::get_if<std::int64_t>(&value.data);
  if (!(text != nullptr && *text == "epoch") && !(steps != nullptr && *steps > 0)) {
    throw ConfigError(
        fmt::format("[{}] expected epoch or a number of steps; got {}", where, value.to_string()));
  }
  out.steps = steps != nullptr ? *steps : 0;
}

}  // namespace surefit
