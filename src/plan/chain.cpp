// SPDX-License-Identifier: Apache-2.0
#include "plan/chain.hpp"

#include <algorithm>
#include <limits>

#include "base/check.hpp"

namespace surefit {

std::optional<std::vector<int>> tile_chain(int blocks, const std::vector<ChainOption>& options,
                                           std::size_t bytes, int levels) {
  SUREFIT_CHECK(blocks >= 0 && levels >= 1, "{} blocks, {} levels", blocks, levels);
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const auto steps =
      static_cast<std::size_t>(std::min<std::size_t>(static_cast<std::size_t>(levels), bytes));
  const std::size_t step = steps == 0 ? 1 : (bytes + steps - 1) / steps;
  const std::size_t width = steps + 1;
  std::vector<std::vector<int>> starting(static_cast<std::size_t>(blocks) + 1);
  for (std::size_t o = 0; o < options.size(); ++o) {
    starting[static_cast<std::size_t>(options[o].begin)].push_back(static_cast<int>(o));
  }
  // best[block][used]: least seconds to have tiled [0, block) with `used` steps kept.
  std::vector<std::vector<double>> best(static_cast<std::size_t>(blocks) + 1,
                                        std::vector<double>(width, kNever));
  struct Came {
    int option = -1;
    std::size_t used = 0;
  };
  std::vector<std::vector<Came>> came(static_cast<std::size_t>(blocks) + 1,
                                      std::vector<Came>(width));
  best[0][0] = 0;
  for (std::size_t block = 0; block < static_cast<std::size_t>(blocks); ++block) {
    for (const int index : starting[block]) {
      const ChainOption& option = options[static_cast<std::size_t>(index)];
      const auto end = static_cast<std::size_t>(option.end);
      const std::size_t kept = (option.kept + step - 1) / step;
      for (std::size_t used = 0; used < width; ++used) {
        if (best[block][used] == kNever) continue;
        if (used * step + option.working > bytes || used + kept >= width) break;
        const double seconds = best[block][used] + option.seconds;
        if (seconds < best[end][used + kept]) {
          best[end][used + kept] = seconds;
          came[end][used + kept] = {index, used};
        }
      }
    }
  }
  const auto& last = best[static_cast<std::size_t>(blocks)];
  const auto found =
      static_cast<std::size_t>(std::min_element(last.begin(), last.end()) - last.begin());
  if (last[found] == kNever) return std::nullopt;
  std::vector<int> tiling;
  std::size_t block = static_cast<std::size_t>(blocks), used = found;
  while (block > 0) {
    const Came& step_back = came[block][used];
    tiling.push_back(step_back.option);
    used = step_back.used;
    block = static_cast<std::size_t>(options[static_cast<std::size_t>(step_back.option)].begin);
  }
  std::reverse(tiling.begin(), tiling.end());
  return tiling;
}

}  // namespace surefit
