// SPDX-License-Identifier: Apache-2.0
// tf.data over arrays, as people write it for Keras:
//   train_dataset = tf.data.Dataset.from_tensor_slices((train_images, train_labels))
//   validation_dataset = tf.data.Dataset.from_tensor_slices((validation_images, validation_labels))
//   train_dataset = train_dataset.shuffle(len(train_images)).batch(32).prefetch(tf.data.AUTOTUNE)
//   validation_dataset = validation_dataset.batch(32).prefetch(tf.data.AUTOTUNE)
//   model.fit(train_dataset, epochs=3, validation_data=validation_dataset)
// and with a buffer "adjusted to the available RAM":
//   train_dataset = train_dataset.shuffle(buffer_size=10000).batch(32)
#include <iostream>

#include "surefit/model.hpp"

using namespace surefit;

namespace {

// Grey pictures with a bright row that tells the class.
std::pair<Tensor, Tensor> pictures(std::int64_t count) {
  Tensor x(Shape{count, 28, 28, 1}), y(Shape{count}, DType::kInt32);
  for (std::int64_t n = 0; n < count; ++n) {
    y.at<std::int32_t>({n}) = static_cast<std::int32_t>(n % 10);
    for (std::int64_t i = 0; i < 28; ++i) x.at<float>({n, 2 * (n % 10) + 4, i, 0}) = 1;
  }
  return {std::move(x), std::move(y)};
}

}  // namespace

int main() {
  const auto [train_images, train_labels] = pictures(600);
  const auto [validation_images, validation_labels] = pictures(100);

  // The shuffle is perfect and needs no memory: it permutes indices, not pictures.
  const Dataset train_dataset = Dataset::from_tensor_slices(train_images, train_labels)
                                    .shuffle(600)
                                    .batch(32)
                                    .prefetch(AUTOTUNE);
  const Dataset validation_dataset =
      Dataset::from_tensor_slices(validation_images, validation_labels)
          .batch(32)
          .prefetch(AUTOTUNE);
  std::cout << train_dataset.describe() << '\n';

  Sequential model({28, 28, 1},
                   {Conv2D{.filters = 32, .kernel_size = 3, .activation = "relu"}, MaxPooling2D{},
                    Flatten{}, Dense{.units = 10, .activation = "softmax"}});
  model.compile({.optimizer = "adam", .loss = "sparse_categorical_crossentropy"});
  const History history = model.fit(
      train_dataset, {.epochs = 3, .validation_data = validation_dataset, .callbacks = {}});
  std::cout << "val_loss " << history.series("val_loss").back() << '\n';

  // A buffer larger than the data is as good as one of their size, and costs as little: none.
  const Dataset buffered =
      Dataset::from_tensor_slices(train_images, train_labels).shuffle(10000).batch(32);
  std::int64_t samples = 0;
  for (const Element& batch : buffered) {
    const auto& [x, y] = batch.pair();
    samples += x.shape()[0];
    if (y.shape()[0] != x.shape()[0]) return 1;
  }
  return samples == 600 && history.series("val_loss").back() < 0.5 ? 0 : 1;
}
