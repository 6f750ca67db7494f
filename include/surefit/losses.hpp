// SPDX-License-Identifier: Apache-2.0
// Losses with Keras's names and defaults: the mean over the samples of the logical batch, however
// it is cut.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "surefit/config.hpp"
#include "surefit/losses/custom.hpp"

namespace surefit {

// -log p[label] for whole-number labels; the mean over the pixels of a picture of scores.
struct SparseCategoricalCrossentropy {
  bool from_logits = false;
  static constexpr std::string_view kClass = "SparseCategoricalCrossentropy";
  static constexpr std::string_view kName = "sparse_categorical_crossentropy";
  static void fields(auto& field) {
    field("from_logits", &SparseCategoricalCrossentropy::from_logits);
  }
};
LossPtr make_loss(const SparseCategoricalCrossentropy&);

// -sum t log p for one-hot or soft targets; the mean over the pixels of a picture of scores.
struct CategoricalCrossentropy {
  bool from_logits = false;
  double label_smoothing = 0;
  static constexpr std::string_view kClass = "CategoricalCrossentropy";
  static constexpr std::string_view kName = "categorical_crossentropy";
  static void fields(auto& field) {
    field("from_logits", &CategoricalCrossentropy::from_logits);
    field("label_smoothing", &CategoricalCrossentropy::label_smoothing);
  }
};
LossPtr make_loss(const CategoricalCrossentropy&);

// mean (p - t)^2 over the elements of a sample.
struct MeanSquaredError {
  static constexpr std::string_view kClass = "MeanSquaredError";
  static constexpr std::string_view kName = "mean_squared_error";
  static void fields(auto&) {}
};
LossPtr make_loss(const MeanSquaredError&);

// -t log p - (1 - t) log(1 - p), the mean over the elements of a sample.
struct BinaryCrossentropy {
  bool from_logits = false;
  double label_smoothing = 0;
  static constexpr std::string_view kClass = "BinaryCrossentropy";
  static constexpr std::string_view kName = "binary_crossentropy";
  static void fields(auto& field) {
    field("from_logits", &BinaryCrossentropy::from_logits);
    field("label_smoothing", &BinaryCrossentropy::label_smoothing);
  }
};
LossPtr make_loss(const BinaryCrossentropy&);

// mean |p - t| over the elements of a sample.
struct MeanAbsoluteError {
  static constexpr std::string_view kClass = "MeanAbsoluteError";
  static constexpr std::string_view kName = "mean_absolute_error";
  static void fields(auto&) {}
};
LossPtr make_loss(const MeanAbsoluteError&);

// Half a square up to delta, straight beyond.
struct Huber {
  double delta = 1;
  static constexpr std::string_view kClass = "Huber";
  static constexpr std::string_view kName = "huber";
  static void fields(auto& field) { field("delta", &Huber::delta); }
};
LossPtr make_loss(const Huber&);

// sum t log(t / p) over the last axis, both at least 1e-7.
struct KLDivergence {
  static constexpr std::string_view kClass = "KLDivergence";
  static constexpr std::string_view kName = "kl_divergence";
  static void fields(auto&) {}
};
LossPtr make_loss(const KLDivergence&);

// Binary cross-entropy times (1 - p_t) ^ gamma, p_t the probability of the truth; with class
// balancing times alpha for ones and 1 - alpha for zeros. (Lin et al. 2017)
struct BinaryFocalCrossentropy {
  bool apply_class_balancing = false;
  double alpha = 0.25;
  double gamma = 2;
  bool from_logits = false;
  double label_smoothing = 0;
  static constexpr std::string_view kClass = "BinaryFocalCrossentropy";
  static constexpr std::string_view kName = "binary_focal_crossentropy";
  static void fields(auto& field) {
    field("apply_class_balancing", &BinaryFocalCrossentropy::apply_class_balancing);
    field("alpha", &BinaryFocalCrossentropy::alpha);
    field("gamma", &BinaryFocalCrossentropy::gamma);
    field("from_logits", &BinaryFocalCrossentropy::from_logits);
    field("label_smoothing", &BinaryFocalCrossentropy::label_smoothing);
  }
};
LossPtr make_loss(const BinaryFocalCrossentropy&);

// -sum t alpha (1 - p) ^ gamma log p over the last axis.
struct CategoricalFocalCrossentropy {
  double alpha = 0.25;
  double gamma = 2;
  bool from_logits = false;
  double label_smoothing = 0;
  static constexpr std::string_view kClass = "CategoricalFocalCrossentropy";
  static constexpr std::string_view kName = "categorical_focal_crossentropy";
  static void fields(auto& field) {
    field("alpha", &CategoricalFocalCrossentropy::alpha);
    field("gamma", &CategoricalFocalCrossentropy::gamma);
    field("from_logits", &CategoricalFocalCrossentropy::from_logits);
    field("label_smoothing", &CategoricalFocalCrossentropy::label_smoothing);
  }
};
LossPtr make_loss(const CategoricalFocalCrossentropy&);

// 1 - 2 sum(p t) / (sum p + sum t): over the whole batch, or per sample with all its axes listed,
// {1, 2, 3}.
struct Dice {
  Axes axis = {};
  static constexpr std::string_view kClass = "Dice";
  static constexpr std::string_view kName = "dice";
  static void fields(auto& field) { field("axis", &Dice::axis); }
};
LossPtr make_loss(const Dice&);

using BuiltinLosses =
    TypeList<SparseCategoricalCrossentropy, CategoricalCrossentropy, BinaryCrossentropy,
             MeanSquaredError, MeanAbsoluteError, Huber, KLDivergence, BinaryFocalCrossentropy,
             CategoricalFocalCrossentropy, Dice>;

// Any loss: a spec, or Keras's name for it ("mse", "sparse_categorical_crossentropy").
class Loss {
 public:
  template <typename Spec>
  requires requires(const Spec& spec) { make_loss(spec); }
  Loss(const Spec& spec)  // NOLINT(google-explicit-constructor)
      : name_(Spec::kName), config_(spec_to_config(spec)), impl_(make_loss(spec)) {}
  Loss(const std::string& name);                       // NOLINT(google-explicit-constructor)
  Loss(const char* name) : Loss(std::string(name)) {}  // NOLINT(google-explicit-constructor)
  // By class or name and arguments, as on the command line. Throws ConfigError.
  static Loss from_config(const std::string& name, const ConfigMap& config);

  const std::string& name() const { return name_; }
  const ConfigMap& config() const { return config_; }
  const LossImpl& impl() const { return *impl_; }

 private:
  std::string name_;
  ConfigMap config_;
  LossPtr impl_;
};

// Makes a loss of your own (losses/custom.hpp) known by class and name. Throws ConfigError when one
// is taken.
using LossFactory = std::function<Loss(const ConfigMap& config)>;
void register_loss_class(const std::string& class_name, const std::string& name, LossFactory make);
template <typename Spec>
void register_loss() {
  register_loss_class(
      std::string(Spec::kClass), std::string(Spec::kName),
      [](const ConfigMap& config) { return Loss(spec_from_config<Spec>(config, "loss")); });
}

}  // namespace surefit
