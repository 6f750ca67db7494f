// SPDX-License-Identifier: Apache-2.0
// tf.data over arrays, as people write it for Keras:
//   train_dataset = tf.data.Dataset.from_tensor_slices((train_images, train_labels))
//   train_dataset = train_dataset.shuffle(len(train_images)).batch(32).prefetch(tf.data.AUTOTUNE)
#include <iostream>

#include "surefit/data.hpp"

using namespace surefit;

int main() {
  Tensor train_images(Shape{600, 28, 28, 1}), train_labels(Shape{600}, DType::kInt32);
  for (std::size_t i = 0; i < 600; ++i)
    train_labels.values<std::int32_t>()[i] = static_cast<std::int32_t>(i % 10);

  // The shuffle is perfect and needs no memory: it permutes indices, not pictures.
  const Dataset train_dataset = Dataset::from_tensor_slices(train_images, train_labels)
                                    .shuffle(600)
                                    .batch(32)
                                    .prefetch(AUTOTUNE);

  std::cout << train_dataset.describe() << '\n';
  std::int64_t samples = 0;
  for (const Element& batch : train_dataset) {
    const auto& [x, y] = batch.pair();
    samples += x.shape()[0];
    if (y.shape()[0] != x.shape()[0]) return 1;
  }
  std::cout << train_dataset.cardinality().value() << " batches, " << samples << " samples\n";
  return samples == 600 ? 0 : 1;
}
