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
  Split split = Split::kTrain;  // of published sets: mnist, cifar10, cifar100, npz, synthetic
  // Of pictures in files. Without them such data come as paths: their sizes may differ.
  std::optional<std::int64_t> height, width;
  std::int64_t channels = 3;
  Subset subset = Subset::kAll;  // of folders
  double validation_split = 0;
  std::uint64_t seed = 0;
};

struct OpenedData {
  Dataset dataset;                       // (picture or path, label), not batched, not shuffled
  std::vector<std::string> class_names;  // empty when the source has none
  std::string description;
};

// fashion-mnist, dir:FOLDER, csv:FILE, idx:FOLDER (MNIST's names; also mnist:), cifar10:FOLDER,
// cifar100:FOLDER, npz:FILE (x and y, or x_train and y_train), npy:X.npy[,Y.npy],
// synthetic:HxWxC,CLASSES,COUNT, synthetic-masks:... Throws ConfigError for an unknown scheme,
// DataError for files that are bad or missing.
inline constexpr std::string_view kDataSchemes =
    "fashion-mnist, dir:FOLDER, csv:FILE, idx:FOLDER, cifar10:FOLDER, cifar100:FOLDER, npz:FILE, "
    "npy:X.npy,Y.npy, synthetic:HxWxC,CLASSES,COUNT or synthetic-masks:HxWxC,CLASSES,COUNT";
OpenedData open_data(std::string_view spec, const OpenOptions& options = {});

}  // namespace surefit::data
