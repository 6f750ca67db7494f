// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/env.hpp"
#include "interop/npy.hpp"
#include "train/inference.hpp"
#include "train/model_impl.hpp"
#include "worker/options.hpp"
#include "worker/verbs.hpp"

namespace surefit::worker {
namespace {

struct InferenceOptions {
  ModelOptions model;
  DataOptions data;
  ConvolutionOptions convolutions;
  std::string weights;
  bool json = false;

  void add_to(CLI::App& app, DataUse use) {
    model.add_to(app);
    data.add_to(app, use);
    app.add_option("--weights", weights, "trained weights, safetensors")->required();
    convolutions.add_to(app);
    app.add_flag("--json", json, "one JSON object per line on stdout");
  }
  Model load() const {
    Model loaded = model.make();
    loaded.load_weights(weights);
    return loaded;
  }
  Dataset batches() const {
    if (data.batch_size < 1)
      throw ConfigError(fmt::format("[--batch-size] expected at least 1; got {}", data.batch_size));
    return data.test_samples().batch(static_cast<std::uint64_t>(data.batch_size)).prefetch();
  }
  FitOptions fit() const {
    return {.batch_size = data.batch_size,
            .threads = data.threads,
            .convolutions = convolutions.value(),
            .input = data.input({}, json)};
  }
};

void print_confusions(const Tensor& matrix, bool json) {
  const std::int64_t classes = matrix.shape()[0];
  std::string text = json ? "{\"event\":\"confusion\",\"matrix\":[" : "true \\ taken for";
  for (std::int64_t j = 0; !json && j < classes; ++j) text += fmt::format("{:>8}", j);
  for (std::int64_t i = 0; i < classes; ++i) {
    text += json ? (i == 0 ? "[" : ",[") : fmt::format("\n{:>16}", i);
    for (std::int64_t j = 0; j < classes; ++j) {
      const std::int64_t count = matrix.at<std::int64_t>({i, j});
      text += json ? fmt::format("{}{}", j == 0 ? "" : ",", count) : fmt::format("{:>8}", count);
    }
    if (json) text += "]";
  }
  fmt::print("{}{}\n", text, json ? "]}" : "");
}

}  // namespace

int evaluate_verb(const Arguments& arguments) {
  CLI::App app("Measures a trained model on data (the test split where there is one).",
               "surefit evaluate");
  InferenceOptions options;
  options.add_to(app, DataUse::kEvaluate);
  std::string loss;
  std::vector<std::string> metrics;
  bool confusion = false;
  app.add_option("--loss", loss,
                 "Keras's name of a loss (default: the model file's, or what fits output and "
                 "labels)");
  app.add_option("--metrics", metrics,
                 "comma separated (default: the model file's, or accuracy, of classes)")
      ->delimiter(',');
  app.add_flag("--confusion", confusion,
               "also how often each class (row) was taken for each (column)");
  app.footer(
      "\nExample:\n  surefit evaluate --model seed_cnn --weights w.safetensors --data "
      "fashion-mnist\n");
  if (const auto code = parse(app, arguments)) return *code;
  Model model = options.load();
  model.compile(
      compile_options(model, options.data.test_samples(), {.loss = loss, .metrics = metrics}));
  const Logs logs = naming_sources(
      options.data, [&] { return model.evaluate(options.batches(), options.fit()); });
  if (confusion) {
    print_confusions(model.confusion_matrix(options.batches(), options.fit()), options.json);
  }
  std::string text;
  for (const auto& [name, value] : logs) {
    text += options.json ? fmt::format(",\"{}\":{}", name, value)
                         : fmt::format("{}{}: {:.6f}", text.empty() ? "" : " - ", name, value);
  }
  options.json ? fmt::print("{{\"event\":\"end\"{}}}\n", text) : fmt::print("{}\n", text);
  return 0;
}

int predict_verb(const Arguments& arguments) {
  CLI::App app("Runs a trained model and writes its outputs.", "surefit predict");
  InferenceOptions options;
  options.add_to(app, DataUse::kPredict);
  std::string out;
  app.add_option(
      "--out", out,
      "npz file for the predictions (array 'predictions', or one array named after each of "
      "several outputs); without it those of the first output are printed");
  app.footer(
      "\nExample:\n  surefit predict --model seed_cnn --weights w.safetensors --data fashion-mnist "
      "--out p.npz\n");
  if (const auto code = parse(app, arguments)) return *code;
  if (!out.empty()) check_writable(out, "--out");
  Model model = options.load();
  const std::vector<Tensor> outputs =
      naming_sources(options.data, [&] { return model.predict(options.batches(), options.fit()); });
  const Tensor& predictions = outputs[0];
  if (!out.empty()) {
    std::vector<TensorRef> arrays;
    const std::vector<std::string> names = model.output_names();
    for (std::size_t i = 0; i < outputs.size(); ++i)
      arrays.push_back({outputs.size() == 1 ? "predictions" : names[i], outputs[i]});
    write_npz(Env::posix(), out, arrays);
    fmt::print("wrote {} predictions of shape {} to {}\n", predictions.shape()[0],
               predictions.shape().drop_front().to_string(), out);
    return 0;
  }
  const std::size_t width = predictions.count() / static_cast<std::size_t>(std::max<std::int64_t>(
                                                      1, predictions.shape()[0]));
  const auto values = predictions.values<float>();
  for (std::size_t n = 0; n * width < values.size(); ++n) {
    std::string row;
    for (std::size_t i = 0; i < width; ++i)
      row += fmt::format("{}{:.6g}", i == 0 ? "" : " ", values[n * width + i]);
    fmt::print("{}\n", row);
  }
  return 0;
}

}  // namespace surefit::worker
