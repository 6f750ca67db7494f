// SPDX-License-Identifier: Apache-2.0
// Torch's numbers for layers and losses, made by tools/goldens/generate.py in float64.
#include <cmath>

#include <gtest/gtest.h>

#include "interop/npy.hpp"
#include "support/layer_conformance.hpp"
#include "support/loss_rig.hpp"

namespace surefit::conformance {
namespace {

// Of the largest value: float32 sums of up to 120 terms against float64.
constexpr double kTolerance = 2e-6;

NpzFile golden(const std::string& name) {
  return NpzFile::open(Env::posix(), std::string(SUREFIT_TEST_DATA) + "/goldens/" + name + ".npz");
}

void expect_close(const Tensor& got, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  const auto a = got.values<float>(), b = expected.values<float>();
  double scale = 0;
  for (const float value : b) scale = std::max(scale, std::abs(static_cast<double>(value)));
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], kTolerance * scale) << what << " element " << i;
}

struct GoldenCase {
  std::string name;
  Layer layer;
};

class LayerGoldens : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(LayerGoldens, AgreeWithTorch) {
  const NpzFile file = golden(GetParam().name);
  const Tensor x = file.read("x");
  const std::int64_t batch = x.shape()[0];
  for (const Layout layout : {Layout::kPlain, Layout::kBlocked}) {
    const LayerRig rig(GetParam().layer, {x.shape().drop_front()}, {.input_layout = layout});
    LayerRig::Feed feed;
    feed.inputs = {x};
    for (const Parameter& parameter : rig.parameters())
      feed.parameters.push_back(file.read(parameter.spec.name));
    feed.projection = file.read("dy");
    const LayerRig::Result result = rig.run(feed, {.batch = batch, .threads = 2}, batch);
    expect_close(result.output, file.read("y"), "output");
    expect_close(result.input_gradients[0], file.read("dx"), "gradient of the input");
    for (std::size_t i = 0; i < rig.parameters().size(); ++i) {
      if (!rig.parameters()[i].trainable) continue;
      const std::string& name = rig.parameters()[i].spec.name;
      expect_close(result.parameter_gradients[i], file.read("d" + name), "gradient of " + name);
    }
    if (!file.contains("y_inference")) continue;
    const LayerRig inference(GetParam().layer, {x.shape().drop_front()},
                             {.training = false, .input_layout = layout});
    expect_close(inference.run(feed, {.batch = batch}, batch).output, file.read("y_inference"),
                 "inference");
  }
}

const GoldenCase kCases[] = {
    {"conv_valid", Conv2D{.filters = 13, .kernel_size = 3}},
    {"conv_same", Conv2D{.filters = 8, .kernel_size = 3, .padding = "same"}},
    {"conv_stride", Conv2D{.filters = 5, .kernel_size = 3, .strides = 2, .padding = "same"}},
    {"conv_dilated", Conv2D{.filters = 8, .kernel_size = 3, .dilation_rate = 2}},
    {"conv_dilated_same",
     Conv2D{.filters = 3, .kernel_size = 3, .padding = "same", .dilation_rate = 2}},
    {"max_pool_valid", MaxPooling2D{}},
    {"max_pool_same", MaxPooling2D{.pool_size = 3, .padding = "same", .strides = Pair(2)}},
    {"average_pool_valid", AveragePooling2D{.pool_size = {3, 2}, .strides = Pair(2)}},
    {"average_pool_same", AveragePooling2D{.pool_size = 3, .padding = "same", .strides = Pair(2)}},
    {"batch_norm", BatchNormalization{}},
    {"dense_relu", Dense{.units = 11, .activation = "relu"}},
    {"depthwise", DepthwiseConv2D{.kernel_size = 3, .strides = 2, .padding = "same"}},
    {"depthwise_multiplied",
     DepthwiseConv2D{.kernel_size = 3, .padding = "same", .depth_multiplier = 3}},
    {"conv_transpose", Conv2DTranspose{.filters = 5, .kernel_size = 2, .strides = 2}},
    {"conv_transpose_same", Conv2DTranspose{.filters = 8, .kernel_size = 3, .padding = "same"}},
    {"upsample_nearest", UpSampling2D{}},
    {"upsample_bilinear", UpSampling2D{.interpolation = "bilinear"}},
    {"group_norm", GroupNormalization{.groups = 4}},
    {"layer_norm", LayerNormalization{}},
    {"activation_sigmoid", Activation{.activation = "sigmoid"}},
    {"activation_tanh", Activation{.activation = "tanh"}},
    {"activation_elu", Activation{.activation = "elu"}},
    {"activation_gelu", Activation{.activation = "gelu"}},
    {"activation_silu", Activation{.activation = "silu"}},
    {"activation_softplus", Activation{.activation = "softplus"}},
    {"activation_hard_sigmoid", Activation{.activation = "hard_sigmoid"}},
    {"activation_relu6", Activation{.activation = "relu6"}},
};

INSTANTIATE_TEST_SUITE_P(Torch, LayerGoldens, ::testing::ValuesIn(kCases),
                         [](const auto& each) { return each.param.name; });

TEST(LossGoldens, CrossEntropyAgreesWithTorch) {
  const NpzFile file = golden("cross_entropy");
  const Tensor logits = file.read("logits"), labels = file.read("labels");
  const auto compare = [&](const LossResult& got, const std::string& suffix) {
    const Tensor losses = file.read("losses" + suffix);
    for (std::size_t n = 0; n < losses.count(); ++n) {
      const auto expected = static_cast<double>(losses.values<float>()[n]);
      EXPECT_NEAR(got.loss[n], expected, kTolerance * std::max(1.0, expected))
          << suffix << " sample " << n;
    }
    expect_close(got.gradient, file.read("dlogits" + suffix), "gradient" + suffix);
  };
  compare(run_loss(SparseCategoricalCrossentropy{.from_logits = true}, logits, labels), "");
  compare(run_loss(SparseCategoricalCrossentropy{}, logits, labels, {.through_softmax = true}), "");
  Tensor rows(logits.shape());
  for (std::int64_t n = 0; n < logits.shape()[0]; ++n) {
    rows.at<float>({n, labels.values<std::int32_t>()[static_cast<std::size_t>(n)]}) = 1;
  }
  compare(
      run_loss(CategoricalCrossentropy{.from_logits = true, .label_smoothing = 0.1}, logits, rows),
      "_smooth");
}

TEST(GoldenFiles, RecordWhereTheyComeFrom) {
  const NpzFile file = golden("conv_valid");
  EXPECT_EQ(file.read("seed").dtype(), DType::kInt64);
  EXPECT_FALSE(file.read("torch_version").empty());
}

}  // namespace
}  // namespace surefit::conformance
