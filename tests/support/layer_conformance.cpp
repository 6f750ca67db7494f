// SPDX-License-Identifier: Apache-2.0
#include "support/layer_conformance.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

namespace surefit::conformance {
namespace {

// Elements of a tensor whose derivative is taken; larger tensors are sampled evenly.
constexpr std::size_t kProbes = 40;

double largest(std::span<const double> values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

class LayerCheck {
 public:
  explicit LayerCheck(const LayerCase& layer_case) : case_(layer_case) {}

  std::vector<Failure> run() {
    check_config();
    check_mode({.training = true, .input_layout = Layout::kPlain});
    check_mode({.training = false, .input_layout = Layout::kPlain});
    const bool pictures = std::any_of(case_.inputs.begin(), case_.inputs.end(),
                                      [](const Shape& shape) { return shape.rank() == 3; });
    if (pictures) {
      check_mode({.training = true, .input_layout = Layout::kBlocked});
      check_mode({.training = false, .input_layout = Layout::kBlocked});
    }
    return std::move(failures_);
  }

 private:
  void fail(const std::string& check, std::string detail) {
    failures_.push_back({check, fmt::format("{}: {}", mode_, detail)});
  }

  void check_mode(const LayerRig::Options& options) {
    mode_ = fmt::format("{} on {} input", options.training ? "training" : "inference",
                        options.input_layout == Layout::kPlain ? "plain" : "blocked");
    const LayerRig rig(case_.layer, case_.inputs, options);
    if (rig.inferred() != rig.emitted()) {
      fail("shape", fmt::format("inferred {}; emitted {}", rig.inferred().to_string(),
                                rig.emitted().to_string()));
    }
    check_packing(rig);
    const LayerRig::Feed feed = make_feed(rig);
    const PlanOptions alone = {
        .batch = case_.batch, .allow_in_place = false, .allow_sharing = false};
    const LayerRig::Result base = rig.run(feed, alone, case_.batch);
    report(base);
    check_forward(rig, feed, base, options.training);
    if (options.training) check_gradients(rig, feed, base);
    check_schedules(rig, feed, base);
    check_ragged(rig, feed);
  }

  LayerRig::Feed make_feed(const LayerRig& rig) const {
    LayerRig::Feed feed;
    std::uint64_t seed = 1;
    for (const Shape& shape : case_.inputs) {
      feed.inputs.push_back(random_tensor(shape.prepend(case_.batch), seed++));
    }
    if (case_.inputs.empty()) {
      feed.inputs.push_back(random_tensor(rig.inferred().prepend(case_.batch), seed++));
    }
    for (const Parameter& parameter : rig.parameters()) {
      const bool positive = std::find(case_.positive.begin(), case_.positive.end(),
                                      parameter.spec.name) != case_.positive.end();
      feed.parameters.push_back(
          random_tensor(parameter.spec.shape, seed++, positive ? 0.5 : -1, positive ? 1.5 : 1));
    }
    feed.projection = random_tensor(rig.inferred().prepend(case_.batch), seed++);
    return feed;
  }

  void report(const LayerRig::Result& result) {
    for (const Failure& failure : result.failures) fail(failure.check, failure.detail);
  }

  static std::vector<Array> arrays(const std::vector<Tensor>& tensors) {
    std::vector<Array> result;
    for (const Tensor& tensor : tensors) result.push_back(Array::from(tensor));
    return result;
  }
  static Parameters named(const LayerRig& rig, const std::vector<Tensor>& tensors) {
    Parameters result;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      result.emplace(rig.parameters()[i].spec.name, Array::from(tensors[i]));
    }
    return result;
  }

  void check_forward(const LayerRig& rig, const LayerRig::Feed& feed, const LayerRig::Result& base,
                     bool training) {
    const Reference& reference = !training && case_.inference ? case_.inference : case_.reference;
    if (!reference) return;
    const Array expected = reference(arrays(feed.inputs), named(rig, feed.parameters));
    if (expected.shape != base.output.shape()) {
      fail("forward", fmt::format("reference has shape {}; output {}", expected.shape.to_string(),
                                  base.output.shape().to_string()));
      return;
    }
    const auto got = base.output.values<float>();
    const double bound = case_.forward_tolerance * std::max(largest(expected.values), 1e-3);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double error = std::abs(static_cast<double>(got[i]) - expected.values[i]);
      if (error <= bound) continue;
      fail("forward", fmt::format("element {}: expected {}; got {}; allowed error {:.2g}", i,
                                  expected.values[i], got[i], bound));
      return;
    }
  }

  // Central differences of the loss <projection, output>. Against a reference in double they are
  // exact to 1e-9 or so and the tolerance is that of the float kernels; without one the forward
  // kernels themselves are differentiated.
  void check_gradients(const LayerRig& rig, const LayerRig::Feed& feed,
                       const LayerRig::Result& base) {
    for (std::size_t i = 0; i < feed.inputs.size(); ++i) {
      check_gradient(rig, feed, base.input_gradients[i], fmt::format("input {}", i),
                     [i](LayerRig::Feed& f) -> Tensor& { return f.inputs[i]; }, i, {});
    }
    for (std::size_t i = 0; i < rig.parameters().size(); ++i) {
      if (!rig.parameters()[i].trainable) continue;
      const std::string& name = rig.parameters()[i].spec.name;
      if (base.parameter_gradients[i].empty()) {
        fail("gradient", fmt::format("'{}' is trained but has no gradient", name));
        continue;
      }
      check_gradient(
          rig, feed, base.parameter_gradients[i], name,
          [i](LayerRig::Feed& f) -> Tensor& { return f.parameters[i]; }, 0, name);
    }
  }

  template <typename Pick>
  void check_gradient(const LayerRig& rig, const LayerRig::Feed& feed, const Tensor& analytic,
                      const std::string& what, const Pick& pick, std::size_t input,
                      const std::string& parameter) {
    const auto got = analytic.values<float>();
    std::vector<double> wide(got.begin(), got.end());
    std::vector<Array> inputs = arrays(feed.inputs);
    Parameters parameters = named(rig, feed.parameters);
    const auto loss_by_reference = [&](std::size_t at, double shift) {
      Array& target = parameter.empty() ? inputs[input] : parameters.at(parameter);
      const double kept = target.values[at];
      target.values[at] += shift;
      const Array output = case_.reference(inputs, parameters);
      target.values[at] = kept;
      return project(feed.projection, output.values);
    };
    const auto loss_by_kernel = [&](std::size_t at, double shift) {
      LayerRig::Feed moved = feed;
      float& element = pick(moved).template values<float>()[at];
      element = static_cast<float>(static_cast<double>(element) + shift);
      const auto result = rig.run(moved, {.batch = case_.batch}, case_.batch);
      return project(feed.projection, result.output.values<float>());
    };
    const bool reference = static_cast<bool>(case_.reference);
    // Without a reference: outputs are about 1 and rounded to 6e-8, so a shift of 1/32 leaves an
    // error near 1e-5.
    const double shift = reference ? 1e-5 : 1.0 / 32;
    const double scale = std::max(largest(wide), 1e-3);
    const double bound = (reference ? case_.gradient_tolerance : 1e-3) * scale;
    const std::size_t step = std::max<std::size_t>(1, got.size() / kProbes);
    std::size_t probes = 0, kinks = 0;
    for (std::size_t at = 0; at < got.size(); at += step) {
      const auto loss = [&](double by) {
        return reference ? loss_by_reference(at, by) : loss_by_kernel(at, by);
      };
      const double here = loss(0), up = loss(shift), down = loss(-shift);
      ++probes;
      // Left and right derivatives that differ mark a kink of relu or max, where neither is wrong.
      if (std::abs((up - here) - (here - down)) / shift > 1e-2 * scale) {
        ++kinks;
        continue;
      }
      const double numeric = (up - down) / (2 * shift);
      if (std::abs(numeric - wide[at]) <= bound) continue;
      fail("gradient", fmt::format("{} element {}: numeric {}; analytic {}; allowed error {:.2g}",
                                   what, at, numeric, wide[at], bound));
      return;
    }
    if (kinks * 5 > probes) {
      fail("gradient", fmt::format("{}: {} of {} probes lie on kinks", what, kinks, probes));
    }
  }

  template <typename Values>
  static double project(const Tensor& projection, const Values& output) {
    const auto weights = projection.values<float>();
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      sum += static_cast<double>(weights[i]) * static_cast<double>(output[i]);
    }
    return sum;
  }

  // The same bits, whatever the schedule.
  void compare(const std::string& check, const std::string& how, const LayerRig::Result& expected,
               const LayerRig::Result& got) {
    for (const Failure& failure : got.failures) fail(failure.check, how + ": " + failure.detail);
    const auto same = [&](const Tensor& a, const Tensor& b, const std::string& what) {
      if (std::equal(a.raw().begin(), a.raw().end(), b.raw().begin(), b.raw().end())) return true;
      const auto x = a.values<float>(), y = b.values<float>();
      std::size_t at = 0;
      while (at < x.size() && std::memcmp(&x[at], &y[at], sizeof(float)) == 0) ++at;
      fail(check, fmt::format("{}: {} differs from element {} on: {} and {}", how, what, at, x[at],
                              y[at]));
      return false;
    };
    if (!same(expected.output, got.output, "the output")) return;
    for (std::size_t i = 0; i < expected.input_gradients.size(); ++i) {
      if (!same(expected.input_gradients[i], got.input_gradients[i],
                fmt::format("the gradient of input {}", i))) {
        return;
      }
    }
    for (std::size_t i = 0; i < expected.parameter_gradients.size(); ++i) {
      if (!same(expected.parameter_gradients[i], got.parameter_gradients[i],
                fmt::format("the gradient of parameter {}", i))) {
        return;
      }
    }
    for (std::size_t i = 0; i < expected.parameters.size(); ++i) {
      if (!same(expected.parameters[i], got.parameters[i], fmt::format("parameter {}", i))) return;
    }
  }

  void check_schedules(const LayerRig& rig, const LayerRig::Feed& feed,
                       const LayerRig::Result& base) {
    const std::int64_t batch = case_.batch;
    compare("planned", "shared memory, not in place", base,
            rig.run(feed, {.batch = batch, .allow_in_place = false}, batch));
    compare("in-place", "in place", base, rig.run(feed, {.batch = batch}, batch));
    for (const std::int64_t group : {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, batch}) {
      for (int threads = 1; threads <= 4; ++threads) {
        compare("group", fmt::format("groups of {}, {} threads", group, threads), base,
                rig.run(feed, {.batch = batch, .threads = threads, .group = group}, batch));
      }
    }
  }

  // A last batch smaller than the plan's: as if planned for its own size.
  void check_ragged(const LayerRig& rig, const LayerRig::Feed& feed) {
    for (const std::int64_t samples : {std::int64_t{1}, case_.batch - 1}) {
      const LayerRig::Result exact = rig.run(
          feed, {.batch = samples, .allow_in_place = false, .allow_sharing = false}, samples);
      report(exact);
      compare("ragged", fmt::format("{} samples alone in memory", samples), exact,
              rig.run(feed, {.batch = case_.batch, .allow_in_place = false, .allow_sharing = false},
                      samples));
      for (const std::int64_t group : {std::int64_t{1}, std::int64_t{2}, case_.batch}) {
        compare("ragged", fmt::format("{} samples in groups of {}", samples, group), exact,
                rig.run(feed, {.batch = case_.batch, .threads = 3, .group = group}, samples));
      }
    }
  }

  void check_packing(const LayerRig& rig) {
    for (const Parameter& parameter : rig.parameters()) {
      const auto& packing = parameter.spec.packing;
      if (!packing) continue;
      const Tensor value = random_tensor(parameter.spec.shape, 99);
      std::vector<float> engine(packing->stored_count(), std::nanf(""));
      packing->pack(value.values<float>().data(), engine.data());
      Tensor back(parameter.spec.shape);
      packing->unpack(engine.data(), back.values<float>().data());
      if (std::memcmp(back.raw().data(), value.raw().data(), value.bytes()) != 0) {
        fail("packing", fmt::format("'{}' does not survive packing", parameter.name));
      }
      const auto zeros = static_cast<std::size_t>(std::count(engine.begin(), engine.end(), 0.0f));
      const auto in_value = static_cast<std::size_t>(
          std::count(value.values<float>().begin(), value.values<float>().end(), 0.0f));
      if (zeros - in_value != engine.size() - value.count()) {
        fail("packing", fmt::format("the padding of '{}' is not zero", parameter.name));
      }
    }
  }

  void check_config() {
    mode_ = "config";
    const std::string& class_name = case_.layer.class_name();
    const auto names = layer_class_names();
    if (std::find(names.begin(), names.end(), class_name) == names.end()) return;  // the user's own
    const ConfigMap& config = case_.layer.config();
    const auto make = [&](const ConfigMap& map) {
      return make_layer_from_config(class_name, "it", false, map, "here");
    };
    const Layer again = make(config);
    if (again.config() != config || again.name() != "it" || again.trainable()) {
      fail("config",
           fmt::format("round trip gives {}; expected {}", ConfigValue(again.config()).to_string(),
                       ConfigValue(config).to_string()));
    }
    ConfigMap unknown = config;
    unknown.emplace_back("no_such_key", ConfigValue(std::int64_t{1}));
    expect_refusal(unknown, "no_such_key", "no_such_key");
    for (const auto& [key, value] : case_.invalid) {
      ConfigMap wrong = config;
      for (auto& [name, old] : wrong) {
        if (name == key) old = value;
      }
      if (wrong == config) fail("config", fmt::format("the case does not change '{}'", key));
      expect_refusal(wrong, fmt::format("{} = {}", key, value.to_string()), "");
    }
  }

  void expect_refusal(const ConfigMap& config, const std::string& what, const std::string& named) {
    try {
      const Layer layer =
          make_layer_from_config(case_.layer.class_name(), "it", true, config, "here");
      layer.impl().infer(case_.inputs);
      fail("config", fmt::format("{} is accepted", what));
    } catch (const ConfigError& error) {
      if (std::string(error.what()).find(named) == std::string::npos) {
        fail("config", fmt::format("the error does not name '{}': {}", named, error.what()));
      }
    }
  }

  const LayerCase& case_;
  std::string mode_;
  std::vector<Failure> failures_;
};

std::map<std::string, std::vector<LayerCase> (*)()>& registry() {
  static std::map<std::string, std::vector<LayerCase> (*)()> cases;
  return cases;
}

}  // namespace

std::string to_string(const std::vector<Failure>& failures) {
  std::string text;
  for (const Failure& failure : failures) {
    text += fmt::format("[{}] {}\n", failure.check, failure.detail);
    if (text.size() > 4000) return text + "...\n";
  }
  return text;
}

std::vector<Failure> check_layer(const LayerCase& layer_case) {
  return LayerCheck(layer_case).run();
}

bool add_conformance(const std::string& class_name, std::vector<LayerCase> (*cases)()) {
  return registry().emplace(class_name, cases).second;
}

const std::map<std::string, std::vector<LayerCase> (*)()>& conformance_cases() {
  return registry();
}

}  // namespace surefit::conformance
