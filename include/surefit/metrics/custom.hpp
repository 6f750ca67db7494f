// SPDX-License-Identifier: Apache-2.0
// Metrics of your own, as a plain struct with kClass, fields(), name and either
//
//   double measure(std::span<const float> prediction, std::span<const float> target) const;
//
// whose mean over the samples is the metric, or a state of doubles that starts at 0:
//
//   std::size_t state_size() const;
//   void update(std::span<double> state, std::span<const float> prediction,
//               std::span<const float> target) const;   // sample after sample, in order
//   double result(std::span<const double> state) const;
//
// Whole-number labels come as floats.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "surefit/config.hpp"
#include "surefit/tensor.hpp"

namespace surefit {

class MetricImpl;
using MetricPtr = std::shared_ptr<const MetricImpl>;

class CustomMetric {
 public:
  virtual ~CustomMetric() = default;
  virtual std::size_t state_size() const = 0;
  virtual void update(std::span<double> state, std::span<const float> prediction,
                      std::span<const float> target) const = 0;
  virtual double result(std::span<const double> state) const = 0;
};
MetricPtr make_custom_metric(std::shared_ptr<const CustomMetric> metric, std::string_view kind);

template <typename Spec>
concept MeasuringSpec = requires(const Spec& spec, std::span<const float> in) {
  { spec.measure(in, in) } -> std::convertible_to<double>;
};
template <typename Spec>
concept CountingSpec = requires(const Spec& spec, std::span<double> state,
                                std::span<const float> in) {
  spec.state_size();
  spec.update(state, in, in);
  spec.result(state);
};

template <typename Spec>
requires MeasuringSpec<Spec> || CountingSpec<Spec> MetricPtr make_metric(const Spec& spec) {
  class Adapter final : public CustomMetric {
   public:
    explicit Adapter(const Spec& given) : spec_(given) {}
    std::size_t state_size() const override {
      if constexpr (MeasuringSpec<Spec>) {
        return 2;
      } else {
        return spec_.state_size();
      }
    }
    void update(std::span<double> state, std::span<const float> prediction,
                std::span<const float> target) const override {
      if constexpr (MeasuringSpec<Spec>) {
        state[0] += spec_.measure(prediction, target);
        state[1] += 1;
      } else {
        spec_.update(state, prediction, target);
      }
    }
    double result(std::span<const double> state) const override {
      if constexpr (MeasuringSpec<Spec>) {
        return state[1] > 0 ? state[0] / state[1] : 0;
      } else {
        return spec_.result(state);
      }
    }

   private:
    Spec spec_;
  };
  return make_custom_metric(std::make_shared<Adapter>(spec), Spec::kClass);
}

}  // namespace surefit
