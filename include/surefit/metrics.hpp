// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "surefit/config.hpp"
#include "surefit/metrics/custom.hpp"

namespace surefit {

// Share of samples (pixels, in pictures of scores) whose largest prediction is the label's;
// whole-number or one-hot labels, as fits the loss. A single probability counts as 1 above a half.
struct Accuracy {
  std::string name = "accuracy";
  static constexpr std::string_view kClass = "Accuracy";
  static void fields(auto& field) { field("name", &Accuracy::name); }
};
MetricPtr make_metric(const Accuracy&);

// Share of samples whose label is among the k largest predictions.
struct TopKCategoricalAccuracy {
  std::string name = "top_k_categorical_accuracy";
  int k = 5;
  static constexpr std::string_view kClass = "TopKCategoricalAccuracy";
  static void fields(auto& field) {
    field("name", &TopKCategoricalAccuracy::name);
    field("k", &TopKCategoricalAccuracy::k);
  }
};
MetricPtr make_metric(const TopKCategoricalAccuracy&);

// Of what was predicted (above the threshold), the share that is true.
struct Precision {
  std::string name = "precision";
  double thresholds = 0.5;
  static constexpr std::string_view kClass = "Precision";
  static void fields(auto& field) {
    field("name", &Precision::name);
    field("thresholds", &Precision::thresholds);
  }
};
MetricPtr make_metric(const Precision&);

// Of what is true, the share that was predicted.
struct Recall {
  std::string name = "recall";
  double thresholds = 0.5;
  static constexpr std::string_view kClass = "Recall";
  static void fields(auto& field) {
    field("name", &Recall::name);
    field("thresholds", &Recall::thresholds);
  }
};
MetricPtr make_metric(const Recall&);

// Area under the curve of true against false positives (ROC), from this many thresholds.
struct AUC {
  std::string name = "auc";
  int num_thresholds = 200;
  static constexpr std::string_view kClass = "AUC";
  static void fields(auto& field) {
    field("name", &AUC::name);
    field("num_thresholds", &AUC::num_thresholds);
  }
};
MetricPtr make_metric(const AUC&);

// 2 precision recall / (precision + recall): the mean over classes ("macro"), weighted by how often
// they are true ("weighted"), or of all counts ("micro"). Without a threshold the largest
// prediction counts.
struct F1Score {
  std::string name = "f1_score";
  std::string average = "macro";
  std::optional<double> threshold = {};
  static constexpr std::string_view kClass = "F1Score";
  static void fields(auto& field) {
    field("name", &F1Score::name);
    field("average", &F1Score::average);
    field("threshold", &F1Score::threshold);
  }
};
MetricPtr make_metric(const F1Score&);

// Mean over classes of intersection / union of predicted and true pixels; the largest prediction
// counts.
struct MeanIoU {
  std::string name = "mean_io_u";
  int num_classes = 2;
  static constexpr std::string_view kClass = "MeanIoU";
  static void fields(auto& field) {
    field("name", &MeanIoU::name);
    field("num_classes", &MeanIoU::num_classes);
  }
};
MetricPtr make_metric(const MeanIoU&);

// Mean squared error.
struct MeanSquaredErrorMetric {
  std::string name = "mean_squared_error";
  static constexpr std::string_view kClass = "MeanSquaredErrorMetric";
  static void fields(auto& field) { field("name", &MeanSquaredErrorMetric::name); }
};
MetricPtr make_metric(const MeanSquaredErrorMetric&);

// Mean absolute error.
struct MeanAbsoluteErrorMetric {
  std::string name = "mean_absolute_error";
  static constexpr std::string_view kClass = "MeanAbsoluteErrorMetric";
  static void fields(auto& field) { field("name", &MeanAbsoluteErrorMetric::name); }
};
MetricPtr make_metric(const MeanAbsoluteErrorMetric&);

using BuiltinMetrics = TypeList<Accuracy, TopKCategoricalAccuracy, Precision, Recall, AUC, F1Score,
                                MeanIoU, MeanSquaredErrorMetric, MeanAbsoluteErrorMetric>;

// Any metric: a spec, or Keras's name for it ("accuracy", "mae", "auc").
class Metric {
 public:
  template <typename Spec>
  requires requires(const Spec& spec) { make_metric(spec); }
  Metric(const Spec& spec)  // NOLINT(google-explicit-constructor)
      : name_(spec.name), impl_(make_metric(spec)) {}
  Metric(const std::string& name);                         // NOLINT(google-explicit-constructor)
  Metric(const char* name) : Metric(std::string(name)) {}  // NOLINT(google-explicit-constructor)
  // By class or name and arguments. Throws ConfigError.
  static Metric from_config(const std::string& name, const ConfigMap& config);

  const std::string& name() const { return name_; }
  const MetricImpl& impl() const { return *impl_; }

 private:
  Metric(std::string name, MetricPtr impl) : name_(std::move(name)), impl_(std::move(impl)) {}
  std::string name_;
  MetricPtr impl_;
};

// Makes a metric of your own (metrics/custom.hpp) known by its name. Throws ConfigError when that
// is taken.
using MetricFactory = std::function<MetricPtr()>;
void register_metric_class(const std::string& name, MetricFactory make);
template <typename Spec>
void register_metric() {
  register_metric_class(Spec{}.name, [] { return make_metric(Spec{}); });
}

}  // namespace surefit
