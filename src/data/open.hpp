// SPDX-License-Identifier: Apache-2.0
// Data as the command line names it: `scheme:rest`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "surefit/image.hpp"

#include "interop/idx.hpp"

namespace surefit::data {

struct OpenOptions {
  Split split = Split::kTrain;  // of published sets: mnist, cifar10, cifar100
  std::optional<std::int64_t> height,
      width;  // of pictures from files; needed when their sizes differ
  std::int64_t channels = 3;
  Subset subset = Subset::kAll;  // of folders
  double validation_split = 0;
  std::uint64_t seed = 0;
};

struct OpenedData {
  Dataset dataset;                       // (picture, label), one sample an element, not shuffled
  std::vector<std::string> class_names;  // empty when the source has none
  std::string description;
};

// dir:FOLDER, csv:FILE, idx:FOLDER (MNIST's names; also mnist:), cifar10:FOLDER, cifar100:FOLDER,
// npz:FILE (x and y, or x_train and y_train), npy:X.npy[,Y.npy]. Throws ConfigError for an unknown
// scheme, DataError for bad files.
OpenedData open_data(std::string_view spec, const OpenOptions& options = {});

}  // namespace surefit::data
