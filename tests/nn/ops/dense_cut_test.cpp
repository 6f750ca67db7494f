// SPDX-License-Identifier: Apache-2.0
#include "nn/ops/dense_cut.hpp"

#include <gtest/gtest.h>

namespace surefit {
namespace {

TEST(DenseCut, PartsCoverTheLayer) {
  for (const std::int64_t outputs : {1, 3, 10, 16, 17, 50, 120, 1000, 4096}) {
    for (const std::int64_t inputs : {1, 7, 8, 84, 400, 403, 1531, 5408, 25088, 394272}) {
      const kernels::DenseShape shape{inputs, outputs};
      const DenseCut cut = cut_dense(shape);
      std::int64_t k = 0, weights = 0;
      for (std::int64_t index = 0; index < cut.k_parts; ++index) {
        const DensePart part = dense_part(shape, cut, index);
        EXPECT_EQ(part.k_begin, k);
        EXPECT_EQ(part.weights_begin, weights);
        EXPECT_GE(part.shape.inputs, 1);
        // The layout of a part must be the one the whole layer's number of outputs asks for.
        EXPECT_EQ(part.shape.outputs, outputs);
        k += part.shape.inputs;
        weights += kernels::dense_weight_count(part.shape);
      }
      EXPECT_EQ(k, inputs);
      EXPECT_EQ(weights, kernels::dense_weight_count(shape));
      EXPECT_GE(cut.unit_parts * cut.unit_step, kernels::dense_units(shape));
      // Blocks are all pairs of a part and some units, those of a part together.
      for (std::int64_t block = 0; block < cut.blocks(); ++block) {
        EXPECT_EQ(cut.part_of(block) * cut.unit_parts + cut.unit_part_of(block), block);
        EXPECT_LT(cut.part_of(block), cut.k_parts);
        EXPECT_LT(cut.unit_part_of(block), cut.unit_parts);
      }
    }
  }
}

// What it is for: two threads get equal shares of the layers that batches of eight suffer from.
TEST(DenseCut, SharesAreEqual) {
  for (const kernels::DenseShape shape : {kernels::DenseShape{5408, 10}, {400, 120}, {3136, 10}}) {
    const DenseCut cut = cut_dense(shape);
    const double half = static_cast<double>(cut.k_parts / 2 * cut.k_step);
    EXPECT_EQ(cut.k_parts % 2, 0);
    EXPECT_NEAR(half / static_cast<double>(shape.inputs), 0.5, 0.02)
        << shape.inputs << " to " << shape.outputs;
    EXPECT_GE(cut.k_step, 192) << "short parts add more sums than they multiply";
  }
}

}  // namespace
}  // namespace surefit
