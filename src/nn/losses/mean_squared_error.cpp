// SPDX-License-Identifier: Apache-2.0
#include "nn/losses/pointwise.hpp"

namespace surefit {

LossPtr make_loss(const MeanSquaredError&) {
  return make_pointwise_loss("mean_squared_error", [](double p, double t) -> LossTerm {
    return {(p - t) * (p - t), 2 * (p - t)};
  });
}

}  // namespace surefit
