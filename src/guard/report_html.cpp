// SPDX-License-Identifier: Apache-2.0
// The obituary as one page: no script, no network, the curve as SVG.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "base/units.hpp"
#include "guard/obituary.hpp"
#include "guard/words.hpp"

namespace surefit::guard {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// Steps of 1, 2 or 5 times a power of two-ish units that people read: at most five lines.
double nice_step(double top) {
  double step = 1 << 20;
  for (const double factor :
       {2.0, 2.5, 2.0, 2.0, 2.5, 2.0, 2.0, 2.5, 2.0, 2.0, 2.5, 2.0, 2.0, 2.5, 2.0}) {
    if (top / step <= 5) break;
    step *= factor;
  }
  return step;
}

std::string curve_svg(const Evidence& e) {
  if (e.points.size() < 2) return "<p class=\"dim\">It died before a curve could be measured.</p>";
  constexpr double kWidth = 860, kHeight = 260, kLeft = 74, kRight = 16, kTop = 14, kBottom = 30;
  double top = 1;
  for (const Point& p : e.points) top = std::max(top, static_cast<double>(p.bytes));
  const bool limit = e.limit != kNoLimit && static_cast<double>(e.limit) < 4 * top;
  if (limit) top = std::max(top, static_cast<double>(e.limit));
  top *= 1.05;
  const double begin = e.points.front().time, span = std::max(1e-9, e.points.back().time - begin);
  const auto x = [&](double time) {
    return kLeft + (time - begin) / span * (kWidth - kLeft - kRight);
  };
  const auto y = [&](double bytes) {
    return kTop + (1 - bytes / top) * (kHeight - kTop - kBottom);
  };
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"memory over time\">", kWidth,
      kHeight);
  const double step = nice_step(top);
  for (double bytes = 0; bytes <= top; bytes += step) {
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/><text "
        "x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{} MiB</text>",
        kLeft, kWidth - kRight, y(bytes), y(bytes), kLeft - 6, y(bytes) + 4, mebibytes(bytes));
  }
  std::string path, area = fmt::format("M{:.1f},{:.1f}", x(begin), y(0));
  for (const Point& p : e.points) {
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "M" : "L", x(p.time),
                        y(static_cast<double>(p.bytes)));
    area += fmt::format("L{:.1f},{:.1f}", x(p.time), y(static_cast<double>(p.bytes)));
  }
  area += fmt::format("L{:.1f},{:.1f}Z", x(e.points.back().time), y(0));
  svg += fmt::format("<path class=\"area\" d=\"{}\"/><path class=\"curve\" d=\"{}\"/>", area, path);
  if (limit) {
    const double at = y(static_cast<double>(e.limit));
    svg += fmt::format(
        "<line class=\"limit\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/><text "
        "class=\"limit\" x=\"{:.1f}\" y=\"{:.1f}\">limit {} MiB</text>",
        kLeft, kWidth - kRight, at, at, kLeft + 8, at + 14,
        mebibytes(static_cast<double>(e.limit)));
  }
  for (int i = 0; i <= 4; ++i) {
    const double time = begin + span * i / 4;
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>", x(time),
                       kHeight - 8,
                       i == 0   ? "start"
                       : i == 4 ? "end"
                                : "middle",
                       format_duration(time));
  }
  return svg + "</svg>";
}

constexpr std::string_view kStyle =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:900px;margin:2em auto;padding:0 "
    "1em;color:#1c2430;background:#fff}"
    "h1{font-size:1.5em;margin:.2em 0}h2{font-size:1em;margin:1.8em 0 "
    ".4em;color:#5a6675;text-transform:uppercase;letter-spacing:.06em}"
    ".tag{display:inline-block;padding:0 "
    ".6em;border-radius:1em;font-size:.65em;vertical-align:middle;color:#fff}"
    ".certain{background:#b3261e}.probable{background:#b26a00}.possible{background:#5a6675}"
    "code,pre{font:13px/1.45 "
    "ui-monospace,monospace}pre{background:#f3f5f8;padding:.8em;overflow-x:auto;border-radius:6px}"
    "table{border-collapse:collapse}td{padding:.15em 1.2em .15em "
    "0;vertical-align:top}td:first-child{color:#5a6675}"
    ".dim{color:#5a6675}.advice{border-left:4px solid #1f6feb;padding:.4em .9em;background:#f0f5ff}"
    "svg{width:100%;height:auto}svg text{font:11px "
    "system-ui,sans-serif;fill:#5a6675}.grid{stroke:#e3e7ed}.curve{fill:none;stroke:#1f6feb;stroke-"
    "width:2}"
    ".area{fill:#1f6feb;opacity:.1}line.limit{stroke:#b3261e;stroke-dasharray:6 4}svg "
    "text.limit{fill:#b3261e}"
    "@media(prefers-color-scheme:dark){body{background:#12161c;color:#dde3ea}pre{background:#"
    "1b212a}.advice{background:#16202f}.grid{stroke:#28303b}}";

std::string machine_rows(const Evidence& e) {
  std::string rows;
  const auto row = [&](std::string_view name, const std::string& value) {
    rows += fmt::format("<tr><td>{}</td><td>{}</td></tr>", escaped(name), escaped(value));
  };
  row("memory of the machine",
      fmt::format("{} available of {}", format_bytes(e.mem_available), format_bytes(e.mem_total)));
  row("swap", e.swap_total == 0 ? std::string("none")
                                : fmt::format("{} used of {}", format_bytes(e.swap_used),
                                              format_bytes(e.swap_total)));
  for (const MemoryChange& g : e.groups) {
    if (g.end.limit == kNoLimit && !g.own) continue;
    row(g.own ? "memory group of the guard" : "memory group " + g.end.path,
        fmt::format(
            "peak {}, limit {}, OOM kills {}", format_bytes(g.end.peak),
            g.end.limit == kNoLimit ? std::string("none") : format_bytes(g.end.limit),
            g.oom_kills() ? fmt::format("{}", *g.oom_kills()) : std::string("not readable")));
  }
  row("pressure", fmt::format("everything stalled on memory up to {:.1f} % of ten seconds",
                              e.memory_full_peak));
  row("processes, threads, files",
      fmt::format("{}, {}, {}", e.processes_peak, e.threads_peak, e.fds_peak));
  for (const DiskState& d : e.disks) {
    if (d.total > 0)
      row(d.role + " (" + d.path + ")",
          fmt::format("least free {} of {}", format_bytes(d.least_free), format_bytes(d.total)));
  }
  row("temperature",
      e.temperature ? fmt::format("{:.0f} C", *e.temperature) : std::string("no sensor"));
  row("kernel log", e.kernel_log_readable
                        ? fmt::format("{} records about this run", e.kernel.size())
                        : std::string("not readable"));
  return rows;
}

}  // namespace

std::string obituary_html(const Obituary& obituary) {
  const Evidence& e = obituary.evidence;
  const Verdict& v = obituary.diagnosis.verdict;
  std::string page = fmt::format(
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>{}: {}</title><style>{}</style></head><body>",
      escaped(v.title), escaped(e.command), kStyle);
  page += fmt::format(
      "<p class=\"dim\">surefit obituary</p><h1>{} <span class=\"tag "
      "{}\">{}</span></h1><p><code>{}</code><br><span class=\"dim\">attempt {}, {} after {}, in "
      "{}</span></p>",
      escaped(v.title), confidence_name(v.confidence), confidence_name(v.confidence),
      escaped(e.command), e.attempt,
      e.exit.signaled ? signal_name(e.exit.number) : fmt::format("exit status {}", e.exit.number),
      format_duration(e.elapsed_s), escaped(obituary.directory));
  page += fmt::format("<h2>Evidence</h2><p>{}</p>", escaped(v.evidence));
  page += fmt::format("<h2>What to do</h2><p class=\"advice\">{}</p>", escaped(v.advice));
  for (const Verdict& p : obituary.diagnosis.patterns) {
    page += fmt::format(
        "<p><b>{}</b> <span class=\"tag {}\">{}</span> {}<br><span class=\"dim\">{}</span></p>",
        escaped(p.title), confidence_name(p.confidence), confidence_name(p.confidence),
        escaped(p.evidence), escaped(p.advice));
  }
  page += fmt::format("<h2>Memory</h2><p>{}</p>{}", escaped(memory_story(e)), curve_svg(e));
  page += "<h2>What the guard did</h2><ul>";
  for (const std::string& action : obituary.actions)
    page += fmt::format("<li>{}</li>", escaped(action));
  for (const std::string& earlier : obituary.earlier)
    page += fmt::format("<li class=\"dim\">{}</li>", escaped(earlier));
  page += "</ul>";
  page += fmt::format("<h2>The machine</h2><table>{}</table>", machine_rows(e));
  std::string words;
  for (const std::string& line : last_lines(e.stderr_tail, 40)) words += escaped(line) + "\n";
  page +=
      fmt::format("<h2>Last words</h2>{}", words.empty() ? std::string("<p class=\"dim\">none</p>")
                                                         : "<pre>" + words + "</pre>");
  if (!e.kernel.empty()) {
    page += "<h2>Kernel log</h2><pre>";
    for (const KernelRecord& record : e.kernel) page += escaped(record.text) + "\n";
    page += "</pre>";
  }
  return page + "</body></html>\n";
}

}  // namespace surefit::guard
