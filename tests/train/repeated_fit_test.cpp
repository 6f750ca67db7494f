// SPDX-License-Identifier: Apache-2.0
// A loop of fit() calls, as notebooks have them: what one call took, the next one has again.
#include <gtest/gtest.h>

#include "surefit/model.hpp"

#include "base/process_memory.hpp"

namespace surefit {
namespace {

TEST(RepeatedFit, ResidentMemoryIsFlatOverAThousandCalls) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers hold freed memory back";
#endif
  Tensor x({8, 12, 12, 1}), y({8}, DType::kInt32);
  for (int n = 0; n < 8; ++n) {
    y.at<std::int32_t>({n}) = n % 2;
    x.at<float>({n, n, 3, 0}) = 1;
  }
  Sequential model({12, 12, 1}, {Conv2D{.filters = 8, .kernel_size = 3, .activation = "relu"},
                                 BatchNormalization{}, MaxPooling2D{}, Flatten{},
                                 Dense{.units = 2, .activation = "softmax"}});
  model.compile({.optimizer = "adam", .loss = "sparse_categorical_crossentropy"});
  constexpr int kCalls = 1000, kWarmUp = 200;
  std::uint64_t warm = 0;
  for (int call = 0; call < kCalls; ++call) {
    model.fit(x, y, {.batch_size = 4, .threads = 2});
    if (call + 1 == kWarmUp) warm = read_process_memory().resident_bytes;
  }
  const std::uint64_t end = read_process_memory().resident_bytes;
  // A leak of one page per call would be 3.1 MiB; the allocator's own breathing stays below one.
  EXPECT_LT(end, warm + (1 << 20)) << "grew from " << warm << " to " << end;
  RecordProperty("warm_bytes", std::to_string(warm));
  RecordProperty("end_bytes", std::to_string(end));
}

}  // namespace
}  // namespace surefit
