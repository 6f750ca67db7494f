// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "cli/parse.hpp"
#include "cli/verbs.hpp"
#include "guard/doctor.hpp"
#include "guard/supervisor.hpp"

namespace surefit::cli {

int run_verb(const Arguments& arguments) {
  CLI::App app(
      "surefit run [options] -- COMMAND [ARGUMENTS]\n"
      "Runs a command under the guard: tells why it died, brings it back where that helps.\n"
      "Exit status: the command's own, or 128 + n if signal n ended it.",
      "surefit run");
  guard::SupervisorOptions options;
  std::string max_memory, max_time, grace, hang, before_leak;
  app.add_option("--max-memory", max_memory, "Memory limit of the command, e.g. 2G")
      ->type_name("SIZE");
  app.add_option("--max-time", max_time, "Stop it after this time, e.g. 11h50m")->type_name("TIME");
  app.add_option("--grace", grace, "Time between SIGTERM and SIGKILL (30s)")->type_name("TIME");
  app.add_option("--max-restarts", options.max_restarts,
                 "Bring it back this often after deaths that a restart may cure (0)")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
  app.add_option("--on-oom", options.on_oom,
                 "Shell command to run instead after an out-of-memory death; implies a restart")
      ->type_name("CMD");
  app.add_option("--restart-before-leak", before_leak,
                 "Restart when a leak will hit the limit within this time")
      ->type_name("TIME");
  app.add_option("--hang-timeout", hang,
                 "Stop it after this time without CPU, I/O and output (else only told)")
      ->type_name("TIME");
  app.add_flag("--tame", options.tame,
               "Thread counts from the real CPU quota, MALLOC_ARENA_MAX=2, more open files");
  app.add_option("--report", options.report_html, "Write a page with the curves here")
      ->type_name("FILE.html");
  app.add_option("--obituary", options.obituary_json, "Write the obituary as JSON here too")
      ->type_name("FILE.json");
  app.add_option("--run", options.run_directory, "Directory for the black box and the obituary")
      ->type_name("DIR");
  app.add_flag("--quiet", options.quiet, "No notices while it runs, only an obituary");
  app.add_flag("!--no-cgroup", options.cgroup, "Do not make a memory group");
  app.footer(
      "The command finds SUREFIT_ATTEMPT (1, 2, ...) and SUREFIT_SUGGESTED_BATCH_SCALE (1, 0.5, "
      "0.25, ...) in its environment.\n\n"
      "examples:\n"
      "  surefit run -- python3 train.py --batch 64\n"
      "  surefit run --max-memory 2G --report death.html -- python3 train.py\n"
      "  surefit run --on-oom 'python3 train.py --batch 16' -- python3 train.py --batch 64");
  app.prefix_command();
  if (const auto done = parse(app, arguments)) return *done;
  options.command = app.remaining();
  if (!options.command.empty() && options.command.front() == "--")
    options.command.erase(options.command.begin());
  const bool separated = std::find(arguments.begin(), arguments.end(), "--") != arguments.end();
  if (options.command.empty())
    throw ConfigError(
        "[surefit run] no command; expected `surefit run [options] -- COMMAND`; got none; e.g. "
        "surefit run -- python3 train.py");
  if (!separated && options.command.front().starts_with("-")) {
    throw ConfigError(
        fmt::format("[surefit run] unknown option; expected one of surefit run --help; got '{}'",
                    options.command.front()));
  }
  if (!max_memory.empty()) options.max_memory = parse_bytes(max_memory, "--max-memory");
  if (!max_time.empty()) options.max_time_s = parse_duration(max_time, "--max-time");
  if (!grace.empty()) options.grace_s = parse_duration(grace, "--grace");
  if (!hang.empty()) options.hang_timeout_s = parse_duration(hang, "--hang-timeout");
  if (!before_leak.empty())
    options.restart_before_leak_s = parse_duration(before_leak, "--restart-before-leak");
  const bool wants_restart = !options.on_oom.empty() || options.restart_before_leak_s > 0;
  if (wants_restart && options.max_restarts == 0) options.max_restarts = 3;
  return guard::supervise(options);
}

int watch_verb(const Arguments& arguments) {
  CLI::App app(
      "surefit watch [options] PID\nWatches a process that somebody else started, and tells what "
      "killed it where the kernel's records do.",
      "surefit watch");
  guard::WatchOptions options;
  std::string max_time;
  app.add_option("pid", options.pid, "Process to watch")
      ->required()
      ->check(CLI::PositiveNumber)
      ->type_name("PID");
  app.add_option("--max-time", max_time, "Stop watching after this time")->type_name("TIME");
  app.add_option("--report", options.report_html, "Write a page with the curves here")
      ->type_name("FILE.html");
  app.footer("example:\n  surefit watch $(pgrep -n python3)");
  if (const auto done = parse(app, arguments)) return *done;
  if (!max_time.empty()) options.max_time_s = parse_duration(max_time, "--max-time");
  return guard::watch(options);
}

int doctor_verb(const Arguments& arguments) {
  CLI::App app(
      "surefit doctor [options]\nChecks this machine before a long run, in a few seconds. Exit "
      "status 0, or 4 where a check failed.",
      "surefit doctor");
  guard::DoctorOptions options;
  bool as_json = false;
  app.add_flag("--json", as_json, "One JSON object per line");
  app.add_option("--directory", options.directory, "Where the run will write (.)")
      ->type_name("DIR");
  app.add_option("--memory-share", options.memory_share,
                 "Share of the available memory to test with patterns (0.125, at most 2 GiB)")
      ->check(CLI::Range(0.0, 0.9))
      ->type_name("SHARE");
  app.footer("example:\n  surefit doctor --directory /data/checkpoints");
  if (const auto done = parse(app, arguments)) return *done;
  const bool color = ::isatty(1) == 1 && std::getenv("NO_COLOR") == nullptr;
  const guard::Health worst = guard::examine(options, [&](const guard::Check& check) {
    if (as_json) {
      const nlohmann::ordered_json json{{"event", "check"},
                                        {"name", check.name},
                                        {"health", guard::health_name(check.health)},
                                        {"found", check.found},
                                        {"advice", check.advice}};
      fmt::print("{}\n",
                 json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    } else {
      constexpr std::array<const char*, 4> kColors{"\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[2m"};
      fmt::print("{}{:<9}{}  {:<17}  {}\n",
                 color ? kColors[static_cast<std::size_t>(check.health)] : "",
                 guard::health_name(check.health), color ? "\x1b[0m" : "", check.name, check.found);
      if (!check.advice.empty()) fmt::print("{:<9}  {:<17}  -> {}\n", "", "", check.advice);
    }
    std::fflush(stdout);
  });
  return worst == guard::Health::kFail ? static_cast<int>(ExitCode::kSystem) : 0;
}

}  // namespace surefit::cli
