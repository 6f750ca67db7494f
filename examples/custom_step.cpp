// SPDX-License-Identifier: Apache-2.0
// Training loops of your own. What is written with tf.GradientTape and @tf.function elsewhere is a
// Step here: traced once, planned, replayed. Nothing has to be collected, deleted or cleared, since
// a call allocates nothing.
#include <cstdio>

#include "surefit/step.hpp"
#include "surefit/zoo.hpp"

using namespace surefit;

namespace {

Dataset pictures(std::int64_t count) {
  Tensor x({count, 12, 12, 1}), y({count}, DType::kInt32);
  for (std::int64_t n = 0; n < count; ++n) {
    const auto label = static_cast<std::int32_t>(n % 3);
    y.at<std::int32_t>({n}) = label;
    for (std::int64_t i = 0; i < 12; ++i)
      for (std::int64_t j = 0; j < 12; ++j)
        x.at<float>({n, i, j, 0}) =
            static_cast<float>((i * (label + 1) + j * (3 - label) + n) % 7) / 7.0f;
  }
  return Dataset::from_tensor_slices(std::move(x), std::move(y));
}

Sequential make_model() {
  Sequential model({12, 12, 1}, {Conv2D{.filters = 8, .kernel_size = 3, .activation = "relu"},
                                 MaxPooling2D{}, Flatten{}, Dense{.units = 3}});
  model.compile({.optimizer = Adam{.learning_rate = 0.01}});
  return model;
}

const Loss kLoss = SparseCategoricalCrossentropy{.from_logits = true};

// predictions = model(x); loss = loss_fn(y, predictions); gradients = tape.gradient(...);
// optimizer.apply_gradients(...); print(loss)
double plain_loop(const Dataset& batches) {
  Sequential model = make_model();
  Step train_step({.batch_size = 16}, [&](Tape& tape) {
    const Traced images = tape.input({12, 12, 1}), labels = tape.input({}, DType::kInt32);
    const LossValue loss = tape.loss(kLoss, labels, tape.call(model, images));
    tape.apply(model, tape.gradient(loss, model));
    return loss;
  });
  double loss = 0;
  for (int epoch = 0; epoch < 10; ++epoch) {
    for (const Element& batch : batches) loss = train_step(batch[0], batch[1]);
    std::printf("epoch %d: loss %.4f\n", epoch + 1, loss);
  }
  return loss;
}

// accumulated = [a + g for ...]; every few batches optimizer.apply_gradients(accumulated), then
// start again. fit() needs none of this: a batch of any size is cut to fit the memory.
double accumulated_loop(const Dataset& batches) {
  constexpr int kAccumulate = 4;
  Sequential model = make_model();
  GradientSum sum(model);
  Step micro_step({.batch_size = 16}, [&](Tape& tape) {
    const Traced images = tape.input({12, 12, 1}), labels = tape.input({}, DType::kInt32);
    const LossValue loss = tape.loss(kLoss, labels, tape.call(model, images));
    tape.accumulate(sum, tape.gradient(loss, model) * (1.0 / kAccumulate));
    return loss;
  });
  Step apply_step({},
                  [&](Tape& tape) { tape.apply(model, clip_by_global_norm(tape.take(sum), 5.0)); });
  double loss = 0;
  int number = 0;
  for (int epoch = 0; epoch < 20; ++epoch) {
    for (const Element& batch : batches) {
      loss = micro_step(batch[0], batch[1]);
      if (++number % kAccumulate == 0) apply_step();
    }
  }
  std::printf("with gradients added up over %d batches: loss %.4f\n", kAccumulate, loss);
  return loss;
}

// Own arithmetic: a second term that keeps the scores small, and a look at the gradients.
double own_loss(const Dataset& batches) {
  Sequential model = make_model();
  Step train_step({.batch_size = 16}, [&](Tape& tape) {
    const Traced images = tape.input({12, 12, 1}), labels = tape.input({}, DType::kInt32);
    const Traced scores = tape.call(model, images);
    const LossValue fit = tape.loss(kLoss, labels, scores), small = tape.mean(square(scores));
    const LossValue loss = fit + small * 0.01;
    const Gradients gradients = tape.gradient(loss, model);
    tape.output("fit", fit);
    tape.output("gradient", gradients);
    tape.apply(model, gradients);
    return loss;
  });
  for (int epoch = 0; epoch < 10; ++epoch)
    for (const Element& batch : batches) train_step(batch[0], batch[1]);
  const Tensor gradient = train_step.tensor("gradient/dense/kernel");
  std::printf("two terms: %.4f of it by the labels; gradient of the last layer %s\n",
              train_step.number("fit"), gradient.shape().to_string().c_str());
  return train_step.number("fit");
}

}  // namespace

int main() {
  const Dataset batches = pictures(96).shuffle(96, {.seed = 1}).batch(16);
  const bool learned =
      plain_loop(batches) < 0.3 && accumulated_loop(batches) < 0.6 && own_loss(batches) < 0.4;
  return learned ? 0 : 1;
}
