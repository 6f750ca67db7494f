// SPDX-License-Identifier: Apache-2.0
#include "ckpt/generations.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

#include "surefit/error.hpp"

namespace surefit {
namespace {

constexpr std::string_view kPrefix = "step-", kSuffix = ".safetensors";
constexpr std::size_t kGoodToKnow = 2;

std::vector<std::uint64_t> steps_in(Env& env, const std::string& directory) {
  std::vector<std::uint64_t> steps;
  if (!env.exists(directory)) return steps;
  for (const std::string& name : env.list(directory)) {
    if (const auto step = generation_step(name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::optional<CheckpointFile> try_open(Env& env, const std::string& directory, std::uint64_t step,
                                       std::string& reason) {
  const std::string path = directory + "/" + generation_name(step);
  try {
    CheckpointFile file = CheckpointFile::open(env, path);
    if (file.step() == step) return file;
    reason = fmt::format("[{}] holds step {}; it has been renamed", path, file.step());
  } catch (const Error& error) {
    reason = error.what();
  }
  return std::nullopt;
}

}  // namespace

std::string generation_name(std::uint64_t step) {
  return fmt::format("{}{:08}{}", kPrefix, step, kSuffix);
}

std::optional<std::uint64_t> generation_step(const std::string& name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  const char* begin = name.data() + kPrefix.size();
  const char* end = name.data() + name.size() - kSuffix.size();
  std::uint64_t step = 0;
  const auto [at, error] = std::from_chars(begin, end, step);
  if (error != std::errc{} || at != end || name != generation_name(step)) return std::nullopt;
  return step;
}

FoundCheckpoint find_newest(Env& env, const std::string& directory) {
  FoundCheckpoint found;
  const std::vector<std::uint64_t> steps = steps_in(env, directory);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    std::string reason;
    found.file = try_open(env, directory, *step, reason);
    if (found.file) break;
    found.skipped.push_back({directory + "/" + generation_name(*step), reason});
  }
  return found;
}

Generations::Generations(Env& env, std::string directory, int keep)
    : env_(env), directory_(std::move(directory)), keep_(keep) {
  if (keep < static_cast<int>(kGoodToKnow))
    throw ConfigError(fmt::format(
        "[keep] expected at least {} generations, so that one is good while another is written; "
        "got {}",
        kGoodToKnow, keep));
  env_.make_directories(directory_);
  remove_leftovers();
  const std::vector<std::uint64_t> steps = steps_in(env_, directory_);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    std::string reason;
    // Older ones than needed are taken on trust; they are the first to go.
    if (good_.size() >= kGoodToKnow || try_open(env_, directory_, *step, reason))
      good_.push_back(*step);
  }
  std::reverse(good_.begin(), good_.end());
}

void Generations::remove_leftovers() {
  for (const std::string& name : env_.list(directory_)) {
    if (name.find(".partial") == std::string::npos) continue;
    try {
      env_.remove(directory_ + "/" + name);
    } catch (const SystemError&) {  // a read-only place; writing will say so
    }
  }
}

std::string Generations::path_of(std::uint64_t step) const {
  return directory_ + "/" + generation_name(step);
}

void Generations::add(std::uint64_t step) {
  const auto at = std::lower_bound(good_.begin(), good_.end(), step);
  if (at == good_.end() || *at != step) good_.insert(at, step);
}

int Generations::prune_to(int keep) {
  remove_leftovers();
  if (good_.size() < kGoodToKnow) return 0;
  const std::size_t kept = std::min(good_.size(), static_cast<std::size_t>(keep));
  const std::vector<std::uint64_t> stay(good_.end() - static_cast<std::ptrdiff_t>(kept),
                                        good_.end());
  int removed = 0;
  for (const std::uint64_t step : steps_in(env_, directory_)) {
    if (std::binary_search(stay.begin(), stay.end(), step)) continue;
    try {
      env_.remove(path_of(step));
      ++removed;
      std::erase(good_, step);
    } catch (const SystemError&) {  // stays for the next time
    }
  }
  return removed;
}

}  // namespace surefit
