// SPDX-License-Identifier: Apache-2.0
#include "train/identity.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/kernels/table.hpp"
#include "engine/onednn.hpp"
#include "train/model_impl.hpp"
#include "train/setup.hpp"

namespace surefit {
namespace {

std::string describe(const std::string& name, const ConfigMap& config) {
  return fmt::format("{} {}", name, ConfigValue(config).to_string());
}

const std::string* find_value(const Identity& identity, const std::string& key) {
  const auto found = std::find_if(identity.begin(), identity.end(),
                                  [&](const auto& pair) { return pair.first == key; });
  return found == identity.end() ? nullptr : &found->second;
}

}  // namespace

Identity identity_of(const Model::Impl& model, const FitOptions& options, const Lossy& lossy) {
  Identity identity;
  const auto add = [&](std::string key, std::string value) {
    identity.emplace_back(std::move(key), std::move(value));
  };
  for (const NamedLayer& layer : model.network.layers()) {
    add("layer " + layer.name, describe(layer.layer.class_name(), layer.layer.config()));
  }
  std::string calls;
  for (const LayerCall& call : model.network.calls()) {
    calls += fmt::format("{}{}", calls.empty() ? "" : " ", call.layer);
    for (const int input : call.inputs) calls += fmt::format(",{}", input);
  }
  add("connections", calls);
  const Compiled& compiled = *model.compiled;
  add("optimizer", describe(compiled.optimizer.class_name(), compiled.optimizer.config()));
  std::string losses, metrics;
  for (const Target& target : compiled.targets) {
    losses += (losses.empty() ? "" : ", ") + target.loss.name();
    if (target.weight != 1) losses += fmt::format(" x {}", target.weight);
    for (const Metric& metric : target.metrics)
      metrics += (metrics.empty() ? "" : ", ") + metric.name();
  }
  add("loss", losses);
  add("metrics", metrics);
  std::string weights;
  for (const auto& [label, weight] : options.class_weight)
    weights += fmt::format("{}{}: {}", weights.empty() ? "" : ", ", label, weight);
  if (!weights.empty()) add("class weights", weights);
  add("seed", fmt::format("{}", options.seed));
  add("convolutions", std::string(name_of(options.convolutions)));
  add("instruction set", kernels::table().bits);
  add("sum orders", fmt::format("{}", kernels::kSumOrders));
  add("oneDNN", onednn_version());
  add("numbers", lossy.by_policy ? lossy.numbers() : "float32");
  if (const auto rungs = lossy.rungs(); !rungs.empty())
    add(std::string(kRungsKey), fmt::format("{}", fmt::join(rungs, ", ")));
  return identity;
}

std::vector<std::string> differences(const Identity& then, const Identity& now) {
  std::vector<std::string> lines;
  for (const auto& [key, value] : now) {
    const std::string* before = find_value(then, key);
    if (before == nullptr) {
      lines.push_back(fmt::format("{}: now {}, not there before", key, value));
    } else if (*before != value) {
      lines.push_back(fmt::format("{}: was {}, now {}", key, *before, value));
    }
  }
  for (const auto& [key, value] : then) {
    if (find_value(now, key) == nullptr)
      lines.push_back(fmt::format("{}: was {}, now not there", key, value));
  }
  return lines;
}

}  // namespace surefit
