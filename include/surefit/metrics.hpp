// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "surefit/config.hpp"

namespace surefit {

class MetricImpl;
using MetricPtr = std::shared_ptr<const MetricImpl>;

// Share of samples (pixels, in pictures of scores) whose largest prediction is the label's;
// whole-number or one-hot labels, as fits the loss. A single probability counts as 1 above a half.
struct Accuracy {
  std::string name = "accuracy";
  static constexpr std::string_view kClass = "Accuracy";
  static constexpr auto fields() { return std::tuple{SpecField{"name", &Accuracy::name}}; }
};
MetricPtr make_metric(const Accuracy&);

using BuiltinMetrics = TypeList<Accuracy>;

// Any metric: a spec, or Keras's name for it ("accuracy").
class Metric {
 public:
  template <typename Spec>
  requires requires(const Spec& spec) { make_metric(spec); }
  Metric(const Spec& spec)  // NOLINT(google-explicit-constructor)
      : name_(spec.name), impl_(make_metric(spec)) {}
  Metric(const std::string& name);                         // NOLINT(google-explicit-constructor)
  Metric(const char* name) : Metric(std::string(name)) {}  // NOLINT(google-explicit-constructor)

  const std::string& name() const { return name_; }
  const MetricImpl& impl() const { return *impl_; }

 private:
  std::string name_;
  MetricPtr impl_;
};

}  // namespace surefit
