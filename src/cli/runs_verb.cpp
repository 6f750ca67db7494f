// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/env.hpp"
#include "base/units.hpp"
#include "cli/parse.hpp"
#include "cli/verbs.hpp"
#include "run/blackbox.hpp"
#include "run/heartbeat.hpp"
#include "run/run_directory.hpp"
#include "run/run_store.hpp"

namespace surefit::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string when(double time) {
  const auto seconds = static_cast<std::time_t>(time);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}", local.tm_year + 1900, local.tm_mon + 1,
                     local.tm_mday, local.tm_hour, local.tm_min);
}

Json read_obituary(const std::string& run) {
  const std::string path = run + "/obituary.json";
  if (::access(path.c_str(), R_OK) != 0) return nullptr;
  return Json::parse(read_file(Env::posix(), path, 16 << 20), nullptr, false);
}

// One word on how a run stands.
std::string state_of(const std::string& run) {
  if (black_box_is_live(run + "/blackbox")) return "running";
  const auto box = read_black_box(run + "/blackbox");
  const Json obituary = read_obituary(run);
  if (box && !box->ended) return "lost its guard";
  if (box && box->ending == "exit status 0") return "done";
  if (obituary.is_object()) return obituary.value("cause", "died");
  return "ended";
}

// Steps of the checkpoints by their names, ascending; whether they are whole `surefit inspect`
// tells.
std::vector<std::uint64_t> checkpoint_steps(const std::string& run) {
  std::vector<std::uint64_t> steps;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run + "/checkpoints", error)) {
    const std::string name = entry.path().filename().string();
    unsigned long long step = 0;
    int end = 0;
    if (std::sscanf(name.c_str(), "step-%llu.safetensors%n", &step, &end) == 1 &&
        static_cast<std::size_t>(end) == name.size())
      steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

// What was asked for, as one would type it.
std::string command_of(const std::string& config) {
  const Json json = Json::parse(config, nullptr, false);
  if (!json.is_object() || !json.contains("arguments")) return config;
  std::string text = "surefit train";
  for (const Json& word : json["arguments"])
    if (word.is_string()) text += " " + word.get<std::string>();
  return text;
}

Json summary_of(const RunSummary& run) {
  Json json{{"path", run.path}, {"changed", run.changed}, {"state", state_of(run.path)}};
  if (const auto heartbeat = read_heartbeat(run.path + "/heartbeat")) {
    json["step"] = heartbeat->step;
    json["epoch"] = heartbeat->epoch;
  }
  const std::vector<std::uint64_t> steps = checkpoint_steps(run.path);
  if (!steps.empty()) json["checkpoints"] = steps;
  if (::access((run.path + "/run.sqlite").c_str(), R_OK) == 0) {
    try {
      const RunReader reader(run.path + "/run.sqlite");
      for (const auto& [key, value] : reader.values()) json["run"][key] = value;
      for (const ScalarRow& row : reader.last_scalars())
        json["last"][row.name] = std::isnan(row.value) ? Json() : Json(row.value);
    } catch (const Error& error) {
      json["error"] = error.what();
    }
  }
  return json;
}

int list(const std::string& parent, bool as_json) {
  std::vector<RunSummary> runs = list_runs(parent);
  const std::string state = state_directory();
  if (!state.empty()) {
    for (RunSummary& run : list_runs(state + "/runs")) runs.push_back(std::move(run));
  }
  if (!as_json && runs.empty())
    fmt::print("no runs in {}/ and none supervised by this user\n", parent);
  for (const RunSummary& run : runs) {
    const Json json = summary_of(run);
    if (as_json) {
      fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
      continue;
    }
    std::string numbers;
    if (json.contains("step"))
      numbers += fmt::format("  step {}", json["step"].get<std::uint64_t>());
    if (json.contains("last")) {
      for (const auto& [name, value] : json["last"].items())
        numbers += fmt::format(
            "  {} {}", name,
            value.is_null() ? std::string("nan") : fmt::format("{:.4g}", value.get<double>()));
    }
    fmt::print("{}  {:<16} {}{}\n", when(run.changed), json["state"].get<std::string>(), run.path,
               numbers);
  }
  return 0;
}

void print_events(const std::vector<EventRow>& events) {
  for (const EventRow& event : events) {
    std::string detail = event.detail_json;
    if (event.kind == "resume") detail = command_of(detail);
    if (event.kind == "obituary") {
      const Json json = Json::parse(detail, nullptr, false);
      if (json.is_object())
        detail = fmt::format("{} [{}]: {}", json.value("title", ""), json.value("confidence", ""),
                             json.value("evidence", ""));
    }
    fmt::print("  {}  {:<10} {}\n", when(event.time), event.kind, detail.substr(0, 200));
  }
}

int show(const std::string& run, bool as_json) {
  if (!fs::is_directory(run))
    throw ConfigError(fmt::format(
        "[surefit runs show] no such run; expected a run directory; got '{}'; see surefit runs",
        run));
  const Json summary = summary_of({.path = run});
  if (as_json) {
    Json json = summary;
    json.erase("changed");
    json["obituary"] = read_obituary(run);
    fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
    return 0;
  }
  fmt::print("{}: {}\n", run, summary["state"].get<std::string>());
  if (summary.contains("step"))
    fmt::print("  step {}, epoch {}\n", summary["step"].get<std::uint64_t>(),
               summary["epoch"].get<std::uint64_t>());
  if (summary.contains("run")) {
    for (const auto& [key, value] : summary["run"].items()) {
      const auto text = value.get<std::string>();
      fmt::print("  {:<20} {}\n", key == "config" ? "command" : key,
                 key == "config" ? command_of(text) : text);
    }
  }
  if (summary.contains("last")) {
    for (const auto& [name, value] : summary["last"].items())
      fmt::print("  {:<20} {}\n", name,
                 value.is_null() ? std::string("nan") : fmt::format("{:.6g}", value.get<double>()));
  }
  if (summary.contains("checkpoints")) {
    fmt::print("  {:<20} {}, the newest at step {}; surefit inspect {} verifies them\n",
               "checkpoints", summary["checkpoints"].size(),
               summary["checkpoints"].back().get<std::uint64_t>(), run);
  }
  const Json obituary = read_obituary(run);
  if (obituary.is_object()) {
    fmt::print("last death: {} [{}]\n  {}\n  {}\n", obituary.value("title", ""),
               obituary.value("confidence", ""), obituary.value("evidence", ""),
               obituary.value("advice", ""));
  }
  if (::access((run + "/run.sqlite").c_str(), R_OK) == 0) {
    const RunReader reader(run + "/run.sqlite");
    const auto memory = reader.memory();
    std::uint64_t peak = 0;
    for (const MemoryRow& row : memory) peak = std::max(peak, row.rss);
    if (!memory.empty())
      fmt::print("memory: {} samples, peak {}\n", memory.size(), format_bytes(peak));
    const auto events = reader.events();
    if (!events.empty()) fmt::print("events\n");
    print_events(events);
  }
  return 0;
}

}  // namespace

int runs_verb(const Arguments& arguments) {
  CLI::App app("surefit runs [show RUN]\nLists runs, newest first; `show` prints one.",
               "surefit runs");
  bool as_json = false;
  std::string parent = "runs", what, run;
  app.add_flag("--json", as_json, "One JSON object per line");
  app.add_option("--in", parent, "Directory of the runs (runs)")->type_name("DIR");
  app.add_option("what", what, "show")->type_name("");
  app.add_option("run", run, "Run directory, for show")->type_name("RUN");
  app.footer("examples:\n  surefit runs\n  surefit runs show runs/seed_cnn-20260131-235959");
  if (const auto done = parse(app, arguments)) return *done;
  if (what.empty()) return list(parent, as_json);
  if (what != "show")
    throw ConfigError(fmt::format("[surefit runs] unknown word; expected show; got '{}'", what));
  if (run.empty()) {
    const auto all = list_runs(parent);
    if (all.empty())
      throw ConfigError(fmt::format(
          "[surefit runs show] no run given and none in {}/; expected a run directory", parent));
    run = all.front().path;
  }
  return show(run, as_json);
}

}  // namespace surefit::cli
