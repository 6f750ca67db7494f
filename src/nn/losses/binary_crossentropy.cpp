// SPDX-License-Identifier: Apache-2.0
// Behind a sigmoid the loss works on its input: exact where probabilities have already lost the
// difference to 0 and 1.
#include <cmath>
#include <fmt/format.h>

#include "nn/losses/pointwise.hpp"
#include "nn/ops/activation.hpp"

namespace surefit {
namespace {

struct OnLogits {
  double smoothing;
  LossTerm operator()(double x, double target) const {
    const double t = target * (1 - smoothing) + 0.5 * smoothing;
    const double e = std::exp(-std::abs(x));
    const double sigmoid = x >= 0 ? 1 / (1 + e) : e / (1 + e);
    return {std::max(x, 0.0) - x * t + std::log1p(e), sigmoid - t};
  }
};

struct OnProbabilities {
  double smoothing;
  LossTerm operator()(double p, double target) const {
    const double t = target * (1 - smoothing) + 0.5 * smoothing;
    const bool inside = p > kEpsilon && p < kMostProbability;
    const double q = std::isnan(p) ? p : std::min(std::max(p, kEpsilon), kMostProbability);
    const double slope = (1 - t) / (1 - q) - t / q;
    return {-t * std::log(q) - (1 - t) * std::log(1 - q), inside || std::isnan(p) ? slope : 0.0};
  }
};

class BinaryCrossentropyLoss final : public LossImpl {
 public:
  explicit BinaryCrossentropyLoss(const BinaryCrossentropy& spec) : spec_(spec) {}
  LabelSpec labels(const Shape& prediction) const override {
    return {prediction, DType::kFloat32, 0};
  }
  LossNodes build(Graph& graph, ValueId prediction, ValueId labels, bool training) const override {
    const ValueId logits = spec_.from_logits ? prediction : before_sigmoid(graph, prediction);
    const double smoothing = spec_.label_smoothing;
    std::shared_ptr<const Op> op;
    if (logits != kNone) {
      op = std::make_shared<PointwiseLossOp<OnLogits>>("binary_crossentropy", OnLogits{smoothing},
                                                       training);
    } else {
      op = std::make_shared<PointwiseLossOp<OnProbabilities>>("binary_crossentropy",
                                                              OnProbabilities{smoothing}, training);
    }
    return emit_loss(graph, std::move(op), logits != kNone ? logits : prediction, labels, training);
  }

 private:
  BinaryCrossentropy spec_;
};

}  // namespace

LossPtr make_loss(const BinaryCrossentropy& spec) {
  if (!(spec.label_smoothing >= 0 && spec.label_smoothing <= 1)) {
    throw ConfigError(fmt::format("[BinaryCrossentropy] label_smoothing; expected 0 to 1; got {}",
                                  spec.label_smoothing));
  }
  return std::make_shared<BinaryCrossentropyLoss>(spec);
}

}  // namespace surefit
