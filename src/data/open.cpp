// SPDX-License-Identifier: Apache-2.0
#include "data/open.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "data/sources/rows.hpp"
#include "interop/cifar.hpp"
#include "interop/npy.hpp"

namespace surefit::data {
namespace {

constexpr std::string_view kSchemes =
    "dir:FOLDER, csv:FILE, idx:FOLDER, mnist:FOLDER, cifar10:FOLDER, cifar100:FOLDER, npz:FILE, "
    "npy:X.npy,Y.npy";

transform::LoadPictureOptions load_options(const OpenOptions& options, std::string_view spec) {
  if (!options.height || !options.width) {
    throw ConfigError(fmt::format(
        "[{}] pictures in files differ in size; say which one to bring them to: --resize 224x224",
        spec));
  }
  return {.height = *options.height, .width = *options.width, .channels = options.channels};
}

OpenedData open_folder(const std::string& path, const OpenOptions& options, std::string_view spec) {
  const transform::LoadPictureOptions load = load_options(options, spec);
  std::vector<std::string> names = class_names_of(path);
  const Dataset dataset = image_dataset_from_directory(
      path, {.label_mode = names.empty() ? LabelMode::kNone : LabelMode::kInt,
             .channels = load.channels,
             .batch_size = std::nullopt,
             .height = load.height,
             .width = load.width,
             .shuffle = false,
             .seed = options.seed,
             .validation_split = options.validation_split,
             .subset = options.subset});
  return {dataset, std::move(names), dataset.describe()};
}

OpenedData from_images(LabeledImages images, std::vector<std::string> names) {
  const Dataset dataset =
      Dataset::from_tensor_slices(std::move(images.images), std::move(images.labels));
  return {dataset, std::move(names), dataset.describe()};
}

FileArray npy_array(Env& env, const std::string& path) {
  const NpyHeader header = index_npy(env, path);
  return {env.open_read(path), path, header.header_bytes, header.dtype, header.shape};
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
    return Dataset(make_file_rows(std::move(arrays)));
  }
  std::vector<Tensor> tensors;
  for (const std::string& path : paths) tensors.push_back(read_npy(env, path));
  return Dataset::from_tensor_slices(std::move(tensors));
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
    return Dataset(make_file_rows(std::move(arrays)));
  }
  std::vector<Tensor> tensors;
  for (const std::string& name : names) tensors.push_back(file.read(name));
  return Dataset::from_tensor_slices(std::move(tensors));
}

// (count, height, width) has no channels; models want one.
Dataset with_channels(const Dataset& dataset) {
  if (dataset.element_spec().at(0).dims.rank() != 2) return dataset;
  return dataset.map(
      [](Sample& sample) {
        const Dims dims = sample[0].dims();
        sample[0].reshape({dims[0], dims[1], 1});
      },
      {.name = "add_channel"});
}

}  // namespace

OpenedData open_data(std::string_view spec, const OpenOptions& options) {
  const std::size_t colon = spec.find(':');
  const std::string_view scheme = spec.substr(0, colon);
  const std::string rest(colon == std::string_view::npos ? std::string_view()
                                                         : spec.substr(colon + 1));
  if (colon == std::string_view::npos || rest.empty()) {
    throw ConfigError(fmt::format("[data {}] expected one of {}", spec, kSchemes));
  }
  Env& env = Env::posix();
  static const std::vector<std::string> kCifar10 = {
      "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
  if (scheme == "dir") return open_folder(rest, options, spec);
  if (scheme == "csv") {
    const Dataset dataset =
        csv_paths(rest).map(transform::load_picture(load_options(options, spec)));
    return {dataset, {}, dataset.describe()};
  }
  if (scheme == "idx" || scheme == "mnist")
    return from_images(load_idx_directory(env, rest, options.split), {});
  if (scheme == "cifar10")
    return from_images(load_cifar_directory(env, rest, Cifar::k10, options.split), kCifar10);
  if (scheme == "cifar100")
    return from_images(load_cifar_directory(env, rest, Cifar::k100, options.split), {});
  if (scheme == "npz") {
    const Dataset dataset = with_channels(open_npz(env, rest, options.split));
    return {dataset, {}, dataset.describe()};
  }
  if (scheme == "npy") {
    const std::size_t comma = rest.find(',');
    std::vector<std::string> paths{rest.substr(0, comma)};
    if (comma != std::string::npos) paths.push_back(rest.substr(comma + 1));
    const Dataset dataset = with_channels(open_npy(env, paths));
    return {dataset, {}, dataset.describe()};
  }
  throw ConfigError(
      fmt::format("[data {}] unknown scheme {}; expected one of {}", spec, scheme, kSchemes));
}

}  // namespace surefit::data
