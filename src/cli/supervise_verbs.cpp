// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/units.hpp"
#include "cli/parse.hpp"
#include "cli/verbs.hpp"
#include "guard/supervisor.hpp"

namespace surefit::cli {

int run_verb(const Arguments& arguments) {
  CLI::App app("surefit run [options] -- COMMAND [ARGUMENTS]\n"
               "Runs a command under the guard: tells why it died, brings it back where that helps.\n"
               "Exit status: the command's own, or 128 + n if signal n ended it.",
               "surefit run");
  guard::SupervisorOptions options;
  std::string max_memory, max_time, grace, hang, before_leak;
  app.add_option("--max-memory", max_memory, "Memory limit of the command, e.g. 2G")->type_name("SIZE");
  app.add_option("--max-time", max_time, "Stop it after this time, e.g. 11h50m")->type_name("TIME");
  app.add_option("--grace", grace, "Time between SIGTERM and SIGKILL (30s)")->type_name("TIME");
  app.add_option("--max-restarts", options.max_restarts, "Bring it back this often after deaths that a restart may cure (0)")->check(CLI::NonNegativeNumber)->type_name("N");
  app.add_option("--on-oom", options.on_oom, "Shell command to run instead after an out-of-memory death; implies a restart")->type_name("CMD");
  app.add_option("--restart-before-leak", before_leak, "Restart when a leak will hit the limit within this time")->type_name("TIME");
  app.add_option("--hang-timeout", hang, "Stop it after this time without CPU, I/O and output (else only told)")->type_name("TIME");
  app.add_flag("--tame", options.tame, "Thread counts from the real CPU quota, MALLOC_ARENA_MAX=2, more open files");
  app.add_option("--report", options.report_html, "Write a page with the curves here")->type_name("FILE.html");
  app.add_option("--obituary", options.obituary_json, "Write the obituary as JSON here too")->type_name("FILE.json");
  app.add_option("--run", options.run_directory, "Directory for the black box and the obituary")->type_name("DIR");
  app.add_flag("--quiet", options.quiet, "No notices while it runs, only an obituary");
  app.add_flag("!--no-cgroup", options.cgroup, "Do not make a memory group");
  app.footer("The command finds SUREFIT_ATTEMPT (1, 2, ...) and SUREFIT_SUGGESTED_BATCH_SCALE (1, 0.5, 0.25, ...) in its environment.\n\n"
             "examples:\n"
             "  surefit run -- python3 train.py --batch 64\n"
             "  surefit run --max-memory 2G --report death.html -- python3 train.py\n"
             "  surefit run --on-oom 'python3 train.py --batch 16' -- python3 train.py --batch 64");
  app.prefix_command();
  if (const auto done = parse(app, arguments)) return *done;
  options.command = app.remaining();
  if (!options.command.empty() && options.command.front() == "--") options.command.erase(options.command.begin());
  const bool separated = std::find(arguments.begin(), arguments.end(), "--") != arguments.end();
  if (options.command.empty()) throw ConfigError("[surefit run] no command; expected `surefit run [options] -- COMMAND`; got none; e.g. surefit run -- python3 train.py");
  if (!separated && options.command.front().starts_with("-")) {
    throw ConfigError(fmt::format("[surefit run] unknown option; expected one of surefit run --help; got '{}'", options.command.front()));
  }
  if (!max_memory.empty()) options.max_memory = parse_bytes(max_memory, "--max-memory");
  if (!max_time.empty()) options.max_time_s = parse_duration(max_time, "--max-time");
  if (!grace.empty()) options.grace_s = parse_duration(grace, "--grace");
  if (!hang.empty()) options.hang_timeout_s = parse_duration(hang, "--hang-timeout");
  if (!before_leak.empty()) options.restart_before_leak_s = parse_duration(before_leak, "--restart-before-leak");
  const bool wants_restart = !options.on_oom.empty() || options.restart_before_leak_s > 0;
  if (wants_restart && options.max_restarts == 0) options.max_restarts = 3;
  return guard::supervise(options);
}

}  // namespace surefit::cli
