// SPDX-License-Identifier: Apache-2.0
#include "worker/recorder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "surefit/error.hpp"
#include "surefit/model.hpp"

#include "base/clock.hpp"
#include "base/env.hpp"
#include "interop/json.hpp"
#include "run/heartbeat.hpp"
#include "run/run_store.hpp"

namespace surefit {
namespace {

void write_text(const std::string& path, const std::string& text) {
  write_file_atomically(Env::posix(), path,
                        [&](WritableFile& file) { file.append(std::as_bytes(std::span(text))); });
}

std::string prepare(const std::string& directory, bool resume) {
  Env& env = Env::posix();
  if (!resume && env.exists(directory + "/config.json")) {
    throw ConfigError(
        fmt::format("[--run] '{}' already holds a run; add --resume to continue it, or choose "
                    "another directory",
                    directory));
  }
  env.make_directories(directory);
  return directory;
}

class Recorder final : public Callback {
 public:
  Recorder(const std::string& directory, const Model& model, const std::string& config_json,
           bool resume)
      : directory_(prepare(directory, resume)),
        store_(directory + "/run.sqlite"),
        heartbeat_(directory + "/heartbeat") {
    // What a run began with stays; what a resume asks for is an event.
    if (!Env::posix().exists(directory_ + "/model.json"))
      write_text(directory_ + "/model.json", model.to_json());
    if (!Env::posix().exists(directory_ + "/config.json")) {
      store_.set("config", config_json);
      write_text(directory_ + "/config.json", config_json);
    } else {
      event("resume", config_json);
    }
    beat_.pid = ::getpid();
    beat(RunPhase::kStarting);
  }

  void on_train_begin(TrainState&) override { beat(RunPhase::kPlanning); }
  void on_resume(TrainState& state) override {
    store_.forget_from(state.epoch());
    event("resumed", dump_json({{"step", state.step()}, {"epoch", state.epoch()}}));
  }
  // The first epoch: what an attempt before left, without a checkpoint to go on from, is of no use.
  void on_epoch_begin(TrainState& state) override {
    if (state.step() == 0) store_.forget_from(0);
  }
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
    flush();
  }
  void on_checkpoint(TrainState&, const CheckpointEvent& saved) override {
    // Kept until the end of the epoch: a step must not wait for the store.
    if (checkpoints_.size() < checkpoints_.capacity())
      checkpoints_.push_back({wall_seconds(), saved});
  }
  void on_warning(TrainState&, const std::string& text) override {
    event("warning", dump_json({{"text", text}}));
  }
  void on_train_end(TrainState&) override {
    flush();
    beat(RunPhase::kDone);
  }
  ~Recorder() override {
    try {
      flush();
    } catch (const Error&) {  // the run's own files have it
    }
  }

 private:
  void event(const std::string& kind, const std::string& detail) {
    store_.add(EventRow{wall_seconds(), kind, detail});
  }
  void flush() {
    for (const auto& [time, saved] : checkpoints_) {
      store_.add(EventRow{
          time, saved.saved ? "checkpoint" : "no checkpoint",
          dump_json({{"step", saved.step}, {"bytes", saved.bytes}, {"seconds", saved.seconds}})});
    }
    checkpoints_.clear();
  }
  void beat(RunPhase phase) {
    beat_.phase = phase;
    beat_.monotonic_s = monotonic_seconds();
    heartbeat_.beat(beat_);
  }
  std::string directory_;
  RunStore store_;
  HeartbeatWriter heartbeat_;
  Heartbeat beat_;
  std::vector<std::pair<double, CheckpointEvent>> checkpoints_ = reserved();
  static std::vector<std::pair<double, CheckpointEvent>> reserved() {
    std::vector<std::pair<double, CheckpointEvent>> room;
    room.reserve(256);
    return room;
  }
};

}  // namespace

std::unique_ptr<Callback> make_recorder(const std::string& directory, const Model& model,
                                        const std::string& config_json, bool resume) {
  return std::make_unique<Recorder>(directory, model, config_json, resume);
}

}  // namespace surefit
