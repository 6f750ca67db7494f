// SPDX-License-Identifier: Apache-2.0
// Models: build, compile, fit, evaluate, predict.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "surefit/callbacks.hpp"
#include "surefit/data.hpp"
#include "surefit/layers.hpp"
#include "surefit/losses.hpp"
#include "surefit/metrics.hpp"
#include "surefit/optimizers.hpp"
#include "surefit/tensor.hpp"

namespace surefit {

// The dtype policy by Keras's names: "float32", "mixed_float16", "mixed_bfloat16". This build has
// no 16-bit arithmetic: under a mixed policy activations that wait for the backward pass are
// rounded to and stored in 16 bits, everything is computed in 32. So gradients cannot underflow and
// no loss scaling is needed. Throws ConfigError on other names.
namespace mixed_precision {
void set_global_policy(const std::string& name);
const std::string& global_policy();
}  // namespace mixed_precision

// What one of several outputs is trained for.
struct OutputOptions {
  Loss loss;
  double weight = 1;  // of its loss in the sum
  std::vector<Metric> metrics = {};
};

struct CompileOptions {
  Optimizer optimizer = "adam";
  // Of a model with one output.
  Loss loss = "sparse_categorical_crossentropy";
  std::vector<Metric> metrics = {};
  // Of a model with several, in the order of its outputs. Logs are named after the output's layer:
  // "digit_loss", "digit_accuracy".
  std::vector<OutputOptions> outputs = {};
};

struct FitOptions {
  std::int64_t batch_size = 32;  // for arrays; a Dataset brings its own batches
  std::int64_t epochs = 1;
  bool shuffle = true;  // for arrays: another order each epoch
  std::optional<Dataset> validation_data =
      {};  // of batches, or of samples (then batched by batch_size)
  std::vector<CallbackHandle> callbacks = {};
  std::uint64_t seed = 0;       // of shuffling and dropout
  int threads = 0;              // 0: what the machine allows
  std::int64_t max_steps = 0;   // over all epochs; 0: no limit
  bool check_numerics = false;  // look for NaN and Inf behind every node (slow)
  Convolutions convolutions = kDefaultConvolutions;
  // (class, weight) pairs: losses of that class count so much in training; 1 for others. Data that
  // bring a number behind the labels have weights of their own for each sample.
  std::vector<std::pair<std::int64_t, double>> class_weight = {};
  // How the batch is cut; any value gives the same bits. 0: the planner decides.
  std::int64_t group = 0;
  InputOptions input = {};  // how samples are prepared; validation data are never cached

  // Bytes that the whole process may hold; 0: what control groups, limits and the machine leave.
  // Never changes a bit; where nothing fits, fit() throws MemoryRefused before the first step. When
  // others take memory away later, fit() shrinks between two steps, and grows again up to this.
  std::uint64_t memory_budget = 0;
  // Where activations go when memory is short; empty: the run's directory, or TMPDIR.
  std::string spill_directory = {};
  // Consent to what changes bits, used only where nothing else fits: "f16-activations",
  // "ghost-batch-norm", "factored-optimizer". What was used is written into history and
  // checkpoints.
  std::vector<std::string> allow = {};
  std::string policy = {};  // of this call; empty: mixed_precision::global_policy()

  // Directory of the run; checkpoints go to its folder `checkpoints`. Empty: none are written.
  std::string run = {};
  // Go on from the newest valid checkpoint of `run`, or from the start where there is none. Without
  // it, a run that has checkpoints is refused: nothing is ever overwritten.
  bool resume = false;
  bool adapt =
      false;  // go on although model, data or numerics differ; what does not fit stays as it is
  std::string checkpoint_every = "auto";  // or "30s", "500steps", "1epoch", "never"
  int keep = 2;                           // checkpoints
  // A copy of the state is written while training goes on. Without it training waits for the disk,
  // in less memory.
  bool checkpoint_staging = true;
};

class Model {
 public:
  // A functional model. Throws ConfigError when the symbols do not connect.
  Model(const std::vector<Symbol>& inputs, const std::vector<Symbol>& outputs,
        std::string name = "functional");
  Model(const Symbol& input, const Symbol& output)
      : Model(std::vector{input}, std::vector{output}) {}
  // From Keras's JSON (model.to_json() of Keras 3); one that was compiled before it was written is
  // compiled again. Throws ConfigError or DataError.
  static Model from_json(const std::string& text, const std::string& file = "model.json");
  static Model load(const std::string& path);
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  const std::string& name() const;
  std::string to_json() const;
  // A table of layers, shapes and parameters.
  std::string summary() const;

  void compile(CompileOptions options);
  History fit(const Dataset& data, const FitOptions& options = {});
  History fit(const Tensor& x, const Tensor& y, const FitOptions& options = {});
  History fit(const Tensor& x, const Tensor& y, const Tensor& sample_weight,
              const FitOptions& options = {});
  // Loss and metrics over the data.
  Logs evaluate(const Dataset& data, const FitOptions& options = {});
  Logs evaluate(const Tensor& x, const Tensor& y, const FitOptions& options = {});
  // How often a sample of class i (row) was taken for class j (column); int64, classes x classes.
  // For a compiled model with one output of scores.
  Tensor confusion_matrix(const Dataset& data, const FitOptions& options = {});
  Tensor predict(const Tensor& x, const FitOptions& options = {});
  // Of every output, for any number of inputs; components behind the inputs are skipped.
  std::vector<Tensor> predict(const Dataset& data, const FitOptions& options = {});

  // What a fit() with batches of options.batch_size would hold besides its data, planned without
  // running anything. Throws MemoryRefused where nothing fits.
  MemoryReport memory_plan(const FitOptions& options = {}) const;
  // The largest batch that fits; 0 where not even one sample does.
  std::int64_t largest_batch(const FitOptions& options = {}) const;

  // Sets all parameters anew by their initializers; a new model has seed 0.
  void initialize(std::uint64_t seed);
  // Safetensors with Keras's names and layouts. Loading is all or nothing; names, shapes and types
  // must match.
  void save_weights(const std::string& path) const;
  void load_weights(const std::string& path);
  std::vector<std::string> output_names() const;  // of their layers
  std::vector<std::string> parameter_names() const;
  Tensor parameter(const std::string& name) const;
  void set_parameter(const std::string& name, const Tensor& value);

  class Impl;
  const std::shared_ptr<Impl>& shared_impl() { return impl_; }
  Impl& impl() { return *impl_; }
  const Impl& impl() const { return *impl_; }

 protected:
  Model() = default;
  std::shared_ptr<Impl> impl_;  // never shared by two models; traced steps keep it alive
};

// Layers one after the other. The first must be an InputLayer, or give the input's shape:
// Sequential({28, 28, 1}, {Conv2D{...}, ...}).
class Sequential : public Model {
 public:
  Sequential(const Shape& input, const std::vector<Layer>& layers, std::string name = "sequential");
};

}  // namespace surefit
