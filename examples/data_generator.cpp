// SPDX-License-Identifier: Apache-2.0
// A generator of whole batches that cannot leak, as people write it for TensorFlow:
//   dataset = tf.data.Dataset.from_generator(data_generator, args=[batch_size],
//       output_types=(tf.float32, tf.int32),
//       output_shapes=((None, 224, 224, 3), (None,))).prefetch(tf.data.AUTOTUNE)
//   for epoch in range(epochs):
//       for x, y in dataset.take(1): ...
#include <iostream>

#include "surefit/data.hpp"

using namespace surefit;

namespace {

// What it writes goes into memory that is reused from batch to batch; nothing has to be freed.
Generator data_generator(std::int64_t batch_size) {
  return [batch_size, step = 0](Sample& batch) mutable {
    const auto pixels = batch[0].replace(DType::kFloat32, {batch_size, 224, 224, 3}).bytes;
    std::fill(pixels.begin(), pixels.end(), std::byte{0});
    batch[1].replace(DType::kInt32, {batch_size});
    for (std::int32_t& label : batch[1].mutable_values<std::int32_t>()) label = step++ % 10;
    return true;  // never ends
  };
}

}  // namespace

int main() {
  constexpr std::int64_t kBatchSize = 4;
  const Dataset dataset =
      Dataset::from_generator(GeneratorFactory([] { return data_generator(kBatchSize); }),
                              {{DType::kFloat32, {-1, 224, 224, 3}}, {DType::kInt32, {-1}}})
          .prefetch(AUTOTUNE);
  int batches = 0;
  for (int epoch = 0; epoch < 5; ++epoch) {
    for (const Element& batch : dataset.take(1)) {
      const auto& [x, y] = batch.pair();
      std::cout << "epoch " << epoch << ": " << x.shape().to_string() << ' '
                << y.shape().to_string() << '\n';
      ++batches;
    }
  }
  return batches == 5 ? 0 : 1;
}
