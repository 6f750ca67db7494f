// SPDX-License-Identifier: Apache-2.0
#include "guard/obituary.hpp"

#include <algorithm>
#include <ctime>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "guard/words.hpp"

namespace surefit::guard {
namespace {

std::string clock_text(double time) {
  const auto seconds = static_cast<std::time_t>(time);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", local.tm_year + 1900, local.tm_mon + 1,
                     local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec);
}

std::string ending(const Evidence& e) {
  if (!e.exec_error.empty()) return "did not start";
  if (!e.exit.known && !e.exit.signaled)
    return fmt::format("ended after {}", format_duration(e.elapsed_s));
  if (e.exit.signaled)
    return fmt::format("ended by {}{} after {}", signal_name(e.exit.number),
                       e.exit.core ? " (core dumped)" : "", format_duration(e.elapsed_s));
  return fmt::format("exit status {} after {}", e.exit.number, format_duration(e.elapsed_s));
}

// Breaks at blanks; long words (paths) are left whole.
std::vector<std::string> wrap(const std::string& text, std::size_t width) {
  std::vector<std::string> lines(1);
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width)
      lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
    at = end + 1;
  }
  return lines;
}

class Page {
 public:
  explicit Page(const TextStyle& style) : style_(style) {}
  void row(const char* name, const std::string& text, const char* color = "") {
    bool first = true;
    for (const std::string& line :
         wrap(text, static_cast<std::size_t>(std::max(30, style_.width - 14)))) {
      out_ += fmt::format("{}{:<10}{}  {}{}{}\n", paint("\x1b[2m"), first ? name : "",
                          paint("\x1b[0m"), paint(color), line, paint("\x1b[0m"));
      first = false;
    }
  }
  void raw(const std::string& line) { out_ += line + "\n"; }
  void rule(const std::string& title) {
    std::string line = "\u2500\u2500 " + title + " ";
    for (int column = static_cast<int>(title.size()) + 4; column < std::min(style_.width, 100);
         ++column)
      line += "\u2500";
    out_ += fmt::format("{}{}{}\n", paint("\x1b[2m"), line, paint("\x1b[0m"));
  }
  std::string paint(const char* code) const { return style_.color ? code : ""; }
  std::string take() { return std::move(out_); }

 private:
  TextStyle style_;
  std::string out_;
};

}  // namespace

std::string obituary_text(const Obituary& obituary, const TextStyle& style) {
  const Evidence& e = obituary.evidence;
  const Verdict& v = obituary.diagnosis.verdict;
  Page page(style);
  page.rule("surefit obituary");
  page.row("who", fmt::format("{}{}", e.command,
                              e.attempt > 1 ? fmt::format(" (attempt {})", e.attempt) : ""));
  page.row("when", fmt::format("{}, {}", clock_text(obituary.ended), ending(e)));
  page.row("cause", fmt::format("{} [{}]", v.title, confidence_name(v.confidence)), "\x1b[1;31m");
  page.row("evidence", v.evidence);
  for (const Verdict& pattern : obituary.diagnosis.patterns) {
    page.row("pattern", fmt::format("{} [{}]: {}", pattern.title,
                                    confidence_name(pattern.confidence), pattern.evidence));
  }
  if (e.exec_error.empty()) {
    page.row("memory", memory_story(e));
    for (const std::string& line :
         plot_curve(e.points, e.limit, std::clamp(style.width - 24, 20, 70), 5))
      page.raw(line);
  }
  if (e.heartbeat)
    page.row("progress", fmt::format("step {}, epoch {}, {}{}", e.heartbeat->step,
                                     e.heartbeat->epoch, phase_name(e.heartbeat->phase),
                                     e.heartbeat->layer_name().empty()
                                         ? ""
                                         : fmt::format(", in {}", e.heartbeat->layer_name())));
  page.row("advice", v.advice, "\x1b[1m");
  for (const Verdict& pattern : obituary.diagnosis.patterns) page.row("", pattern.advice);
  for (const std::string& action : obituary.actions) page.row("guard", action);
  if (!obituary.saved_to.empty()) page.row("kept in", obituary.saved_to);
  page.rule("end");
  return page.take();
}

namespace {

nlohmann::ordered_json verdict_json(const Verdict& v) {
  return {{"cause", v.cause},
          {"title", v.title},
          {"confidence", confidence_name(v.confidence)},
          {"evidence", v.evidence},
          {"advice", v.advice}};
}

nlohmann::ordered_json optional_bytes(std::uint64_t bytes) {
  return bytes == kNoLimit ? nlohmann::ordered_json() : nlohmann::ordered_json(bytes);
}

nlohmann::ordered_json machine_json(const Evidence& e) {
  nlohmann::ordered_json disks = nlohmann::ordered_json::array();
  for (const DiskState& d : e.disks) {
    if (d.total > 0)
      disks.push_back({{"role", d.role},
                       {"path", d.path},
                       {"total", d.total},
                       {"free", d.free},
                       {"least_free", d.least_free},
                       {"inodes", d.inodes},
                       {"free_inodes", d.free_inodes}});
  }
  nlohmann::ordered_json groups = nlohmann::ordered_json::array();
  for (const MemoryChange& g : e.groups) {
    groups.push_back({{"path", g.end.path},
                      {"own", g.own},
                      {"limit", optional_bytes(g.end.limit)},
                      {"usage", g.end.usage},
                      {"peak", g.end.peak},
                      {"failures", g.failures()},
                      {"oom_kills", g.oom_kills() ? nlohmann::ordered_json(*g.oom_kills())
                                                  : nlohmann::ordered_json()}});
  }
  nlohmann::ordered_json kernel = nlohmann::ordered_json::array();
  for (const KernelRecord& r : e.kernel) kernel.push_back(r.text);
  return {{"mem_total", e.mem_total},
          {"mem_available", e.mem_available},
          {"swap_total", e.swap_total},
          {"swap_used", e.swap_used},
          {"host_oom_kills",
           e.host_oom_kills ? nlohmann::ordered_json(*e.host_oom_kills) : nlohmann::ordered_json()},
          {"memory_full_peak_percent", e.memory_full_peak},
          {"quota_cores", e.quota_cores},
          {"throttled_share", e.throttled_share},
          {"cores", e.online_cores},
          {"temperature", e.temperature ? nlohmann::ordered_json(*e.temperature)
                                        : nlohmann::ordered_json("no sensor")},
          {"fds_peak", e.fds_peak},
          {"threads_peak", e.threads_peak},
          {"processes_peak", e.processes_peak},
          {"limits",
           {{"address_space", optional_bytes(e.limits.address_space)},
            {"files", optional_bytes(e.limits.files)},
            {"processes", optional_bytes(e.limits.processes)},
            {"stack", optional_bytes(e.limits.stack)}}},
          {"disks", disks},
          {"groups", groups},
          {"kernel_log", e.kernel_log_readable ? kernel : nlohmann::ordered_json("not readable")}};
}

}  // namespace

std::string obituary_json(const Obituary& obituary) {
  const Evidence& e = obituary.evidence;
  nlohmann::ordered_json json = verdict_json(obituary.diagnosis.verdict);
  json["patterns"] = nlohmann::ordered_json::array();
  for (const Verdict& pattern : obituary.diagnosis.patterns)
    json["patterns"].push_back(verdict_json(pattern));
  json["command"] = e.command;
  json["directory"] = obituary.directory;
  json["attempt"] = e.attempt;
  json["started"] = obituary.started;
  json["ended"] = obituary.ended;
  json["elapsed_s"] = e.elapsed_s;
  json["exit"] = {{"signaled", e.exit.signaled},
                  {"number", e.exit.number},
                  {"signal", e.exit.signaled ? nlohmann::ordered_json(signal_name(e.exit.number))
                                             : nlohmann::ordered_json()}};
  json["memory"] = {{"rss_peak", e.rss_peak},
                    {"rss_last", e.rss_last},
                    {"pss_last", e.pss_last},
                    {"used_last", e.used_last},
                    {"limit", optional_bytes(e.limit)},
                    {"limit_of", e.limit_source},
                    {"bytes_per_second", e.curve.bytes_per_second},
                    {"story", memory_story(e)}};
  if (e.heartbeat)
    json["progress"] = {{"step", e.heartbeat->step},
                        {"epoch", e.heartbeat->epoch},
                        {"phase", phase_name(e.heartbeat->phase)},
                        {"layer", e.heartbeat->layer_name()},
                        {"arena_bytes", e.heartbeat->arena_bytes}};
  json["actions"] = obituary.actions;
  json["earlier"] = obituary.earlier;
  json["machine"] = machine_json(e);
  json["last_words"] = last_lines(e.stderr_tail, 20);
  nlohmann::ordered_json curve = nlohmann::ordered_json::array();
  for (const Point& point : e.points) curve.push_back({point.time, point.bytes});
  json["curve"] = curve;
  // Last words may hold any bytes; what is no UTF-8 is replaced.
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace surefit::guard
