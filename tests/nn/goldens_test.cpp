// SPDX-License-Identifier: Apache-2.0
// Keras's numbers for every layer, loss and metric (tools/goldens/generate.py).
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "nn/layer.hpp"
#include "support/golden_file.hpp"
#include "support/layer_conformance.hpp"
#include "support/loss_rig.hpp"

namespace surefit::conformance {
namespace {

// Of the largest value: float32 sums of up to 120 terms against float64.
constexpr double kTolerance = 2e-6;

constexpr const char* kLayerFamilies[] = {
    "layers_convolution", "layers_pooling",     "layers_normalization", "layers_shapes",
    "layers_merging",     "layers_activations", "layers_drawn"};

class LayerGoldens : public ::testing::TestWithParam<const char*> {};

void check_layer(const GoldenFile& file, const GoldenFile::Case& golden, Layout layout) {
  const Layer layer = make_layer_from_config(golden.class_name, "", true, golden.config, "golden");
  const bool training = golden.json["training"];
  const std::size_t input_count = golden.json["inputs"].size();
  LayerRig::Feed feed;
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < input_count; ++i) {
    feed.inputs.push_back(file.read(golden, "x" + std::to_string(i)));
    shapes.push_back(feed.inputs.back().shape().drop_front());
  }
  if (golden.class_name == "InputLayer") shapes.clear();  // it is the input
  const LayerRig rig(layer, shapes, {.training = training, .input_layout = layout});
  for (const Parameter& parameter : rig.parameters())
    feed.parameters.push_back(file.read(golden, parameter.spec.name));
  feed.projection = file.read(golden, "dy");
  const std::int64_t batch = feed.inputs[0].shape()[0];
  const LayerRig::Result got = rig.run(feed, {.batch = batch, .threads = 2}, batch);
  expect_close(got.output, file.read(golden, "y"), kTolerance, "output");
  if (!training) return;
  for (std::size_t i = 0; i < input_count; ++i) {
    expect_close(got.input_gradients[i], file.read(golden, "dx" + std::to_string(i)), kTolerance,
                 "gradient of input " + std::to_string(i));
  }
  for (std::size_t i = 0; i < rig.parameters().size(); ++i) {
    const std::string& name = rig.parameters()[i].spec.name;
    ASSERT_EQ(rig.parameters()[i].trainable, file.contains(golden, "d" + name)) << name;
    if (rig.parameters()[i].trainable) {
      expect_close(got.parameter_gradients[i], file.read(golden, "d" + name), kTolerance,
                   "gradient of " + name);
    }
    if (file.contains(golden, "after_" + name))
      expect_close(got.parameters[i], file.read(golden, "after_" + name), kTolerance, name);
  }
  if (!file.contains(golden, "evaluated")) return;
  const LayerRig evaluation(layer, shapes, {.training = false, .input_layout = layout});
  expect_close(evaluation.run(feed, {.batch = batch}, batch).output, file.read(golden, "evaluated"),
               kTolerance, "evaluation");
}

TEST_P(LayerGoldens, AgreeWithKeras) {
  const GoldenFile file(GetParam());
  for (const GoldenFile::Case& golden : file.cases()) {
    for (const Layout layout : {Layout::kPlain, Layout::kBlocked}) {
      SCOPED_TRACE(golden.describe() + (layout == Layout::kBlocked ? ", blocked" : ""));
      try {
        check_layer(file, golden, layout);
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, LayerGoldens, ::testing::ValuesIn(kLayerFamilies),
                         [](const auto& each) { return std::string(each.param); });

TEST(GoldensAreComplete, EveryLayerHasOne) {
  std::set<std::string> golden;
  for (const char* family : kLayerFamilies) {
    const GoldenFile file(family);
    for (const GoldenFile::Case& each : file.cases()) golden.insert(each.class_name);
  }
  expect_covered(golden, class_names(BuiltinLayers{}));
}

TEST(LossGoldens, AgreeWithKeras) {
  const GoldenFile file("losses");
  std::set<std::string> seen;
  for (const GoldenFile::Case& golden : file.cases()) {
    SCOPED_TRACE(golden.describe());
    seen.insert(golden.class_name);
    const Loss loss = Loss::from_config(golden.class_name, golden.config);
    const LossResult got = run_loss(loss, file.read(golden, "p"), file.read(golden, "t"));
    const Tensor expected = file.read(golden, "losses");
    ASSERT_EQ(got.loss.size(), expected.count());
    for (std::size_t n = 0; n < got.loss.size(); ++n) {
      const auto want = static_cast<double>(expected.values<float>()[n]);
      EXPECT_NEAR(got.loss[n], want, kTolerance * std::max(1.0, want)) << "sample " << n;
    }
    expect_close(got.gradient, file.read(golden, "dp"), kTolerance, "gradient");
  }
  expect_covered(seen, class_names(BuiltinLosses{}));
}

// Behind a softmax the loss works on the logits: the same numbers.
TEST(LossGoldens, LogitsThroughSoftmaxAgreeToo) {
  const GoldenFile file("losses");
  for (const GoldenFile::Case& golden : file.cases()) {
    if (!golden.class_name.ends_with("CategoricalCrossentropy")) continue;
    const ConfigValue* logits = find(golden.config, "from_logits");
    if (logits == nullptr || *logits != ConfigValue(true)) continue;
    SCOPED_TRACE(golden.describe());
    ConfigMap config = golden.config;
    config.erase(config.begin());
    ASSERT_EQ(find(config, "from_logits"), nullptr);
    const LossResult got =
        run_loss(Loss::from_config(golden.class_name, config), file.read(golden, "p"),
                 file.read(golden, "t"), {.through_softmax = true});
    expect_close(got.gradient, file.read(golden, "dp"), kTolerance, "gradient");
  }
}

template <typename... Specs>
Metric make_metric_of(TypeList<Specs...>, const GoldenFile::Case& golden) {
  std::optional<Metric> metric;
  const auto attempt = [&]<typename Spec>(TypeList<Spec>) {
    if (golden.class_name == Spec::kClass)
      metric.emplace(spec_from_config<Spec>(golden.config, "metric"));
  };
  (attempt(TypeList<Specs>{}), ...);
  return metric.value();
}

TEST(MetricGoldens, AgreeWithKeras) {
  const GoldenFile file("metrics");
  std::set<std::string> seen;
  for (const GoldenFile::Case& golden : file.cases()) {
    SCOPED_TRACE(golden.describe());
    seen.insert(golden.class_name);
    const double got =
        run_metric(make_metric_of(BuiltinMetrics{}, golden), golden.json["loss"].get<std::string>(),
                   file.read(golden, "p"), file.read(golden, "t"));
    EXPECT_NEAR(got, golden.json["value"].get<double>(), kTolerance);
  }
  expect_covered(seen, class_names(BuiltinMetrics{}));
}

TEST(GoldenFiles, RecordWhereTheyComeFrom) {
  const Json source =
      read_json(Env::posix(), std::string(SUREFIT_TEST_DATA) + "/goldens/source.json");
  EXPECT_TRUE(source["torch"].is_string());
  EXPECT_TRUE(source["seed"].is_number());
}

}  // namespace
}  // namespace surefit::conformance
