// SPDX-License-Identifier: Apache-2.0
// Optimizers that are defined in a user's program.
#include "surefit/optimizers/custom.hpp"

#include <algorithm>
#include <cmath>

#include "optim/optimizers/update.hpp"

namespace surefit {
namespace {

constexpr std::size_t kMostSlots = 3;
using Slots = std::array<std::span<float>, kMostSlots>;

// Elements whose scaled gradient fits on the stack.
constexpr std::int64_t kChunk = 1024;

void update_range(const CustomOptimizer& optimizer, std::size_t slots, const UpdateRange& range) {
  std::array<float, kChunk> gradient;
  Slots views;
  for (std::int64_t begin = 0; begin < range.count; begin += kChunk) {
    const auto count = static_cast<std::size_t>(std::min(kChunk, range.count - begin));
    for (std::size_t i = 0; i < count; ++i)
      gradient[i] = range.gradient[static_cast<std::size_t>(begin) + i] * range.grad_scale;
    for (std::size_t slot = 0; slot < slots; ++slot)
      views[slot] = {range.slots[slot] + begin, count};
    optimizer.update({range.step, range.learning_rate}, {range.weights + begin, count},
                     std::span<const float>(gradient).first(count),
                     std::span<const std::span<float>>(views).first(slots));
  }
}

void require_zero_stays(const CustomOptimizer& optimizer, std::size_t slots,
                        std::string_view kind) {
  float weight = 0;
  std::array<float, kMostSlots> state = {};
  Slots views;
  for (std::size_t i = 0; i < kMostSlots; ++i) views[i] = {&state[i], 1};
  const float gradient = 0;
  for (std::int64_t step = 1; step <= 3; ++step) {
    optimizer.update({step, 0.1}, {&weight, 1}, {&gradient, 1},
                     std::span<const std::span<float>>(views).first(slots));
    if (weight == 0) continue;
    throw ConfigError(fmt::format(
        "[{}] update() turned a weight of 0 with a gradient of 0 into {} in step {}; expected 0",
        kind, weight, step));
  }
}

}  // namespace

OptimizerPtr make_custom_optimizer(std::shared_ptr<const CustomOptimizer> optimizer,
                                   std::string_view kind) {
  UpdateRule rule{.kind = kind, .slots = optimizer->slots()};
  if (rule.slots.size() > kMostSlots) {
    throw ConfigError(fmt::format("[{}] slots(); expected at most {}; got {}", kind, kMostSlots,
                                  rule.slots.size()));
  }
  require_zero_stays(*optimizer, rule.slots.size(), kind);
  const auto limit = [&](std::optional<double> value, std::string_view name) {
    if (value && !(*value > 0))
      throw ConfigError(fmt::format("[{}] {}; expected above 0; got {}", kind, name, *value));
    return value.value_or(0);
  };
  OptimizerOptions options;
  options.learning_rate = optimizer->learning_rate();
  options.clipping = {limit(optimizer->clipnorm(), "clipnorm"),
                      limit(optimizer->global_clipnorm(), "global_clipnorm"),
                      limit(optimizer->clipvalue(), "clipvalue")};
  rule.run = [optimizer, slots = rule.slots.size()](const UpdateRange& range) {
    update_range(*optimizer, slots, range);
  };
  return make_optimizer(rule, options);
}

}  // namespace surefit
