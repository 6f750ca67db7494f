// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include "surefit/model.hpp"
using namespace surefit;

int main() {
  // 200 grey pictures: those of class 1 are brighter on the left.
  Tensor x({200, 28, 28, 1}), y({200}, DType::kInt32);
  for (int n = 0; n < 200; ++n) {
    y.at<std::int32_t>({n}) = n % 2;
    for (int i = 0; i < 28; ++i) x.at<float>({n, i, n % 2 ? 3 : 24, 0}) = 1;
  }
  Sequential model({28, 28, 1}, {Conv2D{.filters = 32, .kernel_size = 3, .activation = "relu"}, MaxPooling2D{},
                                 Flatten{}, Dense{.units = 2, .activation = "softmax"}});
  model.compile({.optimizer = "adam", .loss = "sparse_categorical_crossentropy", .metrics = {"accuracy"}});
  const History history = model.fit(x, y, {.batch_size = 32, .epochs = 2});
  model.save_weights("quickstart.safetensors");
  std::cout << model.summary() << "accuracy " << history.series("accuracy").back() << "\n";
}
