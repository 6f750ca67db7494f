// SPDX-License-Identifier: Apache-2.0
#include "train/checkpointing.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "interop/json.hpp"
#include "train/model_impl.hpp"
#include "train/state_text.hpp"

namespace surefit {
namespace {

std::vector<const Callback*> keepers_of(const FitOptions& options) {
  std::vector<const Callback*> keepers;
  for (const CallbackHandle& callback : options.callbacks) {
    if (callback->keeps_weights()) keepers.push_back(callback.get());
  }
  return keepers;
}

std::string directory_for(const FitOptions& options) {
  return options.run + "/checkpoints";
}

bool has_generations(const std::string& directory) {
  Env& env = Env::posix();
  if (!env.exists(directory)) return false;
  const auto names = env.list(directory);
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return generation_step(name).has_value(); });
}

Identity identity_from(const Json& json, const JsonWhere& where) {
  Identity identity;
  for (const auto& [key, value] : require_object(json, where).items()) {
    identity.emplace_back(key, require_string(value, where.at(key)));
  }
  return identity;
}

History history_from(const Json& json, const JsonWhere& where) {
  History history;
  for (const Json& name : get_array(json, "names", where)) {
    history.names.push_back(require_string(name, where.at("names")));
  }
  if (const Json* lossy = find_field(json, "lossy", where)) {
    for (const Json& name : require_array(*lossy, where.at("lossy")))
      history.lossy.push_back(require_string(name, where.at("lossy")));
  }
  for (const Json& row : get_array(json, "epochs", where)) {
    history.epochs.emplace_back();
    for (const Json& value : require_array(row, where.at("epochs"))) {
      history.epochs.back().push_back(state_number(value, where.at("epochs")));
    }
    if (history.epochs.back().size() != history.names.size()) {
      where.at("epochs").refuse("a row of another length",
                                fmt::format("{} numbers", history.names.size()),
                                fmt::format("{}", history.epochs.back().size()));
    }
  }
  return history;
}

}  // namespace

std::optional<std::string> recorded_rungs(const FitOptions& options) {
  if (!options.resume || options.run.empty()) return std::nullopt;
  const FoundCheckpoint found = find_newest(Env::posix(), directory_for(options));
  if (!found.file) return std::nullopt;
  const JsonWhere where(found.file->path());
  const Json json = parse_json(found.file->state(), found.file->path());
  for (const auto& [key, value] :
       identity_from(get_field(json, "identity", where), where.at("identity"))) {
    if (key == kRungsKey) return value;
  }
  return "";
}

Checkpointer::Checkpointer(Model::Impl& model, const FitOptions& options, const Lossy& lossy,
                           Feed& feed, Scores& scores, TrainProgress& progress)
    : model_(model),
      options_(options),
      feed_(feed),
      scores_(scores),
      progress_(progress),
      saves_(!options.run.empty() && options.checkpoint_every != "never"),
      tensors_(model.parameters, keepers_of(options)),
      schedule_(parse_save_every(options.checkpoint_every, "checkpoint_every"),
                tensors_.state_bytes()) {
  identity_ = identity_of(model, options, lossy);
  if (options.resume && options.run.empty()) {
    throw ConfigError(
        "[resume] no run is given; expected the directory that holds its checkpoints");
  }
  if (!saves_) return;
  std::string identity_text, data_text = feed.reader().state().serialise();
  StateText text(identity_text);
  text.open_object();
  for (const auto& [key, value] : identity_) text.member(key, value);
  text.close_object();
  fixed_members_ = fmt::format("{},\"data\":{}", identity_text, data_text);
}

void Checkpointer::commit(bool copy) {
  tensors_.allocate_kept();
  if (!saves_ || (tensors_.staging_bytes() > 0 && tensors_.staged() == copy)) return;
  if (saver_) saver_->wait();
  tensors_.allocate(copy);
}

void Checkpointer::open() {
  if (!saves_) return;
  lock_ = std::make_unique<RunLock>(options_.run);
  if (!options_.resume && has_generations(directory_for(options_))) {
    throw ConfigError(fmt::format(
        "[{}] already holds checkpoints; resume it, or choose another directory", options_.run));
  }
  saver_ = std::make_unique<Saver>(Env::posix(), directory_for(options_), options_.keep,
                                   tensors_.specs());
}

Checkpointer::~Checkpointer() = default;

// Appends only: text_ has room, but for the growth of the history between epochs.
void Checkpointer::write_text() {
  StateText text(text_);
  text.open_object();
  text.member("step", model_.iterations);
  text.member("epoch", progress_.epoch);
  text.member("position", progress_.position);
  text.member("epochs", progress_.epochs);
  text.member("steps_done", progress_.steps_done);
  text.member("stop", progress_.stop);
  text.member("stop_reason", progress_.history.stop_reason);
  text.member("finished", progress_.finished);
  text.member("learning_rate", model_.learning_rate);
  text.open_array("scores");
  scores_.visit([&](double& number) { text.item(number); });
  text.close_array();
  text.open_object("history");
  text.open_array("names");
  for (const std::string& name : progress_.history.names) text.item(name);
  text.close_array();
  text.open_array("lossy");
  for (const std::string& name : progress_.history.lossy) text.item(name);
  text.close_array();
  text.open_array("epochs");
  for (const auto& row : progress_.history.epochs) {
    text.open_array();
    for (const double value : row) text.item(value);
    text.close_array();
  }
  text.close_array();
  text.close_object();
  text.open_array("callbacks");
  StateTextVisitor visitor(text);
  for (const CallbackHandle& callback : options_.callbacks) {
    if (callback->state_name().empty()) continue;
    text.open_object();
    text.member("name", callback->state_name());
    text.open_object("state");
    callback->visit_state(visitor);
    text.close_object();
    text.close_object();
  }
  text.close_array();
  text.open_array("kept");
  for (std::size_t i = 0; i < tensors_.keepers(); ++i) text.item(tensors_.kept(i));
  text.close_array();
  text.raw_member("identity", fixed_members_);
  text.close_object();
}

std::vector<std::string> Checkpointer::differences_from(const Json& json, const JsonWhere& where) {
  std::vector<std::string> lines = differences(
      identity_from(get_field(json, "identity", where), where.at("identity")), identity_);
  data::State data = data::State::parse(dump_json(get_object(json, "data", where)));
  data.epoch = static_cast<std::uint64_t>(get_int(json, "epoch", where, 0));
  data.position = static_cast<std::uint64_t>(get_int(json, "position", where, 0));
  data.seed = options_.seed;
  try {
    feed_.reader().restore(data);
  } catch (const Error& error) {
    lines.emplace_back(error.what());
    feed_.reader().seek(data.epoch, data.position);
  }
  return lines;
}

bool Checkpointer::restore(TrainState& state) {
  if (!saver_) return false;
  saver_->wait();
  const FoundCheckpoint found = find_newest(Env::posix(), saver_->directory());
  for (const SkippedFile& file : found.skipped)
    state.warn(fmt::format("checkpoint skipped: {}", file.reason));
  if (!found.file) return false;
  const std::string& path = found.file->path();
  const Json json = parse_json(found.file->state(), path);
  const JsonWhere where(path);
  const std::vector<std::string> lines = differences_from(json, where);
  if (!lines.empty() && !options_.adapt) {
    throw ConfigError(fmt::format(
        "[resume] {} belongs to another training; expected the same model, data and numerics; "
        "got these differences:\n  {}\nuse the same, start a new run, or adapt (--adapt)",
        path, fmt::join(lines, "\n  ")));
  }
  for (const std::string& line : lines) state.warn("adapting: " + line);
  for (const std::string& name : tensors_.load(*found.file)) {
    state.warn(fmt::format("adapting: '{}' is not in the checkpoint; it starts as it is", name));
  }
  model_.iterations = static_cast<std::uint64_t>(get_int(json, "step", where, 0));
  const bool own_rate = std::none_of(
      lines.begin(), lines.end(), [](const auto& line) { return line.starts_with("optimizer"); });
  if (own_rate) model_.learning_rate = state_number(get_field(json, "learning_rate", where), where);
  progress_.epoch = get_int(json, "epoch", where, 0);
  progress_.position = static_cast<std::uint64_t>(get_int(json, "position", where, 0));
  progress_.steps_done = get_int(json, "steps_done", where, 0);
  progress_.stop = get_bool(json, "stop", where);
  progress_.finished = get_bool(json, "finished", where);
  // What this run computes otherwise stands in its history, too, where it was adapted.
  const std::vector<std::string> lossy = std::move(progress_.history.lossy);
  progress_.history = history_from(get_object(json, "history", where), where.at("history"));
  for (const std::string& name : lossy) {
    std::vector<std::string>& all = progress_.history.lossy;
    if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
  }
  progress_.history.stop_reason = get_string(json, "stop_reason", where);
  // More epochs than before: what ended the training then does not end it now.
  if (progress_.finished && options_.epochs > get_int(json, "epochs", where, 0)) {
    progress_.stop = false;
    progress_.history.stop_reason.clear();
  }
  progress_.finished = false;
  const Json& scores = get_array(json, "scores", where);
  std::size_t next = 0;
  scores_.visit([&](double& number) {
    number = next < scores.size() ? state_number(scores[next], where.at("scores")) : 0;
    ++next;
  });
  restore_callbacks(state, get_array(json, "callbacks", where), where.at("callbacks"));
  const Json& kept = get_array(json, "kept", where);
  for (std::size_t i = 0; i < tensors_.keepers(); ++i) {
    tensors_.set_kept(i, i < kept.size() && require_bool(kept[i], where.at("kept")));
  }
  return true;
}

// The n-th of a name gets the n-th state of that name.
void Checkpointer::restore_callbacks(TrainState& state, const Json& list, const JsonWhere& where) {
  std::vector<bool> taken(list.size(), false);
  for (const CallbackHandle& callback : options_.callbacks) {
    if (callback->state_name().empty()) continue;
    bool found = false;
    for (std::size_t i = 0; i < list.size() && !found; ++i) {
      const JsonWhere here = where.at(i);
      if (taken[i] || get_string(list[i], "name", here) != callback->state_name()) continue;
      StateJsonVisitor visitor(get_object(list[i], "state", here), here.at("state"));
      callback->visit_state(visitor);
      taken[i] = found = true;
    }
    if (!found)
      state.warn(
          fmt::format("{} is not in the checkpoint; it starts anew", callback->state_name()));
  }
}

void Checkpointer::begin() {
  if (!saver_) return;
  progress_.epochs = options_.epochs;
  schedule_.begin(monotonic_seconds());
  write_text();
  // Room for numbers with more digits and some epochs of history, in both strings that take turns.
  std::string other;
  other.reserve(2 * text_.size() + 4096);
  text_.reserve(2 * text_.size() + 4096);
  saver_->reserve_state(std::move(other));
}

void Checkpointer::after_step(TrainState& state, ThreadPool& pool) {
  if (!saver_) return;
  report(state);
  if (!schedule_.due_after_step(monotonic_seconds(), static_cast<std::int64_t>(model_.iterations)))
    return;
  if (schedule_.exact() || !saver_->busy()) save(state, pool);
}

void Checkpointer::after_epoch(TrainState& state, ThreadPool& pool) {
  if (!saver_) return;
  report(state);
  if (schedule_.due_after_epoch(progress_.epoch)) save(state, pool);
  if (text_.capacity() < text_.size() + text_.size() / 2) text_.reserve(2 * text_.size());
}

void Checkpointer::save(TrainState& state, ThreadPool& pool) {
  saver_->wait();
  report(state);
  const double started = monotonic_seconds();
  schedule_.started(started);
  write_text();
  if (tensors_.staged()) {
    tensors_.stage(pool);
    saver_->start(model_.iterations, text_, tensors_);
    stall_s_ = monotonic_seconds() - started;
  } else {
    const SaveReport report = saver_->save_now(model_.iterations, text_, tensors_);
    tell(state, report, monotonic_seconds() - started);
  }
}

void Checkpointer::save_now(TrainState& state, ThreadPool& pool) {
  if (!saver_) return;
  saver_->wait();
  report(state);
  const double started = monotonic_seconds();
  write_text();
  tensors_.stage(pool);
  const SaveReport done = saver_->save_now(model_.iterations, text_, tensors_);
  tell(state, done, monotonic_seconds() - started);
}

void Checkpointer::save_to(const std::string& path, ThreadPool& pool) {
  if (saver_) saver_->wait();
  if (tensors_.staging_bytes() == 0) tensors_.allocate(false);
  if (fixed_members_.empty()) fixed_members_ = "{},\"data\":" + feed_.reader().state().serialise();
  write_text();
  tensors_.stage(pool);
  write_checkpoint(Env::posix(), path,
                   {.tensors = tensors_.specs(), .step = model_.iterations, .state = text_},
                   tensors_);
}

void Checkpointer::report(TrainState& state) {
  if (!saver_) return;
  // The writer's time is taken from the training too, where all cores train.
  if (const auto report = saver_->take_report())
    tell(state, *report, stall_s_ + report->cpu_seconds);
}

void Checkpointer::tell(TrainState& state, const SaveReport& report, double cost_s) {
  if (report.saved) {
    schedule_.measured(cost_s);
  } else {
    schedule_.failed();
  }
  if (!report.problem.empty()) {
    state.warn(fmt::format("{} at step {}: {}", report.saved ? "checkpoint" : "no checkpoint",
                           report.step, report.problem));
  }
  const CheckpointEvent event{.step = static_cast<std::int64_t>(report.step),
                              .saved = report.saved,
                              .problem = report.problem,
                              .bytes = report.bytes,
                              .seconds = report.seconds,
                              .cost_s = cost_s};
  for (const CallbackHandle& callback : options_.callbacks) callback->on_checkpoint(state, event);
}

}  // namespace surefit
