// SPDX-License-Identifier: Apache-2.0
// MeanAbsoluteError and Huber.
#include <cmath>
#include <fmt/format.h>

#include "nn/losses/pointwise.hpp"

namespace surefit {

LossPtr make_loss(const MeanAbsoluteError&) {
  return make_pointwise_loss("mean_absolute_error", [](double p, double t) -> LossTerm {
    return {std::abs(p - t), p > t ? 1.0 : p < t ? -1.0 : 0.0};
  });
}

LossPtr make_loss(const Huber& spec) {
  if (!(spec.delta > 0))
    throw ConfigError(fmt::format("[Huber] delta; expected above 0; got {}", spec.delta));
  return make_pointwise_loss("huber", [delta = spec.delta](double p, double t) -> LossTerm {
    const double error = p - t, size = std::abs(error);
    if (size <= delta) return {0.5 * error * error, error};
    return {delta * (size - 0.5 * delta), error > 0 ? delta : -delta};
  });
}

}  // namespace surefit
