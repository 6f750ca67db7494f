// SPDX-License-Identifier: Apache-2.0
// Focal losses (Lin et al. 2017) and the Kullback-Leibler divergence.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "nn/losses/rowwise.hpp"

namespace surefit {
namespace {

template <typename Spec>
void check_focal(const Spec& spec) {
  if (!(spec.gamma >= 0))
    throw ConfigError(
        fmt::format("[{}] gamma; expected at least 0; got {}", Spec::kClass, spec.gamma));
  if (!(spec.alpha >= 0 && spec.alpha <= 1))
    throw ConfigError(fmt::format("[{}] alpha; expected 0 to 1; got {}", Spec::kClass, spec.alpha));
  if (!(spec.label_smoothing >= 0 && spec.label_smoothing <= 1)) {
    throw ConfigError(fmt::format("[{}] label_smoothing; expected 0 to 1; got {}", Spec::kClass,
                                  spec.label_smoothing));
  }
}

double clip(double p) {
  return std::isnan(p) ? p : std::clamp(p, kEpsilon, kMostProbability);
}

LossTerm binary_focal(const BinaryFocalCrossentropy& spec, double given, double target) {
  const double t = target * (1 - spec.label_smoothing) + 0.5 * spec.label_smoothing;
  const double p = spec.from_logits ? 1 / (1 + std::exp(-given)) : given;
  const double q = clip(p);
  const double entropy = -t * std::log(q) - (1 - t) * std::log(1 - q);
  const double entropy_slope = q == p || std::isnan(p) ? (1 - t) / (1 - q) - t / q : 0.0;
  const double truth = t * p + (1 - t) * (1 - p), truth_slope = 2 * t - 1;
  const double factor = std::pow(1 - truth, spec.gamma);
  const double factor_slope =
      spec.gamma == 0 ? 0.0 : -spec.gamma * std::pow(1 - truth, spec.gamma - 1) * truth_slope;
  const double weight =
      spec.apply_class_balancing ? t * spec.alpha + (1 - t) * (1 - spec.alpha) : 1.0;
  const double chain = spec.from_logits ? p * (1 - p) : 1.0;
  return {weight * factor * entropy,
          weight * (factor_slope * entropy + factor * entropy_slope) * chain};
}

// loss = -sum t alpha (1 - q)^gamma log q, q = p / sum p; logits go through softmax first.
double categorical_focal(const CategoricalFocalCrossentropy& spec, const float* given,
                         const float* target, std::int64_t classes, double* slope) {
  double top = -INFINITY, sum = 0;
  if (spec.from_logits) {
    for (std::int64_t c = 0; c < classes; ++c) top = std::max(top, static_cast<double>(given[c]));
  }
  const auto raw = [&](std::int64_t c) {
    return spec.from_logits ? std::exp(static_cast<double>(given[c]) - top)
                            : static_cast<double>(given[c]);
  };
  for (std::int64_t c = 0; c < classes; ++c) sum += raw(c);
  double loss = 0, mean = 0;
  for (std::int64_t c = 0; c < classes; ++c) {
    const double share = raw(c) / sum, q = clip(share);
    const double t = static_cast<double>(target[c]) * (1 - spec.label_smoothing) +
                     spec.label_smoothing / static_cast<double>(classes);
    const double focus = spec.alpha * std::pow(1 - q, spec.gamma);
    loss -= t * focus * std::log(q);
    const double focus_slope =
        spec.gamma == 0 ? 0.0 : -spec.alpha * spec.gamma * std::pow(1 - q, spec.gamma - 1);
    slope[c] = q == share || std::isnan(share) ? -t * (focus_slope * std::log(q) + focus / q) : 0.0;
    mean += slope[c] * share;
  }
  // Through the division by the sum, and through exp where logits were given.
  for (std::int64_t c = 0; c < classes; ++c)
    slope[c] = (slope[c] - mean) * (spec.from_logits ? raw(c) / sum : 1 / sum);
  return loss;
}

}  // namespace

LossPtr make_loss(const BinaryFocalCrossentropy& spec) {
  check_focal(spec);
  return make_pointwise_loss("binary_focal_crossentropy",
                             [spec](double p, double t) { return binary_focal(spec, p, t); });
}

LossPtr make_loss(const CategoricalFocalCrossentropy& spec) {
  check_focal(spec);
  return make_rowwise_loss(
      "categorical_focal_crossentropy",
      [spec](const float* p, const float* t, std::int64_t classes, double* slope) {
        return categorical_focal(spec, p, t, classes, slope);
      });
}

LossPtr make_loss(const KLDivergence&) {
  return make_rowwise_loss("kl_divergence", [](const float* p, const float* t, std::int64_t classes,
                                               double* slope) {
    const auto inside = [](double x) { return std::isnan(x) ? x : std::clamp(x, kEpsilon, 1.0); };
    double loss = 0;
    for (std::int64_t c = 0; c < classes; ++c) {
      const double given = static_cast<double>(p[c]), q = inside(given),
                   truth = inside(static_cast<double>(t[c]));
      loss += truth * std::log(truth / q);
      slope[c] = q == given || std::isnan(given) ? -truth / q : 0.0;
    }
    return loss;
  });
}

}  // namespace surefit
