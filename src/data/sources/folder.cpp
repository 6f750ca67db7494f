// SPDX-License-Identifier: Apache-2.0
// Folders and lists of files.
#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <glob.h>

#include "surefit/image.hpp"

#include "data/sources/files.hpp"

namespace surefit {
namespace {

namespace fs = std::filesystem;

bool is_picture(const fs::path& path) {
  // What Keras takes; formats that cannot be read give an error that names the file.
  constexpr std::array<std::string_view, 5> kExtensions = {".bmp", ".gif", ".jpeg", ".jpg", ".png"};
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::find(kExtensions.begin(), kExtensions.end(), extension) != kExtensions.end();
}

[[noreturn]] void fail_listing(const std::string& directory, const std::error_code& error) {
  throw SystemError(fmt::format("[{}] cannot list directory: {}", directory, error.message()),
                    error.value());
}

void add_pictures(data::FileTable& table, const fs::path& root, const fs::path& directory,
                  std::int32_t label) {
  std::error_code error;
  fs::recursive_directory_iterator it(directory, fs::directory_options::follow_directory_symlink,
                                      error),
      end;
  for (; !error && it != end; it.increment(error)) {
    if (it.depth() > 32) {
      throw DataError(
          fmt::format("[{}] folders nest more than 32 deep; is there a link to a folder above?",
                      it->path().string()));
    }
    if (it->is_regular_file(error) && is_picture(it->path())) {
      table.add(it->path().lexically_relative(root).string(), label);
    }
  }
  if (error) fail_listing(directory.string(), error);
}

std::string base_name(const std::string& directory) {
  const fs::path path = fs::path(directory).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

void check_options(const ImageDirectoryOptions& options) {
  if ((options.validation_split > 0) != (options.subset != Subset::kAll)) {
    throw ConfigError(
        "[image_dataset_from_directory] validation_split and subset go together; expected both or "
        "neither");
  }
  if (options.validation_split < 0 || options.validation_split >= 1) {
    throw ConfigError(
        fmt::format("[image_dataset_from_directory] validation_split is {}; expected 0 to 1, 1 "
                    "excluded",
                    options.validation_split));
  }
}

}  // namespace

std::vector<std::string> class_names_of(const std::string& directory) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (it->is_directory() && !name.starts_with(".")) names.push_back(name);
  }
  if (error) fail_listing(directory, error);
  std::sort(names.begin(), names.end());
  return names;
}

Dataset data::folder_paths(const std::string& directory, const ImageDirectoryOptions& options) {
  check_options(options);
  const bool labelled = options.label_mode != LabelMode::kNone;
  std::vector<std::string> classes = options.class_names;
  if (classes.empty() && labelled) classes = class_names_of(directory);
  data::FileTable table(directory);
  if (labelled) {
    for (std::size_t label = 0; label < classes.size(); ++label) {
      add_pictures(table, directory, fs::path(directory) / classes[label],
                   static_cast<std::int32_t>(label));
    }
  } else {
    add_pictures(table, directory, directory, 0);
  }
  table.sort();
  if (table.size() == 0) {
    throw DataError(
        fmt::format("[{}] no pictures found; expected {} with files ending in .jpg, .jpeg or .png",
                    directory, labelled ? "one folder per class" : "a folder"),
        directory);
  }
  if (options.label_mode == LabelMode::kBinary && classes.size() != 2) {
    throw ConfigError(
        fmt::format("[{}] binary labels need 2 classes; got {}", directory, classes.size()));
  }

  const std::uint64_t count = table.size();
  Dataset dataset(data::make_files(std::move(table), labelled,
                                   fmt::format("folder({})", base_name(directory))));
  if (options.subset != Subset::kAll) {
    // One fixed order for both halves, so that they never share a picture.
    dataset = dataset.shuffle(
        count, {.seed = options.seed.value_or(0), .reshuffle_each_iteration = false});
    const auto validation =
        static_cast<std::uint64_t>(options.validation_split * static_cast<double>(count));
    dataset = options.subset == Subset::kTraining ? dataset.take(count - validation)
                                                  : dataset.skip(count - validation);
  }
  return options.shuffle ? dataset.shuffle(count, {.seed = options.seed}) : dataset;
}

Dataset image_dataset_from_directory(const std::string& directory, ImageDirectoryOptions options) {
  if (options.label_mode != LabelMode::kNone && options.class_names.empty())
    options.class_names = class_names_of(directory);
  const std::vector<std::string>& classes = options.class_names;
  Dataset dataset = data::folder_paths(directory, options);
  dataset =
      dataset.map(transform::load_picture({.height = options.height,
                                           .width = options.width,
                                           .channels = options.channels,
                                           .resize = options.interpolation,
                                           .scaled_decode = options.scaled_decode,
                                           .crop_to_aspect_ratio = options.crop_to_aspect_ratio}));
  if (options.label_mode == LabelMode::kCategorical) {
    dataset = dataset.map(transform::one_hot(static_cast<std::int64_t>(classes.size())));
  } else if (options.label_mode == LabelMode::kBinary) {
    dataset = dataset.map(
        [](Sample& sample) {
          const auto label = static_cast<float>(sample[1].values<std::int32_t>()[0]);
          *reinterpret_cast<float*>(sample[1].replace(DType::kFloat32, {1}).bytes.data()) = label;
        },
        {.name = "binary_label"});
  }
  if (options.batch_size) dataset = dataset.batch(*options.batch_size).prefetch();
  return dataset;
}

Dataset list_files(const std::string& pattern, ListFilesOptions options) {
  glob_t found{};
  const int result = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  data::FileTable table;
  if (result == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) table.add(found.gl_pathv[i]);
  }
  ::globfree(&found);
  if (result == GLOB_NOSPACE) throw SystemError("[list_files] out of memory", ENOMEM);
  if (table.size() == 0) {
    throw DataError(fmt::format("[list_files] nothing matches {}", pattern), pattern);
  }
  table.sort();
  const std::uint64_t count = table.size();
  const Dataset files(
      data::make_files(std::move(table), false, fmt::format("list_files({})", pattern)));
  return options.shuffle ? files.shuffle(count, {.seed = options.seed}) : files;
}

Dataset from_paths(std::vector<std::string> paths, std::vector<std::int64_t> labels) {
  if (!labels.empty() && labels.size() != paths.size()) {
    throw ConfigError(fmt::format("[from_paths] {} paths and {} labels; expected equally many",
                                  paths.size(), labels.size()));
  }
  data::FileTable table;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::int64_t label = labels.empty() ? 0 : labels[i];
    if (label != static_cast<std::int32_t>(label)) {
      throw ConfigError(
          fmt::format("[from_paths] label {} of {} does not fit int32", label, paths[i]));
    }
    table.add(paths[i], static_cast<std::int32_t>(label));
  }
  return Dataset(data::make_files(std::move(table), !labels.empty(), "paths"));
}

}  // namespace surefit
