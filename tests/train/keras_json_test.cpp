// SPDX-License-Identifier: Apache-2.0
// The forms in which Keras 3 writes models, of several versions: read, or refused by name, never
// ignored.
#include <fmt/format.h>

#include <gtest/gtest.h>

#include "interop/json.hpp"
#include "train/model_impl.hpp"
#include "train/support.hpp"

namespace surefit {
namespace {

const char* const kPolicy =
    R"({"module": "keras", "class_name": "DTypePolicy", "config": {"name": "float32"},
          "registered_name": null})";

std::string layer(const std::string& class_name, const std::string& config) {
  return fmt::format(
      R"({{"module": "keras.layers", "class_name": "{}", "config": {{"name": "tested",
          "trainable": true, "dtype": {}{}{}}},
          "registered_name": null, "build_config": {{"input_shape": [null, 8, 8, 3]}}}})",
      class_name, kPolicy, config.empty() ? "" : ", ", config);
}

// A Sequential of an input of 8x8x3 and the layers, with more members behind its config.
std::string sequential(const std::string& layers, const std::string& more = "") {
  return fmt::format(
      R"({{"module": "keras", "class_name": "Sequential", "config": {{"name": "sequential",
          "trainable": true, "dtype": {},
          "layers": [{{"module": "keras.layers", "class_name": "InputLayer",
          "config": {{"batch_shape": [null, 8, 8, 3],
          "dtype": "float32", "sparse": false, "ragged": false, "optional": false,
          "name": "in"}}, "registered_name": null}}, {}],
          "build_input_shape": [null, 8, 8, 3]}}, "registered_name": null{}}})",
      kPolicy, layers, more);
}

std::string functional(const std::string& call, const std::string& ends) {
  return fmt::format(
      R"({{"class_name": "Functional", "config": {{"name": "functional", "layers": [
          {{"class_name": "InputLayer", "config": {{"batch_shape": [null, 4], "name": "in"}},
          "name": "in", "inbound_nodes": []}},
          {{"class_name": "Multiply", "config": {{"name": "out"}}, "name": "out",
          "inbound_nodes": [{}]}}], {}}}}})",
      call, ends);
}

const char* const kTensor =
    R"({"class_name": "__keras_tensor__", "config": {"shape": [null, 4], "dtype": "float32",
          "keras_history": ["in", 0, 0]}})";
const char* const kEnds = R"("input_layers": [["in", 0, 0]], "output_layers": [["out", 0, 0]])";

// The message with which a text is refused; empty if it is not.
std::string refusal(const std::string& text) {
  try {
    Model::from_json(text);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

void expect_refused(const std::string& text, const std::string& because) {
  EXPECT_NE(refusal(text).find(because), std::string::npos) << refusal(text) << "\n" << text;
}

TEST(KerasJson, ReadsWhatKerasWrites) {
  const std::string glorot =
      R"({"module": "keras.initializers", "class_name": "GlorotUniform",
          "config": {"seed": null, "input_axes": null, "output_axes": null},
          "registered_name": null})";
  const std::string none =
      R"("bias_regularizer": null, "activity_regularizer": null, "kernel_constraint": null,
          "quantization_config": null)";
  const std::pair<const char*, std::string> accepted[] = {
      {"Conv2D", fmt::format(
                     R"("filters": 4, "kernel_size": [3, 3], "data_format": "channels_last",
          "activation": null,
                                "kernel_initializer": {}, {})",
                     glorot, none)},
      {"Conv2D", R"("filters": 4, "kernel_size": 3, "kernel_initializer": "he_normal")"},
      {"Conv2D", R"("filters": 4, "kernel_size": 3, "kernel_regularizer":
          {"module": "keras.regularizers", "class_name": "L2", "config": {"l2": 0.01},
          "registered_name": null},
          "kernel_constraint": {"module": "keras.constraints", "class_name": "MaxNorm",
          "config": {"max_value": 2, "axis": 0},
          "registered_name": null})"},
      {"Conv2D", R"("filters": 4, "kernel_size": 3, "activation":
          {"module": "builtins", "class_name": "function", "config": "relu",
          "registered_name": "function"})"},
      {"Conv2DTranspose", R"("filters": 4, "kernel_size": [2, 2], "output_padding": null)"},
      {"Dense", R"("units": 4, "activation": "linear", "quantization_config": null)"},
      {"BatchNormalization",
       R"("axis": -1, "renorm": false, "renorm_clipping": null, "renorm_momentum": 0.99,
          "synchronized": false)"},
      {"LayerNormalization", R"("axis": [3], "rms_scaling": false)"},
      {"Rescaling", R"("scale": [1.0, 2.0, 0.5], "offset": 0.5)"},
      {"Dropout", R"("rate": 0.5, "seed": null, "noise_shape": null)"},
      {"RandomFlip", R"("mode": "horizontal", "seed": 3, "data_format": "channels_last")"}};
  for (const auto& [class_name, config] : accepted)
    EXPECT_EQ(refusal(sequential(layer(class_name, config))), "") << class_name << " " << config;
}

TEST(KerasJson, RefusesByNameWhatIsNotThere) {
  const auto conv = [](const std::string& more) {
    return sequential(layer("Conv2D", R"("filters": 4, "kernel_size": 3, )" + more));
  };
  expect_refused(conv(R"("data_format": "channels_first")"), "channels_last");
  expect_refused(conv(R"("activity_regularizer": {"class_name": "L2", "config": {"l2": 0.01}})"),
                 "activity_regularizer");
  expect_refused(conv(R"("activation": "swoosh")"), "swoosh");
  expect_refused(conv(R"("activation": {"class_name": "LeakyReLU", "config": {}})"), "LeakyReLU");
  expect_refused(conv(R"("quantization_config": {"mode": "int8"})"), "quantization_config");
  // Initializers are asked for when there are no weights to load.
  const Model model =
      Model::from_json(conv(R"("kernel_initializer": {"class_name": "Magic", "config": {}})"));
  EXPECT_THROW(model.parameter("tested/kernel"), ConfigError);
  expect_refused(sequential(layer("BatchNormalization", R"("renorm": true)")), "renorm");
  expect_refused(sequential(layer("LayerNormalization", R"("rms_scaling": true)")), "rms_scaling");
  expect_refused(sequential(layer("Conv3D", R"("filters": 4)")), "Conv3D");
  expect_refused(sequential(layer("Sequential", R"("layers": [])")), "no layers");
  std::string mixed = conv(R"("strides": 1)");
  mixed.replace(mixed.rfind("float32"), 7, "mixed_float16");
  expect_refused(mixed, "mixed_float16");
  std::string varying = conv(R"("strides": 1)");
  varying.replace(varying.find("[null, 8, 8, 3]"), 15, "[null, null, 8, 3]");
  expect_refused(varying, "varying extent");
}

TEST(KerasJson, CallsHaveInputsAndNothingElse) {
  const auto call = [](const std::string& args, const std::string& kwargs) {
    return fmt::format(R"({{"args": {}, "kwargs": {}}})", args, kwargs);
  };
  const std::string both = fmt::format("[[{}, {}]]", kTensor, kTensor);
  EXPECT_EQ(refusal(functional(call(both, R"({"mask": null})"), kEnds)), "");
  EXPECT_EQ(refusal(functional(call(both, "{}"), R"("input_layers": {"a": ["in", 0, 0]},
                                                    "output_layers": {"b": ["out", 0, 0]})")),
            "");
  EXPECT_EQ(refusal(functional(call(both, "{}"),
                               R"("input_layers": ["in", 0, 0], "output_layers": ["out", 0, 0])")),
            "");
  expect_refused(functional(call(both, R"({"training": true})"), kEnds), "training");
  // What Keras 3.9 writes of itself.
  const auto dropout = [&](const std::string& kwargs) {
    std::string text = functional(call(fmt::format("[{}]", kTensor), kwargs), kEnds);
    const std::string merge = R"("Multiply", "config": {)";
    return text.replace(text.find(merge), merge.size(), R"("Dropout", "config": {"rate": 0.5, )");
  };
  EXPECT_EQ(refusal(dropout(R"({"training": false})")), "");
  expect_refused(dropout(R"({"training": true})"), "training");
  expect_refused(functional(call(fmt::format("[{}, 2.0]", kTensor), "{}"), kEnds), "2.0");
}

TEST(KerasJson, ACompiledModelIsCompiledAgain) {
  const std::string dense = layer("Flatten", "") + ", " + layer("Dense", R"("units": 3)");
  const auto compiled = [&](const std::string& config) {
    std::string layers = dense;
    layers.replace(layers.rfind("tested"), 6, "dense");
    return sequential(layers, fmt::format(R"(, "compile_config": {{{}}})", config));
  };
  const std::string tail =
      R"(, "loss_weights": null, "weighted_metrics": null, "jit_compile": true)";
  const Model model = Model::from_json(compiled(
      R"("optimizer": {"module": "keras.optimizers", "class_name": "AdamW",
          "config": {"name": "adamw", "learning_rate":
         {"module": "keras.optimizers.schedules", "class_name": "CosineDecay",
          "config": {"initial_learning_rate": 0.5,
         "decay_steps": 100, "alpha": 0.0, "name": "CosineDecay", "warmup_target": null,
          "warmup_steps": 0}},
         "weight_decay": 0.03, "clipnorm": null}, "registered_name": "AdamW"},
         "loss": {"module": "keras.losses", "class_name": "SparseCategoricalCrossentropy",
          "config": {"name": "x",
         "reduction": "sum_over_batch_size", "from_logits": true, "ignore_class": null,
          "dtype": "float32"}},
         "metrics": ["accuracy", {"module": "keras.metrics",
          "class_name": "SparseTopKCategoricalAccuracy",
         "config": {"name": "top2", "dtype": "float32", "k": 2}}])" +
      tail));
  const Compiled& got = model.impl().compiled.value();
  EXPECT_EQ(got.optimizer.class_name(), "AdamW");
  EXPECT_EQ(*find(got.optimizer.config(), "weight_decay"), ConfigValue(0.03));
  EXPECT_DOUBLE_EQ(model.impl().learning_rate, 0.5);
  const Target& target = got.targets.at(0);
  EXPECT_EQ(target.loss.name(), "sparse_categorical_crossentropy");
  EXPECT_EQ(*find(target.loss.config(), "from_logits"), ConfigValue(true));
  ASSERT_EQ(target.metrics.size(), 2U);
  EXPECT_EQ(target.metrics[0].name(), "accuracy");
  EXPECT_EQ(target.metrics[1].name(), "top2");

  EXPECT_TRUE(
      Model::from_json(compiled(R"("optimizer": "rmsprop", "loss": "mse", "metrics": null)"))
          .impl()
          .compiled.has_value());
  EXPECT_FALSE(Model::from_json(compiled(R"("optimizer": "adam", "loss": null)"))
                   .impl()
                   .compiled.has_value());
  expect_refused(compiled(R"("optimizer": "adam", "loss": "mse", "loss_weights": [2.0])"),
                 "loss_weights");
  expect_refused(compiled(R"("optimizer": "adam", "loss": "magic")"), "magic");
  expect_refused(compiled(R"("optimizer": "ftrl", "loss": "mse")"), "ftrl");
  expect_refused(
      compiled(R"("loss": {"class_name": "MeanSquaredError", "config": {"reduction": "sum"}})"),
      "reduction");
  expect_refused(
      compiled(R"("loss": "mse", "metrics": [{"class_name": "AUC", "config": {"curve": "PR"}}])"),
      "curve");
}

// ---- models inside of models

std::string entry(const std::string& class_name, const std::string& name, const std::string& config,
                  const std::string& inbound) {
  return fmt::format(
      R"({{"class_name": "{}", "config": {{"name": "{}"{}{}}}, "name": "{}",
          "inbound_nodes": [{}]}})",
      class_name, name, config.empty() ? "" : ", ", config, name, inbound);
}

std::string reference(const std::string& layer, int call = 0, int output = 0) {
  return fmt::format(R"({{"class_name": "__keras_tensor__", "config": {{"shape": [null, 4],
          "dtype": "float32", "keras_history": ["{}", {}, {}]}}}})",
                     layer, call, output);
}

std::string call(const std::string& tensors, const std::string& kwargs = "") {
  return fmt::format(R"({{"args": [{}], "kwargs": {{{}}}}})", tensors, kwargs);
}

std::string graph_config(const std::string& name, const std::string& layers,
                         const std::string& outputs) {
  return fmt::format(R"("name": "{}", "trainable": true, "layers": [{}],
          "input_layers": [["in", 0, 0]], "output_layers": [{}])",
                     name, layers, outputs);
}

std::string graph(const std::string& layers, const std::string& outputs) {
  return fmt::format(R"({{"class_name": "Functional", "config": {{{}}}}})",
                     graph_config("whole", layers, outputs));
}

const std::string kInput = entry("InputLayer", "in", R"("batch_shape": [null, 4])", "");

// A model in a layer's place with a Dense of three and one of two outputs, both of them returned.
std::string two_heads(const std::string& inbound, const std::string& flags = "") {
  const std::string layers = kInput + "," +
                             entry("Dense", "dense", R"("units": 3)", call(reference("in"))) + "," +
                             entry("Dense", "dense_1", R"("units": 2)", call(reference("dense")));
  return fmt::format(R"({{"class_name": "Functional", "config": {{{}{}}}, "name": "heads",
          "inbound_nodes": [{}]}})",
                     graph_config("heads", layers, R"(["dense", 0, 0], ["dense_1", 0, 0])"), flags,
                     inbound);
}

std::vector<std::string> parameter_names(const Model& model) {
  std::vector<std::string> names;
  for (const Parameter& parameter : model.impl().network.parameters())
    names.push_back(parameter.name);
  return names;
}

std::vector<float> predicted(Model& model, const Tensor& x) {
  const Tensor y = model.predict(x);
  const auto values = y.values<float>();
  return {values.begin(), values.end()};
}

TEST(KerasJson, ModelsInsideOfModelsAreTakenApart) {
  // Called twice with the same parameters; both outputs are used; a layer outside has the name of
  // one inside.
  Model nested = Model::from_json(
      graph(kInput + "," + entry("Dense", "dense", R"("units": 4)", call(reference("in"))) + "," +
                two_heads(call(reference("in")) + "," + call(reference("dense"))) + "," +
                entry("Concatenate", "join", "",
                      call("[" + reference("heads", 0, 1) + "," + reference("heads", 1, 0) + "]")),
            R"(["join", 0, 0])"));
  EXPECT_EQ(parameter_names(nested),
            (std::vector<std::string>{"heads/dense/kernel", "heads/dense/bias", "dense_1/kernel",
                                      "dense_1/bias", "dense/kernel", "dense/bias"}));
  // The same by hand.
  const Symbol in = Input(Shape{4}, "in");
  const Layer first = Dense{.units = 4, .name = "dense"},
              shared = Dense{.units = 3, .name = "heads/dense"},
              last = Dense{.units = 2, .name = "dense_1"};
  const Symbol once = last(shared(in)), twice = shared(first(in));
  Model flat({in}, {Layer(Concatenate{.name = "join"})({once, twice})});
  EXPECT_EQ(parameter_names(flat), parameter_names(nested));
  const Tensor x = waves(Shape{5, 4}, 0.7);
  const auto expected = predicted(flat, x);
  EXPECT_EQ(predicted(nested, x), expected);
  Model again = Model::from_json(nested.to_json());
  EXPECT_EQ(predicted(again, x), expected);
  EXPECT_NE(expected[0], expected[5]);
}

TEST(KerasJson, AChainInsideOfAChainNeedsNoShapeOfItsOwn) {
  const auto inner = [](const std::string& flag) {
    return fmt::format(
        R"({{"class_name": "Sequential", "config": {{"name": "augment"{}, "layers": [
            {{"class_name": "Conv2D", "config": {{"name": "c", "filters": 2,
             "kernel_size": [3, 3]}}}}, {{"class_name": "Flatten", "config": {{"name": "f"}}}}]}}}})",
        flag);
  };
  const Model free =
      Model::from_json(sequential(inner("") + "," + layer("Dense", R"("units": 2)")));
  EXPECT_EQ(parameter_names(free),
            (std::vector<std::string>{"c/kernel", "c/bias", "tested/kernel", "tested/bias"}));
  EXPECT_NE(free.to_json().find(R"("class_name": "Sequential")"), std::string::npos);
  const Model frozen = Model::from_json(
      sequential(inner(R"(, "trainable": false)") + "," + layer("Dense", R"("units": 2)")));
  EXPECT_TRUE(free.impl().network.parameters()[0].trainable);
  EXPECT_FALSE(frozen.impl().network.parameters()[0].trainable);
  EXPECT_TRUE(frozen.impl().network.parameters()[2].trainable);
}

TEST(KerasJson, AModelFirstInAChainSaysTheInput) {
  const std::string body = entry("Dense", "dense", R"("units": 3)", call(reference("in")));
  const Model model = Model::from_json(fmt::format(
      R"({{"class_name": "Sequential", "config": {{"name": "s", "layers": [
          {{"class_name": "Functional", "config": {{{}}}}},
          {{"class_name": "Dense", "config": {{"name": "top", "units": 2}}}}]}}}})",
      graph_config("base", kInput + "," + body, R"(["dense", 0, 0])")));
  EXPECT_EQ(parameter_names(model),
            (std::vector<std::string>{"dense/kernel", "dense/bias", "top/kernel", "top/bias"}));
}

TEST(KerasJson, RefusesCallsOfModelsThatDoNotFit) {
  const auto whole = [](const std::string& part) {
    return graph(kInput + "," + part, R"(["heads", 0, 0])");
  };
  EXPECT_EQ(refusal(whole(two_heads(call(reference("in"))))), "");
  expect_refused(whole(two_heads(call(reference("in"), R"("training": false)"))), "training");
  expect_refused(whole(two_heads(call(reference("in") + "," + reference("in")))),
                 "a model of 1 inputs; got 2");
  expect_refused(graph(kInput + "," + entry("Dense", "d", R"("units": 9)", call(reference("in"))) +
                           "," + two_heads(call(reference("d"))),
                       R"(["heads", 0, 0])"),
                 "[heads] input 0; expected");
  expect_refused(graph(kInput + "," + two_heads(call(reference("in"))), R"(["heads", 0, 2])"),
                 "a call that does not exist");
}

TEST(KerasJson, ModelsThatCallModelsDoNotGrowWithoutEnd) {
  // Every level calls the one below ten times: ten to the ninth calls in 9 KB.
  std::string layers = entry("Dense", "dense", R"("units": 4)", call(reference("in")));
  std::string end = R"(["dense", 0, 0])";
  for (int level = 0; level < 9; ++level) {
    const std::string config = graph_config("level", kInput + "," + layers, end);
    std::string calls = call(reference("in"));
    for (int i = 0; i < 9; ++i) calls += "," + call(reference("level", i));
    layers = fmt::format(R"({{"class_name": "Functional", "config": {{{}}}, "name": "level",
            "inbound_nodes": [{}]}})",
                         config, calls);
    end = R"(["level", 9, 0])";
  }
  expect_refused(graph(kInput + "," + layers, end), "too large a model");
}

}  // namespace
}  // namespace surefit
