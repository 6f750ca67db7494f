// SPDX-License-Identifier: Apache-2.0
#include "data/open.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "data/sources/files.hpp"
#include "data/sources/rows.hpp"
#include "data/sources/synthetic.hpp"
#include "interop/cifar.hpp"
#include "interop/npy.hpp"

namespace surefit::data {
namespace {

transform::LoadPictureOptions load_options(const OpenOptions& options) {
  return {.height = *options.height, .width = *options.width, .channels = options.channels};
}

OpenedData open_paths(const Dataset& paths, std::vector<std::string> names,
                      const OpenOptions& options) {
  if (!options.height || !options.width) return {paths, std::move(names), paths.describe()};
  const Dataset dataset = paths.map(transform::load_picture(load_options(options)));
  return {dataset, std::move(names), dataset.describe()};
}

OpenedData open_folder(const std::string& path, const OpenOptions& options) {
  std::vector<std::string> names = class_names_of(path);
  const Dataset paths =
      folder_paths(path, {.label_mode = names.empty() ? LabelMode::kNone : LabelMode::kInt,
                          .class_names = names,
                          .shuffle = false,
                          .seed = options.seed,
                          .validation_split = options.validation_split,
                          .subset = options.subset});
  return open_paths(paths, std::move(names), options);
}

OpenedData from_images(LabeledImages images, std::vector<std::string> names) {
  const Dataset dataset =
      Dataset::from_tensor_slices(std::move(images.images), std::move(images.labels));
  return {dataset, std::move(names), dataset.describe()};
}

// (count, height, width) has no channels; models want one.
Shape with_channels(const Shape& shape) {
  if (shape.rank() != 3) return shape;
  return Shape{shape[0], shape[1], shape[2], 1};
}

FileArray npy_array(Env& env, const std::string& path) {
  const NpyHeader header = index_npy(env, path);
  return {env.open_read(path), path, header.header_bytes, header.dtype, header.shape};
}

Dataset from_files(std::vector<FileArray> arrays) {
  arrays[0].shape = with_channels(arrays[0].shape);
  return Dataset(make_file_rows(std::move(arrays)));
}

Dataset from_tensors(std::vector<Tensor> tensors, const std::string& path) {
  for (const Tensor& tensor : tensors) {
    if (tensor.shape().rank() > 0 && tensor.shape()[0] == tensors[0].shape()[0]) continue;
    throw DataError(fmt::format("[{}] the arrays differ in length: {} and {}", path,
                                tensors[0].shape().to_string(), tensor.shape().to_string()),
                    path);
  }
  tensors[0] = tensors[0].reshape(with_channels(tensors[0].shape()));
  return Dataset::from_tensor_slices(std::move(tensors));
}

// Plain files are read row by row; others (Fortran order, big-endian) have to be unpacked into
// memory.
Dataset open_npy(Env& env, const std::vector<std::string>& paths) {
  const bool plain = std::all_of(paths.begin(), paths.end(), [&](const std::string& path) {
    return index_npy(env, path).plain();
  });
  if (plain) {
    std::vector<FileArray> arrays;
    for (const std::string& path : paths) arrays.push_back(npy_array(env, path));
    return from_files(std::move(arrays));
  }
  std::vector<Tensor> tensors;
  for (const std::string& path : paths) tensors.push_back(read_npy(env, path));
  return from_tensors(std::move(tensors), paths[0]);
}

Dataset open_npz(Env& env, const std::string& path, Split split) {
  const NpzFile file = NpzFile::open(env, path);
  const bool train = split == Split::kTrain;
  std::vector<std::string> names;
  for (const std::array<const char*, 2> pair :
       {std::array{train ? "x_train" : "x_test", train ? "y_train" : "y_test"},
        std::array{"x", "y"}, std::array{"images", "labels"}}) {
    if (names.empty() && file.contains(pair[0])) {
      names.push_back(pair[0]);
      if (file.contains(pair[1])) names.push_back(pair[1]);
    }
  }
  if (names.empty()) {
    throw DataError(fmt::format("[{}] no pictures in it; expected arrays named x and y, x_train "
                                "and y_train, or images and "
                                "labels; got {}",
                                path, fmt::join(file.names(), ", ")),
                    path);
  }
  const bool plain = std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return file.member(name).data_offset.has_value() && file.member(name).header.plain();
  });
  if (plain) {
    const std::shared_ptr<const ReadableFile> bytes = env.open_read(path);
    std::vector<FileArray> arrays;
    for (const std::string& name : names) {
      const NpzMember& member = file.member(name);
      arrays.push_back(
          {bytes, path, *member.data_offset, member.header.dtype, member.header.shape});
    }
    return from_files(std::move(arrays));
  }
  std::vector<Tensor> tensors;
  for (const std::string& name : names) tensors.push_back(file.read(name));
  return from_tensors(std::move(tensors), path);
}

OpenedData without_names(const Dataset& dataset) {
  return {dataset, {}, dataset.describe()};
}

OpenedData open_scheme(std::string_view spec, const OpenOptions& options) {
  const std::size_t colon = spec.find(':');
  const std::string_view scheme = spec.substr(0, colon);
  const std::string rest(colon == std::string_view::npos ? std::string_view()
                                                         : spec.substr(colon + 1));
  Env& env = Env::posix();
  static const std::vector<std::string> kCifar10 = {
      "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
  static const std::vector<std::string> kFashion = {
      "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
      "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
  if (spec == "fashion-mnist") {
    return from_images(load_idx_directory(env, "/usr/share/datasets/fashion-mnist", options.split),
                       kFashion);
  }
  if (rest.empty()) {
    throw ConfigError(fmt::format("[data] unknown data '{}'; expected {}", spec, kDataSchemes));
  }
  if (scheme == "dir") return open_folder(rest, options);
  if (scheme == "csv") return open_paths(csv_paths(rest), {}, options);
  if (scheme == "idx" || scheme == "mnist")
    return from_images(load_idx_directory(env, rest, options.split), {});
  if (scheme == "cifar10")
    return from_images(load_cifar_directory(env, rest, Cifar::k10, options.split), kCifar10);
  if (scheme == "cifar100")
    return from_images(load_cifar_directory(env, rest, Cifar::k100, options.split), {});
  if (scheme == "npz") return without_names(open_npz(env, rest, options.split));
  if (scheme == "npy") {
    const std::size_t comma = rest.find(',');
    std::vector<std::string> paths{rest.substr(0, comma)};
    if (comma != std::string::npos) paths.push_back(rest.substr(comma + 1));
    return without_names(open_npy(env, paths));
  }
  if (scheme == "synthetic")
    return without_names(make_synthetic(rest, options.split, SyntheticLabels::kClass));
  if (scheme == "synthetic-masks")
    return without_names(make_synthetic(rest, options.split, SyntheticLabels::kMask));
  throw ConfigError(fmt::format("[data] unknown data '{}'; expected {}", spec, kDataSchemes));
}

}  // namespace

OpenedData open_data(std::string_view spec, const OpenOptions& options) {
  try {
    return open_scheme(spec, options);
  } catch (const SystemError& error) {
    // A file that is not there, or not to be read, is a fault of the data as much as a torn one.
    if (!is_about_files(error)) throw;
    throw DataError(error.what());
  }
}

}  // namespace surefit::data
