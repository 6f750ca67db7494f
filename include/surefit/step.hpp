// SPDX-License-Identifier: Apache-2.0
// Training steps of your own, the counterpart of tf.GradientTape and @tf.function:
//
//   Step train_step({.batch_size = 32}, [&](Tape& tape) {
//     const Traced images = tape.input({28, 28, 1}), labels = tape.input({}, DType::kInt32);
//     const Traced predictions = tape.call(model, images);
//     const LossValue loss = tape.loss("sparse_categorical_crossentropy", labels, predictions);
//     tape.apply(model, tape.gradient(loss, model));
//     return loss;
//   });
//   for (const Element& batch : dataset) double loss = train_step(batch[0], batch[1]);
//
// The function is called once, to write down what happens. The step is then planned and bound like
// fit()'s, replayed by every call, and allocates nothing after the first. The same bits come out
// for any number of threads and any memory budget.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "surefit/model.hpp"

namespace surefit {

struct StepOptions {
  std::int64_t batch_size = 32;  // most samples of a call; fewer are fine
  int threads = 0;               // 0: what the machine allows
  std::uint64_t seed = 0;        // of dropout
  Convolutions convolutions = kDefaultConvolutions;
  std::int64_t group = 0;           // how the batch is cut; 0: the planner decides
  std::uint64_t memory_budget = 0;  // bytes of the whole process; 0: what the machine leaves
  std::string spill_directory = {};
};

class TapeImpl;

// An array for each sample of the batch. + - * work element by element and repeat axes of extent 1.
class Traced {
 public:
  Shape shape() const;  // of one sample
  int id() const { return id_; }
  TapeImpl& tape() const { return *tape_; }

 private:
  friend class TapeImpl;
  Traced(TapeImpl* tape, int id) : tape_(tape), id_(id) {}
  TapeImpl* tape_;
  int id_;
};
Traced operator+(const Traced& a, const Traced& b);
Traced operator-(const Traced& a, const Traced& b);
Traced operator*(const Traced& a, const Traced& b);
Traced operator*(const Traced& a, double factor);
Traced operator+(const Traced& a, double number);
// Element by element; `slope` is the derivative.
Traced map(const Traced& value, std::function<float(float)> function,
           std::function<float(float)> slope);
Traced square(const Traced& value);
Traced exp(const Traced& value);
Traced log(const Traced& value);
Traced abs(const Traced& value);

// A loss: the mean over the batch of a sum of weighted terms.
class LossValue {
 public:
  struct Term {
    int index = 0;
    double factor = 1;
  };
  LossValue() = default;
  const std::vector<Term>& terms() const { return terms_; }

 private:
  friend class TapeImpl;
  friend LossValue operator+(const LossValue& a, const LossValue& b);
  friend LossValue operator*(const LossValue& a, double factor);
  std::vector<Term> terms_;
};
LossValue operator+(const LossValue& a, const LossValue& b);
LossValue operator*(const LossValue& a, double factor);

// The gradient of a loss by each trainable parameter of a model.
class Gradients {
 public:
  struct State;
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  friend class TapeImpl;
  explicit Gradients(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};
Gradients operator+(const Gradients& a, const Gradients& b);
Gradients operator*(const Gradients& gradients, double factor);
Gradients clip_by_value(const Gradients& gradients, double limit);        // of each element
Gradients clip_by_norm(const Gradients& gradients, double limit);         // of each parameter
Gradients clip_by_global_norm(const Gradients& gradients, double limit);  // of all together

// Gradients that live between calls, to be added up over several. Bound to the model; starts at 0.
class GradientSum {
 public:
  explicit GradientSum(Model& model);
  ~GradientSum();
  GradientSum(GradientSum&&) noexcept;
  GradientSum& operator=(GradientSum&&) noexcept;

  struct State;
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

// Writes down one step. All forward work runs first, then gradients, then updates, whatever the
// order of the calls; a model is therefore not called after its gradients were applied.
class Tape {
 public:
  // The next argument of the step: for each sample an array of this shape, float32 or int32.
  Traced input(const Shape& shape, DType dtype = DType::kFloat32);
  Traced call(Model& model, const Traced& input, bool training = true);
  std::vector<Traced> call(Model& model, const std::vector<Traced>& inputs, bool training = true);
  LossValue loss(const Loss& loss, const Traced& labels, const Traced& predictions);
  // The mean of all elements of a value, as a loss.
  LossValue mean(const Traced& value);

  Gradients gradient(const LossValue& loss, Model& model);
  // By a value, such as an input.
  Traced gradient(const LossValue& loss, const Traced& value);
  // One update by the optimizer that the model was compiled with.
  void apply(Model& model, const Gradients& gradients);
  void accumulate(GradientSum& sum, const Gradients& gradients);
  // What was added up so far; starts again at 0 behind this step.
  Gradients take(GradientSum& sum);

  // Readable behind each call by Step::number() and Step::tensor().
  void output(const std::string& name, const LossValue& loss);
  void output(const std::string& name, const Traced& value);
  // Each parameter's gradient by name + "/" + the parameter's.
  void output(const std::string& name, const Gradients& gradients);

  explicit Tape(TapeImpl& impl) : impl_(impl) {}

 private:
  TapeImpl& impl_;
};

class Step {
 public:
  // Throws ConfigError where the step makes no sense, MemoryRefused where it does not fit.
  template <typename Function>
  requires std::is_invocable_v<Function&, Tape&> Step(const StepOptions& options, Function&& trace)
      : Step(options, std::function<LossValue(Tape&)>([&](Tape& tape) -> LossValue {
               if constexpr (std::is_void_v<std::invoke_result_t<Function&, Tape&>>) {
                 trace(tape);
                 return {};
               } else {
                 return trace(tape);
               }
             }),
             Written{}) {}
  ~Step();
  Step(Step&&) noexcept;
  Step& operator=(Step&&) noexcept;

  // One call with the tensors in the order of Tape::input, samples along the first axis. Returns
  // the loss that the traced function returned, 0 where it returned none. A loss that is not finite
  // throws NumericsError and leaves the model as it was.
  template <typename... Tensors>
  requires(std::is_same_v<Tensors, Tensor>&&...) double operator()(const Tensors&... inputs) {
    const std::array<const Tensor*, sizeof...(Tensors)> list = {&inputs...};
    return run(list);
  }
  double run(std::span<const Tensor* const> inputs);

  double number(const std::string& name) const;  // a loss of the last call
  Tensor tensor(const std::string& name) const;  // a value or gradient of the last call, as a copy
  const MemoryReport& memory() const;
  std::int64_t calls() const;

 private:
  struct Written {};
  Step(const StepOptions& options, const std::function<LossValue(Tape&)>& trace, Written);
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// How far the derivatives of a layer or loss of your own are from differences of its values.
struct GradientCheck {
  double largest_error = 0;  // relative to the largest derivative
  std::string worst;         // "input 0", "parameter 'scale/factor'"
  bool passed(double tolerance = 1e-2) const { return largest_error <= tolerance; }
};
GradientCheck check_gradients(const Layer& layer, const std::vector<Shape>& inputs,
                              std::uint64_t seed = 1);
GradientCheck check_gradients(const Loss& loss, const Shape& prediction, std::uint64_t seed = 1);

}  // namespace surefit
