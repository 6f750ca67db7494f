// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <span>
#include <unordered_set>

#include "base/env.hpp"
#include "base/memory_limit.hpp"
#include "base/units.hpp"
#include "engine/onednn.hpp"
#include "interop/json.hpp"
#include "train/ladder.hpp"
#include "train/model_impl.hpp"
#include "worker/plan_page.hpp"
#include "worker/step_options.hpp"
#include "worker/verbs.hpp"

namespace surefit::worker {
namespace {

constexpr const char* kExample = R"(
Example:
  surefit plan --model resnet18 --input 32x32x3 --batch-size 128 --memory 400M --html plan.html
  surefit plan --model vgg16 --memory 2G --largest-batch
)";

struct PlanArguments {
  StepOptions step;
  std::string html;
  bool json = false, largest = false;

  void add_to(CLI::App& app) {
    step.add_to(app);
    app.add_flag("--largest-batch", largest,
                 "find the largest batch that fits, without running anything");
    app.add_flag("--json", json, "one JSON object on stdout");
    app.add_option("--html", html, "write a page: memory over one step, and the arena");
  }
};

Json buffer_json(const Buffer& buffer) {
  return {{"name", buffer.name},    {"layer", buffer.layer}, {"category", name_of(buffer.category)},
          {"bytes", buffer.bytes},  {"first", buffer.first}, {"last", buffer.last},
          {"offset", buffer.offset}};
}

std::string when(const Plan& plan, int instance) {
  const Instance& at = plan.instances[static_cast<std::size_t>(instance)];
  return fmt::format("{} {}", at.layer, at.kind);
}

// Activations in memory where the forward pass is over and the backward pass begins.
std::uint64_t saved_at_turn(const Plan& plan) {
  std::unordered_set<NodeId> seen;  // what runs again is part of the backward pass
  int turn = 0;
  for (std::size_t i = 0; i < plan.instances.size(); ++i) {
    const Instance& instance = plan.instances[i];
    if (instance.action == Action::kRun && instance.phase == Phase::kForward &&
        seen.insert(instance.node).second)
      turn = static_cast<int>(i);
  }
  std::uint64_t bytes = 0;
  for (const Buffer& buffer : plan.buffers) {
    if (!buffer.persistent && buffer.category == Category::kActivations && buffer.first <= turn &&
        turn < buffer.last)
      bytes += buffer.bytes;
  }
  return bytes;
}

void print_json(const MemoryPlan& plan, const MemoryReport& report) {
  Json categories = Json::object(), rungs = Json::array(), buffers = Json::array(),
       ledger = Json::array();
  for (const auto& [name, bytes] : report.categories) categories[name] = bytes;
  for (const auto& [name, bytes] : report.rungs)
    rungs.push_back({{"name", name}, {"saved_bytes", bytes}});
  for (const Buffer* buffer : largest_at_peak(plan.main, 10))
    buffers.push_back(buffer_json(*buffer));
  for (const LedgerEntry& entry : plan.ledger)
    ledger.push_back(
        {{"name", entry.name}, {"category", name_of(entry.category)}, {"bytes", entry.bytes}});
  const Json json = {{"event", "plan"},
                     {"batch", plan.main.batch},
                     {"threads", plan.main.threads},
                     {"predicted_bytes", report.predicted_bytes},
                     {"budget_bytes", report.budget_bytes},
                     {"budget_source", report.budget_source},
                     {"full_speed_bytes", plan.full_speed_bytes},
                     {"floor_bytes", plan.floor_bytes},
                     {"slowdown", plan.slowdown},
                     {"arena_bytes", plan.arena_bytes()},
                     {"live_bytes", plan.main.max_live_bytes},
                     {"saved_bytes", saved_at_turn(plan.main)},
                     {"spill_bytes", plan.main.file_bytes},
                     {"peak", report.peak},
                     {"lossy", report.lossy},
                     {"numbers", report.numbers},
                     {"peak_instance", plan.main.peak_instance},
                     {"instances", plan.main.instances.size()},
                     {"categories", categories},
                     {"rungs", rungs},
                     {"ledger", ledger},
                     {"largest", buffers}};
  fmt::print("{}\n", dump_json(json));
}

void print_text(const MemoryPlan& plan, const MemoryReport& report) {
  fmt::print("{:<28} {:>12}\n", "what", "bytes");
  for (const auto& [name, bytes] : report.categories)
    fmt::print("{:<28} {:>12}\n", name, format_bytes(bytes));
  fmt::print("{:<28} {:>12}   the process will not exceed this\n", "predicted peak",
             format_bytes(report.predicted_bytes));
  if (report.budget_bytes != kNoLimit)
    fmt::print("{:<28} {:>12}   {}\n", "budget", format_bytes(report.budget_bytes),
               report.budget_source);
  fmt::print("{:<28} {:>12}\n", "at full speed", format_bytes(plan.full_speed_bytes));
  fmt::print("{:<28} {:>12}   least memory with the same bits\n", "floor",
             format_bytes(plan.floor_bytes));
  if (plan.main.file_bytes > 0)
    fmt::print("{:<28} {:>12}\n", "spill file", format_bytes(plan.main.file_bytes));
  fmt::print("\nfullest at step {} of {}: {}\n", plan.main.peak_instance + 1,
             plan.main.instances.size(), report.peak);
  fmt::print("\n{:>12}  {:<16} {:<36} {}\n", "bytes", "category", "largest at that moment",
             "alive from ... to");
  for (const Buffer* buffer : largest_at_peak(plan.main, 10)) {
    fmt::print("{:>12}  {:<16} {:<36} {} ... {}\n", format_bytes(buffer->bytes),
               name_of(buffer->category), buffer->name, when(plan.main, buffer->first),
               when(plan.main, buffer->last));
  }
  fmt::print("\n");
  for (const std::string& name : report.lossy) fmt::print("changes bits: {}\n", name);
  if (report.numbers != "float32")
    fmt::print("{}: 16-bit storage, 32-bit arithmetic (this build has no native 16-bit kernels)\n",
               report.numbers);
  if (report.rungs.empty()) {
    fmt::print("the fastest plan fits: nothing is recomputed or moved\n");
    return;
  }
  if (plan.slowdown == 1) {
    fmt::print("the fastest plan fits; what costs next to nothing it does again anyway:\n");
  } else {
    fmt::print("to fit the budget, about {:.0f} % more time than at full speed:\n",
               (plan.slowdown - 1) * 100);
  }
  for (const auto& [name, bytes] : report.rungs)
    fmt::print("  {}{}\n", name, bytes > 0 ? fmt::format(": {}", format_bytes(bytes)) : "");
}

int print_largest(const Model& model, FitOptions fit, bool json) {
  const std::int64_t batch = model.largest_batch(fit);
  fit.batch_size = std::max<std::int64_t>(1, batch);
  const MemoryReport report = model.memory_plan(fit);  // says why where not even one sample fits
  if (json) {
    fmt::print("{{\"event\":\"largest_batch\",\"batch\":{},\"budget_bytes\":{}}}\n", batch,
               report.budget_bytes);
    return 0;
  }
  fmt::print("{}\n", batch);
  fmt::print(stderr, "the largest batch that fits into {} ({})\n",
             format_bytes(report.budget_bytes), report.budget_source);
  return 0;
}

}  // namespace

int plan_verb(const Arguments& arguments) {
  CLI::App app("What a training will hold in memory, before it runs.", "surefit plan");
  PlanArguments options;
  options.add_to(app);
  app.footer(kExample);
  if (const auto code = parse(app, arguments)) return *code;
  if (!options.html.empty()) check_writable(options.html, "--html");

  const FitOptions fit = options.step.fit();
  const Model model = options.step.compiled();
  prepare_compute_thread();
  if (options.largest) return print_largest(model, fit, options.json);
  const PlannedTraining planned = plan_training(model.impl(), fit, true);
  const MemoryPlan& plan = planned.plan;
  const MemoryReport& report = planned.report;
  options.json ? print_json(plan, report) : print_text(plan, report);
  if (!options.html.empty()) {
    const std::string page = plan_page(plan, report, model.name());
    write_file_atomically(Env::posix(), options.html,
                          [&](WritableFile& file) { file.append(std::as_bytes(std::span(page))); });
    fmt::print(stderr, "wrote {}\n", options.html);
  }
  return 0;
}

}  // namespace surefit::worker
