// SPDX-License-Identifier: Apache-2.0
#include "guard/store.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include "surefit/error.hpp"

#include "base/clock.hpp"
#include "base/env.hpp"
#include "base/units.hpp"
#include "guard/machine.hpp"
#include "guard/words.hpp"
#include "run/run_directory.hpp"

namespace surefit::guard {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKeptForeignRuns = 50;

bool make_usable(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  return ::access(directory.c_str(), W_OK | X_OK) == 0;
}

// Old traces of foreign commands; only directories that hold nothing but what the guard wrote.
void prune(const std::string& parent) {
  auto runs = list_runs(parent);
  for (std::size_t i = kKeptForeignRuns; i < runs.size(); ++i) {
    if (black_box_is_live(runs[i].path + "/blackbox")) continue;
    std::error_code error;
    for (const char* name :
         {"blackbox", "obituary.json", "run.sqlite", "run.sqlite-wal", "run.sqlite-shm"})
      fs::remove(runs[i].path + "/" + name, error);
    fs::remove(runs[i].path, error);
  }
}

}  // namespace

std::vector<std::string> tell_black_box(const std::string& path, const BlackBoxContent& content) {
  std::vector<std::string> lines;
  if (content.ended) return lines;
  const BlackBoxIdentity& id = content.identity;
  const bool same_boot = std::strncmp(id.boot_id.data(), boot_id().c_str(), id.boot_id.size()) == 0;
  const double last = content.samples.empty() ? id.start_time : content.samples.back().time;
  std::string why = same_boot
                        ? "the guard itself was killed (kill -9, or an OOM kill of the whole group)"
                        : "the machine restarted or lost power";
  lines.push_back(
      fmt::format("surefit: an earlier run of `{}` ended without a goodbye, {} ago: {} [{}]",
                  id.command.data(), format_duration(std::max(0.0, wall_seconds() - last)), why,
                  same_boot ? "probable" : "certain"));
  if (!content.samples.empty()) {
    const BlackBoxSample& s = content.samples.back();
    lines.push_back(fmt::format(
        "surefit:   last sample: {} resident, {} processes, step {}, after {}",
        format_bytes(s.rss_bytes), s.processes, s.step, format_duration(s.time - id.start_time)));
  }
  const auto words = last_lines(content.tail, 1);
  if (!words.empty()) lines.push_back("surefit:   last words: " + words.back());
  const auto stat = id.child_pid > 0 ? read_stat(id.child_pid) : std::nullopt;
  if (same_boot && stat && stat->start_ticks == id.child_start_ticks && stat->state != 'Z') {
    lines.push_back(fmt::format(
        "surefit:   its process {} ({}) is STILL RUNNING without a guard; stop it with: kill {}",
        id.child_pid, stat->name, id.child_pid));
  }
  lines.push_back("surefit:   black box: " + path);
  return lines;
}

void Store::look_back(const std::string& path, const std::string& here) {
  if (black_box_is_live(path)) return;
  const auto content = read_black_box(path);
  if (!content || content->ended || content->identity.directory.data() != here) return;
  for (std::string& line : tell_black_box(path, *content)) previous_.push_back(std::move(line));
}

void Store::open(const std::string& directory, const std::vector<std::string>& command,
                 bool own_trainer) {
  own_trainer_ = own_trainer;
  std::error_code error;
  const std::string here = fs::current_path(error).string();
  directory_ = directory;
  if (directory_.empty()) {
    const std::string state = state_directory();
    if (!state.empty()) {
      const std::string parent = state + "/runs";
      for (const RunSummary& run : list_runs(parent)) {
        const std::string box = run.path + "/blackbox";
        const std::size_t before = previous_.size();
        look_back(box, here);
        // Told once: renamed, so that the next start is not bothered again.
        if (previous_.size() > before) {
          fs::rename(box, box + ".told", error);
          previous_.back() += ".told";
        }
      }
      prune(parent);
      directory_ = fresh_run_directory(parent, fs::path(command.front()).filename().string());
      temporary_ = true;
    }
  } else if (::access((directory_ + "/blackbox").c_str(), F_OK) == 0) {
    const std::string box = directory_ + "/blackbox";
    if (black_box_is_live(box)) {
      throw ConfigError(
          fmt::format("[guard] {} is in use by another guard; expected a run directory of its own; "
                      "choose another --run",
                      directory_));
    }
    if (const auto content = read_black_box(box)) {
      for (std::string& line : tell_black_box(box + ".1", *content))
        previous_.push_back(std::move(line));
    }
    fs::rename(box, box + ".1", error);
  }
  if (directory_.empty() || !make_usable(directory_)) {
    previous_.push_back(
        fmt::format("surefit: cannot write to {}: no black box and no obituary file for this run",
                    directory_.empty() ? "any state directory" : directory_));
    directory_.clear();
    return;
  }
  try {
    box_ = std::make_unique<BlackBox>(directory_ + "/blackbox");
  } catch (const SystemError& failure) {
    previous_.push_back(
        fmt::format("surefit: {}; the run goes on without a black box", failure.what()));
  }
}

bool Store::open_run_store() {
  if (run_store_) return true;
  if (run_store_failed_ || directory_.empty()) return false;
  try {
    run_store_ = std::make_unique<RunStore>(directory_ + "/run.sqlite");
    return true;
  } catch (const Error&) {
    run_store_failed_ = true;  // obituary.json still tells the story
    return false;
  }
}

void Store::memory(const BlackBoxSample& sample) {
  if (box_) box_->sample(sample);
  // Once a second is enough for a curve; the first minute of a foreign command may never be written
  // at all.
  if (sample.time - last_row_ < 1) return;
  last_row_ = sample.time;
  if (box_) box_->start_writeback();
  rows_.push_back({sample.time, "guard", sample.rss_bytes, sample.pss_bytes, sample.used_bytes,
                   sample.limit_bytes});
  if (last_flush_ == 0) last_flush_ = sample.time;
  if (sample.time - last_flush_ > 30) flush();
}

void Store::flush() {
  last_flush_ = rows_.empty() ? last_flush_ : rows_.back().time;
  if (rows_.empty() || !open_run_store()) return;
  try {
    run_store_->add(rows_);
  } catch (const Error&) {
    // A busy or full store loses samples, never the run; the black box has them.
  }
  rows_.clear();
}

void Store::event(const std::string& kind, const std::string& detail_json) {
  if (box_) box_->note(kind + " " + detail_json);
  if (!open_run_store()) return;
  try {
    run_store_->add(EventRow{wall_seconds(), kind, detail_json});
  } catch (const Error&) {
  }
}

void Store::keep(Obituary& obituary) {
  if (directory_.empty()) return;
  const std::string path = directory_ + "/obituary.json";
  obituary.saved_to = path;
  const std::string text = obituary_json(obituary);
  try {
    write_file_atomically(Env::posix(), path,
                          [&](WritableFile& file) { file.append(std::as_bytes(std::span(text))); });
  } catch (const Error& error) {
    obituary.saved_to = fmt::format("nowhere: {}", error.what());
  }
  flush();
  event("obituary", text);
  if (run_store_ && !own_trainer_) {
    try {
      run_store_->set("command", obituary.evidence.command);
      run_store_->set("status", obituary.diagnosis.verdict.cause);
    } catch (const Error&) {
    }
  }
}

void Store::discard() {
  box_.reset();
  run_store_.reset();
  if (directory_.empty()) return;
  std::error_code error;
  fs::remove(directory_ + "/blackbox", error);
  fs::remove(directory_, error);  // only where it is empty
}

void Store::end_well() {
  if (own_trainer_ || !temporary_) flush();
  if (box_) box_->end("exit status 0");
  box_.reset();
  run_store_.reset();
  if (!temporary_ || directory_.empty()) return;
  // Nothing happened: a foreign command leaves nothing behind. Runs that were restarted keep their
  // obituary.
  if (::access((directory_ + "/obituary.json").c_str(), F_OK) == 0) return;
  std::error_code error;
  for (const char* name : {"blackbox", "run.sqlite", "run.sqlite-wal", "run.sqlite-shm"})
    fs::remove(directory_ + "/" + name, error);
  fs::remove(directory_, error);
}

void Store::end_badly(const std::string& ending) {
  flush();
  if (box_) box_->end(ending);
  run_store_.reset();
}

}  // namespace surefit::guard
