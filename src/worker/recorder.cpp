// SPDX-License-Identifier: Apache-2.0
#include "worker/recorder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "surefit/error.hpp"
#include "surefit/model.hpp"

#include "base/clock.hpp"
#include "base/env.hpp"
#include "run/heartbeat.hpp"
#include "run/run_store.hpp"

namespace surefit {
namespace {

void write_text(const std::string& path, const std::string& text) {
  write_file_atomically(Env::posix(), path,
                        [&](WritableFile& file) { file.append(std::as_bytes(std::span(text))); });
}

std::string prepare(const std::string& directory) {
  Env& env = Env::posix();
  if (env.exists(directory + "/config.json")) {
    throw ConfigError(
        fmt::format("[--run] '{}' already holds a run; choose another directory", directory));
  }
  env.make_directories(directory);
  return directory;
}

class Recorder final : public Callback {
 public:
  Recorder(const std::string& directory, const Model& model, const std::string& config_json)
      : directory_(prepare(directory)),
        store_(directory + "/run.sqlite"),
        heartbeat_(directory + "/heartbeat") {
    write_text(directory_ + "/model.json", model.to_json());
    write_text(directory_ + "/config.json", config_json);
    store_.set("config", config_json);
    beat_.pid = ::getpid();
    beat(RunPhase::kStarting);
  }

  void on_train_begin(TrainState&) override { beat(RunPhase::kPlanning); }
  void on_train_batch_end(TrainState& state, const Logs& logs) override {
    beat_.step = static_cast<std::uint64_t>(state.step());
    beat_.epoch = static_cast<std::uint64_t>(state.epoch());
    beat_.loss = logs.empty() ? 0 : logs[0].second;
    beat(RunPhase::kTraining);
  }
  void on_test_begin(TrainState&) override { beat(RunPhase::kValidating); }
  void on_epoch_end(TrainState& state, const Logs& logs) override {
    std::vector<ScalarRow> rows;
    for (const auto& [name, value] : logs)
      rows.push_back({state.step(), state.epoch(), name, value, wall_seconds()});
    store_.add(rows);
  }
  void on_train_end(TrainState&) override { beat(RunPhase::kDone); }

 private:
  void beat(RunPhase phase) {
    beat_.phase = phase;
    beat_.monotonic_s = monotonic_seconds();
    heartbeat_.beat(beat_);
  }
  std::string directory_;
  RunStore store_;
  HeartbeatWriter heartbeat_;
  Heartbeat beat_;
};

}  // namespace

std::unique_ptr<Callback> make_recorder(const std::string& directory, const Model& model,
                                        const std::string& config_json) {
  return std::make_unique<Recorder>(directory, model, config_json);
}

}  // namespace surefit
