// SPDX-License-Identifier: Apache-2.0
// The binary version of CIFAR-10 and CIFAR-100: records of one label (CIFAR-100: coarse, then fine)
// and 32x32 pixels, a plane each of red, green and blue. Bad files are DataError.
#pragma once

#include <memory>
#include <string>

#include "surefit/tensor.hpp"

#include "base/env.hpp"
#include "interop/idx.hpp"

namespace surefit {

enum class Cifar { k10, k100 };

struct CifarBatch {
  Tensor images;         // (count, 32, 32, 3) uint8
  Tensor labels;         // (count,) uint8; CIFAR-100: the fine labels
  Tensor coarse_labels;  // (count,) uint8; empty for CIFAR-10
};

CifarBatch read_cifar(Env& env, const std::string& path, Cifar kind);
CifarBatch parse_cifar(std::unique_ptr<ReadableFile> file, std::string name, Cifar kind);

// The five training batches or the test batch of a directory, under the names they are published
// with (data_batch_1.bin ... test_batch.bin; train.bin, test.bin).
LabeledImages load_cifar_directory(Env& env, const std::string& directory, Cifar kind, Split split);

}  // namespace surefit
