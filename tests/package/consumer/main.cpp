#include <cstdio>

#include "surefit/model.hpp"

int main() {
  using namespace surefit;
  Tensor x({8, 8, 8, 1}), y({8}, DType::kInt32);
  for (int n = 0; n < 8; ++n) {
    x.at<float>({n, n, 3, 0}) = 1;
    y.at<std::int32_t>({n}) = n % 2;
  }
  Sequential model({8, 8, 1}, {Conv2D{.filters = 8, .kernel_size = 3, .activation = "relu"}, Flatten{},
                               Dense{.units = 2, .activation = "softmax"}});
  model.compile({.optimizer = "adam", .metrics = {"accuracy"}});
  std::printf("one step, loss %f\n", model.fit(x, y, {.batch_size = 8, .epochs = 1}).series("loss").at(0));
}
