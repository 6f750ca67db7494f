// SPDX-License-Identifier: Apache-2.0
// Real Keras runs as the oracle: initial weights, five steps on one batch, losses, predictions and
// final weights, whatever way convolutions are computed.
#include <cmath>
#include <tuple>

#include <gtest/gtest.h>

#include "surefit/model.hpp"

#include "base/env.hpp"
#include "interop/json.hpp"
#include "interop/npy.hpp"
#include "interop/safetensors.hpp"
#include "train/setup.hpp"

namespace surefit {
namespace {

double largest(std::span<const float> values) {
  double most = 0;
  for (const float value : values) most = std::max(most, std::abs(static_cast<double>(value)));
  return most;
}

void expect_close(const Tensor& got, const Tensor& expected, double relative,
                  const std::string& what) {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  const auto a = got.values<float>(), b = expected.values<float>();
  const double scale = largest(b);
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], relative * scale) << what << " element " << i;
  }
}

class KerasCase : public ::testing::TestWithParam<std::tuple<const char*, Convolutions>> {
 protected:
  std::string file(const std::string& name) const {
    return std::string(SUREFIT_TEST_DATA) + "/keras_cases/" + std::get<0>(GetParam()) + "/" + name;
  }
  const Convolutions convolutions_ = std::get<1>(GetParam());
  Env& env_ = Env::posix();
};

TEST_P(KerasCase, FiveStepsAgree) {
  Model model = Model::load(file("model.json"));
  model.load_weights(file("init.safetensors"));
  const Json spec = read_json(env_, file("case.json"));
  const std::string loss = spec["loss"];
  const bool logits = loss.find("from_logits=True") != std::string::npos;
  const std::string loss_name = loss.substr(0, loss.find('('));
  ConfigMap loss_config;
  if (logits) loss_config.emplace_back("from_logits", ConfigValue(true));
  ConfigMap optimizer = {
      {"learning_rate", ConfigValue(spec["optimizer"]["learning_rate"].get<double>())}};
  if (spec["optimizer"]["weight_decay"].is_number()) {
    optimizer.emplace_back("weight_decay",
                           ConfigValue(spec["optimizer"]["weight_decay"].get<double>()));
  }
  model.compile({.optimizer = Optimizer::from_config(spec["optimizer_class"], optimizer),
                 .loss = Loss::from_config(loss_name, loss_config)});
  const NpzFile data = NpzFile::open(env_, file("data.npz"));
  const NpzFile expected = NpzFile::open(env_, file("expected.npz"));
  const Tensor x = data.read("x"), y = data.read("y");

  const FitOptions same = {.convolutions = convolutions_};
  expect_close(model.predict(x, same), expected.read("infer0"), 1e-4, "inference before training");
  const std::int64_t steps = spec["steps"];
  const History history = model.fit(x, y,
                                    {.batch_size = spec["batch"].get<std::int64_t>(),
                                     .epochs = steps,
                                     .shuffle = false,
                                     .convolutions = convolutions_});
  const Tensor losses = expected.read("losses");
  const std::vector<double> got = history.series("loss");
  ASSERT_EQ(got.size(), losses.count());
  for (std::size_t k = 0; k < got.size(); ++k) {
    const double want = losses.dtype() == DType::kFloat64
                            ? losses.values<double>()[k]
                            : static_cast<double>(losses.values<float>()[k]);
    EXPECT_NEAR(got[k], want, 1e-4 * std::abs(want)) << "loss of step " << k;
  }
  expect_close(model.predict(x, same), expected.read("infer_after"), 1e-4,
               "inference after training");

  const SafetensorsFile before = SafetensorsFile::open(env_, file("init.safetensors"));
  const SafetensorsFile after = SafetensorsFile::open(env_, file("after.safetensors"));
  double largest_update = 0;
  std::vector<double> updates;
  for (const std::string& name : after.names()) {
    const Tensor from = before.read(name), to = after.read(name);
    std::vector<float> change(from.count());
    for (std::size_t i = 0; i < change.size(); ++i)
      change[i] = to.values<float>()[i] - from.values<float>()[i];
    updates.push_back(largest(change));
    largest_update = std::max(largest_update, updates.back());
  }
  for (std::size_t t = 0; t < after.names().size(); ++t) {
    const std::string& name = after.names()[t];
    if (updates[t] < 0.01 * largest_update) continue;
    const Tensor got_weights = model.parameter(name), want = after.read(name);
    double worst = 0;
    for (std::size_t i = 0; i < want.count(); ++i) {
      worst = std::max(worst, std::abs(static_cast<double>(got_weights.values<float>()[i]) -
                                       static_cast<double>(want.values<float>()[i])));
    }
    EXPECT_LE(worst, 1e-3 * updates[t]) << name << " moved by " << updates[t];
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, KerasCase,
    ::testing::Combine(::testing::Values("seed_cnn", "resnet_tiny", "mobile_tiny", "unet_tiny"),
                       ::testing::Values(Convolutions::kExact, Convolutions::kWinograd,
                                         Convolutions::kOneDnn)),
    [](const auto& each) {
      return std::string(std::get<0>(each.param)) + "_" +
             std::string(name_of(std::get<1>(each.param)));
    });

}  // namespace
}  // namespace surefit
