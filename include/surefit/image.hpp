// SPDX-License-Identifier: Apache-2.0
// Pictures in pipelines: folders of them, decoding, resizing, casting, augmenting. Pictures are
// (height, width, channels), uint8 in 0 ... 255 until something makes them float32.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "surefit/data.hpp"

namespace surefit {

namespace data {
class TransformOp;
}

enum class Interpolation { kBilinear, kNearest, kArea };

struct ResizeOptions {
  Interpolation method = Interpolation::kBilinear;
  bool antialias =
      false;  // bilinear: widen the filter when shrinking, as tf.image.resize(antialias=True)
};

struct DecodeOptions {
  std::int64_t channels = 0;  // 0: as the file has them; 1, 3; 4 for PNG
  // JPEG: decode at 1/2, 1/4 or 1/8 size as long as the result still covers this; 0 decodes at full
  // size.
  std::int64_t cover_height = 0, cover_width = 0;
};

// A ready-made step for Dataset::map. It acts on component 0 unless it says otherwise, and may also
// be called inside a map of your own: resize(sample).
class Transform {
 public:
  explicit Transform(std::shared_ptr<const data::TransformOp> op) : op_(std::move(op)) {}
  void operator()(Sample& sample)
      const;  // throws ConfigError for random ones: they need map's keyed randomness
  std::string describe() const;
  const std::shared_ptr<const data::TransformOp>& op() const { return op_; }

 private:
  std::shared_ptr<const data::TransformOp> op_;
};

namespace transform {

Transform read_file();  // a path becomes the file's bytes
Transform decode_jpeg(
    DecodeOptions options = {});  // bytes become a picture; other formats are an error
Transform decode_png(DecodeOptions options = {});
Transform decode_image(DecodeOptions options = {});  // JPEG or PNG
Transform resize(std::int64_t height, std::int64_t width,
                 ResizeOptions options = {});      // keeps the type
Transform cast(DType dtype);                       // float32 or int32
Transform rescale(float scale, float offset = 0);  // float32: value * scale + offset
Transform normalise(std::vector<float> mean, std::vector<float> std);  // float32, per channel
Transform one_hot(std::int64_t classes,
                  std::size_t component = 1);  // a label becomes a float32 vector

// read_file + decode_image + resize in one step, without ever holding the whole picture. What image
// folders use.
struct LoadPictureOptions {
  std::int64_t height = 256, width = 256, channels = 3;
  ResizeOptions resize = {};
  bool scaled_decode = true;          // see DecodeOptions::cover_height
  bool crop_to_aspect_ratio = false;  // cut to the target's proportions around the centre first
};
Transform load_picture(LoadPictureOptions options);

// Random steps, named and parametrised as the Keras layers. The draw depends on (seed, epoch,
// sample) alone.
enum class Flip { kHorizontal, kVertical, kHorizontalAndVertical };
enum class FillMode { kReflect, kNearest, kConstant };
struct FillOptions {
  FillMode mode = FillMode::kReflect;
  float value = 0;  // for kConstant
  Interpolation interpolation = Interpolation::kBilinear;
};
Transform random_flip(Flip mode = Flip::kHorizontalAndVertical);
Transform random_crop(std::int64_t height, std::int64_t width);
Transform random_pad_crop(
    std::int64_t pad);  // pad with zeros on every side, then crop back to size
Transform random_translation(float height_factor, float width_factor, FillOptions fill = {});
Transform random_rotation(float factor, FillOptions fill = {});  // up to +-factor of a full turn
Transform random_brightness(float factor, float low = 0, float high = 255);
Transform random_contrast(float factor);

// "flip,crop:4,rotation:0.1,brightness:0.2" as the command line takes it. Throws ConfigError naming
// the bad part.
std::vector<Transform> parse_augment(std::string_view text);

}  // namespace transform

struct ListFilesOptions {
  bool shuffle = true;
  std::optional<std::uint64_t> seed = {};
};
// Paths that match a shell pattern ("photos/*/*.jpg"). Throws DataError when none does.
Dataset list_files(const std::string& pattern, ListFilesOptions options = {});
// Paths from memory, with labels when given.
Dataset from_paths(std::vector<std::string> paths, std::vector<std::int64_t> labels = {});

enum class LabelMode { kInt, kCategorical, kBinary, kNone };
enum class Subset { kAll, kTraining, kValidation };

// Keras's image_dataset_from_directory: one folder per class, classes in order of their names.
struct ImageDirectoryOptions {
  LabelMode label_mode = LabelMode::kInt;
  std::vector<std::string> class_names = {};  // default: the folders, sorted
  std::int64_t channels = 3;                  // color_mode: 1 grayscale, 3 rgb, 4 rgba
  std::optional<std::uint64_t> batch_size = 32;
  std::int64_t height = 256, width = 256;
  bool shuffle = true;
  std::optional<std::uint64_t> seed = {};
  double validation_split = 0;
  Subset subset = Subset::kAll;
  ResizeOptions interpolation = {};
  bool crop_to_aspect_ratio = false;
  bool scaled_decode = true;
};
Dataset image_dataset_from_directory(const std::string& directory,
                                     ImageDirectoryOptions options = {});
std::vector<std::string> class_names_of(const std::string& directory);

// A CSV file of picture paths and labels. Paths are relative to the file's folder. Labels that are
// not all whole numbers are class names, numbered in sorted order.
struct CsvOptions {
  std::string path_column = {};   // empty: the first column
  std::string label_column = {};  // empty: the second, if there is one
  bool header = true;
  char separator = ',';
};
Dataset csv_paths(const std::string& file, CsvOptions options = {});

}  // namespace surefit
