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

class Recorder final : public Callback {
 public:
  Recorder(const std::string& directory, const Model& model, const std::string& config_json,
           bool resume)
      : directory_(directory), model_json_(model.to_json()), config_json_(config_json) {
    if (!resume && Env::posix().exists(directory + "/config.json")) {
      throw ConfigError(
          fmt::format("[--run] '{}' already holds a run; add --resume to continue it, or choose "
                      "another directory",
                      directory));
    }
    checkpoints_.reserve(256);
  }

  // Nothing is written before every option has been found good: a slip of the hand leaves no run.
  void on_train_begin(TrainState& state) override {
    Env& env = Env::posix();
    env.make_directories(directory_);
    heartbeat_ = std::make_unique<HeartbeatWriter>(directory_ + "/heartbeat");
    beat_.pid = ::getpid();
    beat_plan(state.memory());
    attempt(state, [&] { store_ = std::make_unique<RunStore>(directory_ + "/run.sqlite"); });
    // What a run began with stays; what a resume asks for is an event.
    if (!env.exists(directory_ + "/model.json"))
      write_text(directory_ + "/model.json", model_json_);
    const bool known = env.exists(directory_ + "/config.json");
    if (!known) write_text(directory_ + "/config.json", config_json_);
    attempt(state,
            [&] { known ? event("resume", config_json_) : store_->set("config", config_json_); });
  }
  void on_resume(TrainState& state) override {
    attempt(state, [&] {
      store_->forget_from(state.epoch());
      event("resumed", dump_json({{"step", state.step()}, {"epoch", state.epoch()}}));
    });
  }
  // The first epoch: what an attempt before left, without a checkpoint to go on from, is of no use.
  void on_epoch_begin(TrainState& state) override {
    if (state.step() == 0) attempt(state, [&] { store_->forget_from(0); });
  }
  void on_train_batch_end(TrainState& state, const Logs& logs) override {
    beat_.step = static_cast<std::uint64_t>(state.step());
    beat_.epoch = static_cast<std::uint64_t>(state.epoch());
    beat_.loss = logs.empty() ? 0 : logs[0].second;
    beat(RunPhase::kTraining);
  }
  void on_test_begin(TrainState&) override { beat(RunPhase::kValidating); }
  void on_epoch_end(TrainState& state, const Logs& logs) override {
    attempt(state, [&] {
      std::vector<ScalarRow> rows;
      for (const auto& [name, value] : logs)
        rows.push_back({state.step(), state.epoch(), name, value, wall_seconds()});
      store_->add(rows);
      flush();
    });
  }
  void on_checkpoint(TrainState&, const CheckpointEvent& saved) override {
    // Kept until the end of the epoch: a step must not wait for the store.
    if (checkpoints_.size() < checkpoints_.capacity())
      checkpoints_.push_back({wall_seconds(), saved});
  }
  void on_plan_change(TrainState& state, const std::string& text) override {
    beat_plan(state.memory());
    attempt(state, [&] { event("plan", dump_json({{"step", state.step()}, {"text", text}})); });
  }
  void on_warning(TrainState&, const std::string& text) override {
    try {
      if (store_) event("warning", dump_json({{"text", text}}));
    } catch (const Error&) {  // the user has been told
    }
  }
  void on_train_end(TrainState& state) override {
    attempt(state, [&] { flush(); });
    beat(RunPhase::kDone);
  }
  ~Recorder() override {
    try {
      if (store_) flush();
    } catch (const Error&) {  // the run's own files have it
    }
  }

 private:
  // A store that cannot be written loses numbers, never the training.
  template <typename Work>
  void attempt(TrainState& state, const Work& work) {
    if (failed_) return;
    try {
      work();
    } catch (const Error& error) {
      failed_ = true;
      store_.reset();
      state.warn(fmt::format("the run is no longer recorded: {}", error.what()));
    }
  }
  void event(const std::string& kind, const std::string& detail) {
    store_->add(EventRow{wall_seconds(), kind, detail});
  }
  void flush() {
    for (const auto& [time, saved] : checkpoints_) {
      store_->add(EventRow{
          time, saved.saved ? "checkpoint" : "no checkpoint",
          dump_json({{"step", saved.step}, {"bytes", saved.bytes}, {"seconds", saved.seconds}})});
    }
    checkpoints_.clear();
  }
  void beat_plan(const MemoryReport& memory) {
    beat_.arena_bytes = memory.arena_bytes;
    beat_.budget_bytes = memory.budget_bytes;
    beat(RunPhase::kPlanning);
  }
  void beat(RunPhase phase) {
    beat_.phase = phase;
    beat_.monotonic_s = monotonic_seconds();
    if (heartbeat_) heartbeat_->beat(beat_);
  }
  std::string directory_, model_json_, config_json_;
  std::unique_ptr<RunStore> store_;
  bool failed_ = false;
  std::unique_ptr<HeartbeatWriter> heartbeat_;
  Heartbeat beat_;
  std::vector<std::pair<double, CheckpointEvent>> checkpoints_;
};

}  // namespace

std::unique_ptr<Callback> make_recorder(const std::string& directory, const Model& model,
                                        const std::string& config_json, bool resume) {
  return std::make_unique<Recorder>(directory, model, config_json, resume);
}

}  // namespace surefit
