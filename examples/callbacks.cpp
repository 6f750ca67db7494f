// SPDX-License-Identifier: Apache-2.0
// Keep the best model by validation loss, stop early, and survive being killed: run it, press Ctrl-C or kill -9 it, run it
// again, and it goes on where it was.
#include <iostream>

#include "surefit/model.hpp"
using namespace surefit;

int main() {
  // 240 grey pictures: a bright column tells the class.
  Tensor x({240, 28, 28, 1}), y({240}, DType::kInt32);
  for (int n = 0; n < 240; ++n) {
    y.at<std::int32_t>({n}) = n % 10;
    for (int i = 0; i < 28; ++i) x.at<float>({n, i, 2 * (n % 10) + n % 3, 0}) = 1;
  }
  const Dataset samples = Dataset::from_tensor_slices(x, y);
  const Dataset train_dataset = samples.take(200).shuffle(200).batch(20);
  const Dataset validation_dataset = samples.skip(200).batch(20);

  Sequential model({28, 28, 1}, {Conv2D{.filters = 32, .kernel_size = 3, .activation = "relu"}, MaxPooling2D{},
                                 Flatten{}, Dense{.units = 10, .activation = "softmax"}});
  model.compile({.optimizer = "adam", .loss = "sparse_categorical_crossentropy"});

  const ModelCheckpoint model_checkpoint_callback{
      .filepath = "best_model", .monitor = "val_loss", .save_best_only = true, .mode = "min"};
  const EarlyStopping early_stopping{.monitor = "val_loss", .min_delta = 0.01, .patience = 3, .restore_best_weights = true};

  const History history = model.fit(train_dataset, {.epochs = 50,
                                                    .validation_data = validation_dataset,
                                                    .callbacks = {model_checkpoint_callback, early_stopping},
                                                    .run = "callbacks_run",
                                                    .resume = true});
  std::cout << history.epochs.size() << " epochs; " << history.stop_reason << "\n";

  // The file holds the weights of the best epoch, which fit() has put back too.
  const double restored = *find_log(model.evaluate(validation_dataset), "loss");
  model.load_weights("best_model");
  const double loaded = *find_log(model.evaluate(validation_dataset), "loss");
  std::cout << "best val_loss " << restored << "\n";
  return history.epochs.size() < 50 && loaded <= restored ? 0 : 1;
}
