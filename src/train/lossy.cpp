// SPDX-License-Identifier: Apache-2.0
#include "train/lossy.hpp"

#include <charconv>
#include <fmt/format.h>

#include "surefit/error.hpp"

namespace surefit {
namespace {

constexpr std::string_view kHalfRung = "f16-activations", kGhostRung = "ghost-batch-norm",
                           kFactoredRung = "factored-optimizer";
// Statistics of fewer samples say too little.
constexpr std::int64_t kLeastGhost = 4;

std::string& policy_name() {
  static std::string name = "float32";
  return name;
}

Half storage_of(const std::string& policy) {
  if (policy == "float32") return Half::kNo;
  if (policy == "mixed_float16") return Half::kFloat16;
  if (policy == "mixed_bfloat16") return Half::kBfloat16;
  throw ConfigError(fmt::format(
      "[policy] unknown dtype policy '{}'; expected float32, mixed_float16 or mixed_bfloat16",
      policy));
}

}  // namespace

void mixed_precision::set_global_policy(const std::string& name) {
  storage_of(name);
  policy_name() = name;
}
const std::string& mixed_precision::global_policy() {
  return policy_name();
}

Lossy lossy_by_policy(const FitOptions& options) {
  Lossy lossy;
  lossy.storage = storage_of(options.policy.empty() ? policy_name() : options.policy);
  lossy.by_policy = lossy.storage != Half::kNo;
  return lossy;
}

std::vector<std::string> Lossy::names() const {
  std::vector<std::string> all = rungs();
  if (by_policy) all.emplace_back(storage == Half::kFloat16 ? "mixed_float16" : "mixed_bfloat16");
  return all;
}

std::vector<std::string> Lossy::rungs() const {
  std::vector<std::string> names;
  if (storage != Half::kNo && !by_policy) names.emplace_back(kHalfRung);
  if (ghost_batch > 0) names.push_back(fmt::format("{}:{}", kGhostRung, ghost_batch));
  if (factored_optimizer) names.emplace_back(kFactoredRung);
  return names;
}

std::string Lossy::numbers() const {
  if (storage == Half::kNo) return "float32";
  return fmt::format("float32, saved activations {}",
                     storage == Half::kFloat16 ? "float16" : "bfloat16");
}

Consents::Consents(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    bool& consent =
        name == kHalfRung    ? half
        : name == kGhostRung ? ghost
        : name == kFactoredRung
            ? factored
            : throw ConfigError(fmt::format("[allow] unknown consent '{}'; expected one of: "
                                            "{}",
                                            name, kConsents));
    consent = true;
  }
}

bool Consents::cover(const Lossy& lossy) const {
  return (half || lossy.by_policy || lossy.storage == Half::kNo) &&
         (ghost || lossy.ghost_batch == 0) && (factored || !lossy.factored_optimizer);
}

std::vector<Lossy> lossy_ladder(const FitOptions& options, std::int64_t batch) {
  const Lossy plain = lossy_by_policy(options);
  const Consents consents(options.allow);
  std::vector<std::int64_t> ghosts = {0};
  std::int64_t largest = 1;
  while (largest * 2 < batch) largest *= 2;
  for (; consents.ghost && largest >= kLeastGhost; largest /= 2) ghosts.push_back(largest);
  std::vector<Lossy> ladder;
  for (std::size_t rungs = 0; rungs <= 3; ++rungs) {
    for (const bool factored : {false, true}) {
      for (const std::int64_t ghost : ghosts) {
        for (const bool half : {true, false}) {
          Lossy lossy = plain;
          lossy.factored_optimizer = factored;
          lossy.ghost_batch = ghost;
          if (half) {
            if (lossy.by_policy) continue;  // stored so already
            lossy.storage = Half::kFloat16;
          }
          if (lossy.rungs().size() == rungs && consents.cover(lossy)) ladder.push_back(lossy);
        }
      }
    }
  }
  return ladder;
}

Lossy parse_rungs(const std::string& joined, const FitOptions& options) {
  Lossy lossy = lossy_by_policy(options);
  for (std::size_t at = 0; at < joined.size();) {
    const std::size_t end = std::min(joined.find(", ", at), joined.size());
    const std::string_view name = std::string_view(joined).substr(at, end - at);
    if (name == kHalfRung && !lossy.by_policy) lossy.storage = Half::kFloat16;
    if (name == kFactoredRung) lossy.factored_optimizer = true;
    if (name.starts_with(kGhostRung)) {
      const std::string_view size = name.substr(std::min(name.size(), kGhostRung.size() + 1));
      std::from_chars(size.data(), size.data() + size.size(), lossy.ghost_batch);
    }
    at = end + 2;
  }
  return lossy;
}

}  // namespace surefit
