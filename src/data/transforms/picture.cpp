// SPDX-License-Identifier: Apache-2.0
// Files to pictures: read, decode, resize.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "data/images/decode.hpp"
#include "data/images/resize.hpp"
#include "data/transforms/transform.hpp"

namespace surefit::data {
namespace {

std::span<std::byte> room_for_file(Field& field, std::uint64_t bytes) {
  if (bytes > (std::uint64_t{1} << 30)) {
    throw DataError(fmt::format("file of {} bytes; expected at most 1 GiB", bytes));
  }
  return field.replace(DType::kUInt8, {static_cast<std::int64_t>(bytes)}).bytes;
}

void check_length(std::uint64_t expected, std::uint64_t got) {
  if (got == expected) return;
  throw DataError(
      fmt::format("file shrank while it was read; expected {} bytes; got {}", expected, got));
}

[[noreturn]] void fail_file(const char* what, const std::string& path, int error) {
  throw SystemError(fmt::format("[{}] cannot {}: {}", path, what, std::strerror(error)), error);
}

// The machine's own files are read without the objects that the seam for tests needs: a file is one
// sample, and samples allocate nothing.
void read_directly(const std::string& path, Field& field) {
  struct Descriptor {
    ~Descriptor() {
      if (number >= 0) ::close(number);
    }
    int number;
  } const file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat status {};
  if (file.number < 0) fail_file("open", path, errno);
  if (::fstat(file.number, &status) != 0) fail_file("open", path, errno);
  if (!S_ISREG(status.st_mode))
    fail_file("open as a file", path, S_ISDIR(status.st_mode) ? EISDIR : EINVAL);
  const std::span<std::byte> storage =
      room_for_file(field, static_cast<std::uint64_t>(status.st_size));
  std::size_t done = 0;
  while (done < storage.size()) {
    const ssize_t got = ::read(file.number, storage.data() + done, storage.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_file("read", path, errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  check_length(storage.size(), done);
}

// Reads the file that `sample`'s text names into `field`; the path is kept for errors.
void read_into(Sample& sample, Field& field, Worker& worker) {
  const double start = monotonic_seconds();
  sample.set_path(sample[0].text());
  if (&worker.env() == &Env::posix()) {
    read_directly(sample.path(), field);
  } else {
    const auto file = worker.env().open_read(sample.path());
    const std::span<std::byte> storage = room_for_file(field, file->size());
    check_length(storage.size(), file->read_at(0, storage));
  }
  worker.charge_io(monotonic_seconds() - start);
}

class ReadFile final : public TransformOp {
 public:
  std::string name() const override { return "read_file"; }
  std::string describe() const override { return "read_file"; }
  std::vector<ComponentSpec> spec(std::vector<ComponentSpec> input) const override {
    first_component(input, "read_file") = {DType::kUInt8, {-1}};
    return input;
  }
  void apply(Sample& sample, Random&, Worker& worker) const override {
    read_into(sample, sample[0], worker);
  }
};

// Decoded rows go straight into a component.
class FieldSink final : public RowSink {
 public:
  explicit FieldSink(Field& field) : field_(field) {}
  void start(std::int64_t height, std::int64_t width, std::int64_t channels) override {
    row_ = reinterpret_cast<std::uint8_t*>(
        field_.replace(DType::kUInt8, {height, width, channels}).bytes.data());
    stride_ = width * channels;
  }
  std::uint8_t* next_row() override { return row_; }
  void row_done() override { row_ += stride_; }

 private:
  Field& field_;
  std::uint8_t* row_ = nullptr;
  std::int64_t stride_ = 0;
};

class Decode final : public TransformOp {
 public:
  using Function = void (*)(std::span<const std::byte>, const DecodeOptions&, RowSink&,
                            DecoderMemory&);
  Decode(std::string name, Function function, DecodeOptions options)
      : name_(std::move(name)), function_(function), options_(options) {}

  std::string name() const override { return name_; }
  std::string describe() const override {
    std::string text = fmt::format("{}(channels={}", name_, options_.channels);
    if (options_.cover_height > 0) {
      text += fmt::format(", cover={}x{}", options_.cover_height, options_.cover_width);
    }
    return text + ")";
  }
  std::vector<ComponentSpec> spec(std::vector<ComponentSpec> input) const override {
    first_component(input, name_.c_str()) = {
        DType::kUInt8, {-1, -1, options_.channels == 0 ? -1 : options_.channels}};
    return input;
  }
  void apply(Sample& sample, Random&, Worker& worker) const override {
    FieldSink sink(sample[0]);
    const std::string_view text = sample[0].text();  // stays readable while the picture is written
    function_(std::as_bytes(std::span(text)), options_, sink, worker.decoder());
  }

 private:
  std::string name_;
  Function function_;
  DecodeOptions options_;
};

template <PictureFormat format>
void decode_only(std::span<const std::byte> bytes, const DecodeOptions& options, RowSink& sink,
                 DecoderMemory& memory) {
  if (format_of(bytes) != format) {
    throw DataError(fmt::format("expected {}; got {}",
                                format == PictureFormat::kJpeg ? "JPEG" : "PNG",
                                describe_format(bytes)));
  }
  decode_picture(bytes, options, sink, memory);
}

void require_size(std::int64_t height, std::int64_t width, const char* where) {
  if (height < 1 || width < 1 || height > 65535 || width > 65535) {
    throw ConfigError(
        fmt::format("[{}] a picture of {} x {}; expected 1 to 65535 a side", where, height, width));
  }
}

std::string describe_resize(std::int64_t height, std::int64_t width, const ResizeOptions& options) {
  constexpr const char* kNames[] = {"bilinear", "nearest", "area"};
  return fmt::format("{}, {}, {}{}", height, width, kNames[static_cast<int>(options.method)],
                     options.antialias ? ", antialias" : "");
}

class Resize final : public TransformOp {
 public:
  Resize(std::int64_t height, std::int64_t width, ResizeOptions options)
      : height_(height), width_(width), options_(options) {
    require_size(height, width, "resize");
  }
  std::string name() const override { return "resize"; }
  std::string describe() const override {
    return fmt::format("resize({})", describe_resize(height_, width_, options_));
  }
  std::vector<ComponentSpec> spec(std::vector<ComponentSpec> input) const override {
    ComponentSpec& picture = first_component(input, "resize");
    picture.dims = {height_, width_, picture.dims.rank() == 3 ? picture.dims[2] : -1};
    return input;
  }
  void apply(Sample& sample, Random&, Worker& worker) const override {
    const PictureDims in = picture_dims(sample[0]);
    if (in.height == height_ && in.width == width_) return;
    const DType dtype = sample[0].dtype();
    const Field::Replaced pixels = sample[0].replace(dtype, {height_, width_, in.channels});
    const StreamResizer::Job job{in.height, in.width, height_, width_, in.channels, options_};
    StreamResizer& resizer = worker.resizer();
    if (dtype == DType::kUInt8) {
      resizer.start(job,
                    {reinterpret_cast<std::uint8_t*>(pixels.bytes.data()), pixels.bytes.size()},
                    &worker.meter());
    } else {
      resizer.start(
          job, {reinterpret_cast<float*>(pixels.bytes.data()), pixels.bytes.size() / sizeof(float)},
          &worker.meter());
    }
    const std::size_t row_bytes = pixels.old_bytes.size() / static_cast<std::size_t>(in.height);
    for (std::size_t y = 0; y < static_cast<std::size_t>(in.height); ++y) {
      std::memcpy(resizer.next_row(), pixels.old_bytes.data() + y * row_bytes, row_bytes);
      resizer.row_done();
    }
  }

 private:
  std::int64_t height_, width_;
  ResizeOptions options_;
};

// Decoded rows go through the resizer, those outside the crop nowhere.
class ResizeSink final : public RowSink {
 public:
  ResizeSink(const transform::LoadPictureOptions& options, Field& field, Worker& worker)
      : options_(options),
        field_(field),
        worker_(worker),
        resizer_(worker.resizer()),
        spare_(worker) {}

  void start(std::int64_t height, std::int64_t width, std::int64_t channels) override {
    crop_ = {height, width, channels};
    if (options_.crop_to_aspect_ratio) {
      crop_.height =
          std::max<std::int64_t>(1, std::min(height, width * options_.height / options_.width));
      crop_.width =
          std::max<std::int64_t>(1, std::min(width, height * options_.width / options_.height));
    }
    top_ = (height - crop_.height) / 2;
    left_ = (width - crop_.width) / 2;
    whole_rows_ = crop_.width == width;
    const std::span<std::byte> out =
        field_.replace(DType::kUInt8, {options_.height, options_.width, channels}).bytes;
    resizer_.start(
        {crop_.height, crop_.width, options_.height, options_.width, channels, options_.resize},
        {reinterpret_cast<std::uint8_t*>(out.data()), out.size()}, &worker_.meter());
    if (!whole_rows_ || top_ > 0) {
      (*spare_).resize(1);
      row_ = reinterpret_cast<std::uint8_t*>(
          (*spare_)[0].replace(DType::kUInt8, {width * channels}).bytes.data());
    }
  }
  std::uint8_t* next_row() override { return inside() && whole_rows_ ? resizer_.next_row() : row_; }
  void row_done() override {
    if (inside()) {
      if (!whole_rows_) {
        std::memcpy(resizer_.next_row(), row_ + left_ * crop_.channels,
                    static_cast<std::size_t>(crop_.width * crop_.channels));
      }
      resizer_.row_done();
    }
    ++y_;
  }

 private:
  bool inside() const { return y_ >= top_ && y_ < top_ + crop_.height; }

  const transform::LoadPictureOptions& options_;
  Field& field_;
  Worker& worker_;
  StreamResizer& resizer_;
  Worker::Lease spare_;
  PictureDims crop_;
  std::int64_t top_ = 0, left_ = 0, y_ = 0;
  bool whole_rows_ = true;
  std::uint8_t* row_ = nullptr;
};

class LoadPicture final : public TransformOp {
 public:
  explicit LoadPicture(const transform::LoadPictureOptions& options) : options_(options) {
    require_size(options.height, options.width, "load_picture");
    if (options.channels != 1 && options.channels != 3 && options.channels != 4) {
      throw ConfigError(
          fmt::format("[load_picture] channels is {}; expected 1, 3 or 4", options.channels));
    }
  }
  std::string name() const override { return "load_picture"; }
  std::string describe() const override {
    return fmt::format("load_picture({}, channels={}{}{})",
                       describe_resize(options_.height, options_.width, options_.resize),
                       options_.channels, options_.scaled_decode ? "" : ", full size",
                       options_.crop_to_aspect_ratio ? ", crop_to_aspect_ratio" : "");
  }
  std::vector<ComponentSpec> spec(std::vector<ComponentSpec> input) const override {
    first_component(input, "load_picture") = {DType::kUInt8,
                                              {options_.height, options_.width, options_.channels}};
    return input;
  }
  void apply(Sample& sample, Random&, Worker& worker) const override {
    Worker::Lease file(worker);
    (*file).resize(1);
    (*file)[0].borrow(DType::kUInt8, {0}, nullptr);  // the file before it may be overwritten
    read_into(sample, (*file)[0], worker);
    DecodeOptions decode{.channels = options_.channels};
    if (options_.scaled_decode) {
      decode.cover_height = options_.height;
      decode.cover_width = options_.width;
    }
    ResizeSink sink(options_, sample[0], worker);
    decode_picture((*file)[0].bytes(), decode, sink, worker.decoder());
  }

 private:
  transform::LoadPictureOptions options_;
};

}  // namespace
}  // namespace surefit::data

namespace surefit::transform {

Transform read_file() {
  return data::make_op<data::ReadFile>();
}
Transform decode_jpeg(DecodeOptions options) {
  return data::make_op<data::Decode>("decode_jpeg", data::decode_only<data::PictureFormat::kJpeg>,
                                     options);
}
Transform decode_png(DecodeOptions options) {
  return data::make_op<data::Decode>("decode_png", data::decode_only<data::PictureFormat::kPng>,
                                     options);
}
Transform decode_image(DecodeOptions options) {
  return data::make_op<data::Decode>("decode_image", data::decode_picture, options);
}
Transform resize(std::int64_t height, std::int64_t width, ResizeOptions options) {
  return data::make_op<data::Resize>(height, width, options);
}
Transform load_picture(LoadPictureOptions options) {
  return data::make_op<data::LoadPicture>(options);
}

}  // namespace surefit::transform
