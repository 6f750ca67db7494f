// SPDX-License-Identifier: Apache-2.0
#include "train/setup.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/check.hpp"
#include "base/cores.hpp"
#include "base/memory_limit.hpp"
#include "base/process_memory.hpp"
#include "base/units.hpp"

namespace surefit {
namespace {

constexpr std::pair<Convolutions, std::string_view> kConvolutions[] = {
    {Convolutions::kExact, "direct"},
    {Convolutions::kWinograd, "winograd"},
    {Convolutions::kOneDnn, "oneDNN"},
};

}  // namespace

std::string_view name_of(Convolutions convolutions) {
  const auto* found = std::ranges::find(kConvolutions, convolutions,
                                        &std::pair<Convolutions, std::string_view>::first);
  SUREFIT_CHECK(found != std::end(kConvolutions), "convolutions {}",
                static_cast<int>(convolutions));
  return found->second;
}

std::optional<Convolutions> convolutions_by_name(std::string_view name) {
  for (const auto& [convolutions, known] : kConvolutions) {
    if (known == name) return convolutions;
  }
  return std::nullopt;
}

int threads_of(const FitOptions& options) {
  // More is a slip of the hand, and would take the machine down with it.
  constexpr int kMost = 1024;
  if (options.threads < 0 || options.threads > kMost) {
    throw ConfigError(fmt::format("[threads] expected 1 to {}; got {}", kMost, options.threads));
  }
  return options.threads > 0 ? options.threads : default_threads();
}

Weighting weighting_of(const Dataset& data, const Network& network) {
  const std::size_t known = network.input_calls().size() + network.output_calls().size();
  return {.samples = data.element_spec().size() == known + 1};
}

data::ReaderOptions feed_options(const FitOptions& options, int threads) {
  return {.seed = options.seed, .threads = threads, .input = options.input};
}

data::ReaderOptions once_options(const FitOptions& options, int threads) {
  data::ReaderOptions reader = feed_options(options, threads);
  reader.input.cache = CacheMode::kOff;
  reader.input.budget_bytes = kPlannedBytes;
  return reader;
}

MemoryRequest memory_request(const FitOptions& options, const Graph& graph, std::int64_t batch,
                             int threads) {
  Consents(options.allow);  // throws on one that is not known
  MemoryRequest request;
  request.main = &graph;
  request.batch = batch;
  request.threads = threads;
  request.group = options.group;
  const MemoryLimit limit = memory_limit(read_memory_facts());
  if (options.memory_budget == 0) {
    request.budget = limit.bytes;
    request.budget_source = limit.source;
  } else {
    request.budget = options.memory_budget;
    request.budget_source = "--memory";
    if (limit.bytes < request.budget) {
      // More than there is would only be noticed when something is killed.
      request.budget = limit.bytes;
      request.budget_source = fmt::format("{}, which is less than the {} asked for", limit.source,
                                          format_bytes(options.memory_budget));
    }
  }
  return request;
}

void enter_data(const Feed& feed, const std::string& name, MemoryRequest& request) {
  for (const data::LedgerEntry& buffer : feed.reader().buffers()) {
    request.outside.push_back(
        {fmt::format("{}: {}", name, buffer.name), Category::kData, buffer.bytes});
  }
}

void enter_parameters(const ParameterStore& store, MemoryRequest& request) {
  enter_parameters(store, store.slot_bytes(), request);
}

void enter_parameters(const ParameterStore& store, std::uint64_t slot_bytes,
                      MemoryRequest& request) {
  request.outside.push_back({"weights and running statistics", Category::kWeights, store.bytes()});
  request.outside.push_back({"optimizer slots", Category::kOptimizer, slot_bytes});
}

MemoryReport report_of(const MemoryPlan& plan, const std::string& budget_source,
                       const Lossy& lossy) {
  MemoryReport report;
  report.predicted_bytes = plan.predicted_bytes();
  report.budget_bytes = plan.budget;
  report.budget_source = budget_source;
  report.full_speed_bytes = plan.full_speed_bytes;
  report.arena_bytes = plan.arena_bytes();
  report.slowdown = plan.slowdown;
  const auto sums = plan.by_category();
  for (int c = 0; c < kCategoryCount; ++c) {
    if (sums[static_cast<std::size_t>(c)] > 0)
      report.categories.emplace_back(name_of(static_cast<Category>(c)),
                                     sums[static_cast<std::size_t>(c)]);
  }
  for (const Rung& rung : plan.rungs) report.rungs.emplace_back(rung.name, rung.saved_bytes);
  report.peak = plan.peak_layer();
  report.floor_bytes = plan.floor_bytes;
  report.lossy = lossy.names();
  report.numbers = lossy.numbers();
  return report;
}

std::string MemoryReport::to_text() const {
  std::string text = fmt::format("memory: {} planned", format_bytes(predicted_bytes));
  if (budget_bytes != kNoLimit)
    text += fmt::format(" of {} ({})", format_bytes(budget_bytes), budget_source);
  const char* separator = ": ";
  for (const auto& [name, bytes] : categories) {
    text += fmt::format("{}{} {}", separator, name, format_bytes(bytes));
    separator = ", ";
  }
  for (const auto& [name, bytes] : rungs) {
    text += fmt::format("; {}", name);
    if (bytes > 0) text += fmt::format(" ({})", format_bytes(bytes));
  }
  for (const std::string& name : lossy) text += fmt::format("; changes bits: {}", name);
  if (numbers != "float32") {
    text += fmt::format(
        "; {}: 16-bit storage, 32-bit arithmetic (this build has no native 16-bit kernels)",
        numbers);
  }
  if (slowdown > 1.005) text += fmt::format("; about {:.0f} % more time", (slowdown - 1) * 100);
  return text;
}

std::shared_ptr<SpillFile> spill_file_for(const MemoryPlan& plan, const FitOptions& options) {
  const std::size_t bytes =
      std::max(plan.main.file_bytes, plan.validation ? plan.validation->file_bytes : 0);
  if (bytes == 0) return nullptr;
  std::string directory = options.spill_directory;
  if (directory.empty()) directory = options.run;
  if (directory.empty()) {
    const char* temporary = std::getenv("TMPDIR");
    directory = temporary != nullptr && *temporary != '\0' ? temporary : "/var/tmp";
  }
  std::error_code ignored;
  std::filesystem::create_directories(directory, ignored);
  return std::make_shared<SpillFile>(directory, bytes);
}

}  // namespace surefit
