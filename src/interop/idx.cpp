// SPDX-License-Identifier: Apache-2.0
#include "interop/idx.hpp"

#include <array>
#include <fmt/format.h>

#include "interop/bytes.hpp"

namespace surefit {
namespace {

DType dtype_from(std::byte code, const std::string& path) {
  switch (static_cast<int>(code)) {
    case 0x08:
      return DType::kUInt8;
    case 0x09:
      return DType::kInt8;
    case 0x0B:
      return DType::kInt16;
    case 0x0C:
      return DType::kInt32;
    case 0x0D:
      return DType::kFloat32;
    case 0x0E:
      return DType::kFloat64;
    default:
      refuse(path, {.field = "type",
                    .what = "unknown element type",
                    .expected = "0x08, 0x09, 0x0b, 0x0c, 0x0d or 0x0e",
                    .got = fmt::format("{:#04x}", static_cast<int>(code)),
                    .offset = 2});
  }
}

bool is_gzip(const Source& source) {
  std::array<std::byte, 2> magic{};
  return source.file().read_at(0, magic) == 2 && magic[0] == std::byte{0x1f} &&
         magic[1] == std::byte{0x8b};
}

std::unique_ptr<ByteStream> open_idx(const Source& source) {
  return open_stream(source, 0, source.size(),
                     is_gzip(source) ? Encoding::kGzip : Encoding::kStored);
}

IdxHeader read_header(ByteStream& stream) {
  std::array<std::byte, 4> magic;
  stream.read_exact(magic, "magic");
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0}) {
    refuse(stream.path(), {.field = "magic",
                           .what = "not an IDX file",
                           .expected = "two zero bytes",
                           .got = fmt::format("{:#04x} {:#04x}", static_cast<int>(magic[0]),
                                              static_cast<int>(magic[1])),
                           .offset = 0});
  }
  IdxHeader header;
  header.dtype = dtype_from(magic[2], stream.path());
  std::vector<std::int64_t> dims;
  for (int axis = 0; axis < static_cast<int>(magic[3]); ++axis) {
    std::array<std::byte, 4> extent;
    stream.read_exact(extent, "extents");
    swap_bytes(extent, extent.size());
    dims.push_back(little_endian<std::uint32_t>(extent, 0));
  }
  header.shape =
      checked_shape(std::move(dims), header.dtype, stream.path(), "extents", magic.size());
  header.header_bytes = stream.position();
  const std::uint64_t needed = header.shape.count() * size_of(header.dtype);
  if (needed > stream.most_bytes()) {
    refuse(stream.path(), {.field = "data",
                           .what = "the file is cut off",
                           .expected = fmt::format("{} bytes for {} of {}", needed,
                                                   header.shape.to_string(), name_of(header.dtype)),
                           .got = fmt::format("at most {}", stream.most_bytes()),
                           .offset = header.header_bytes});
  }
  return header;
}

// The elements behind the header, as a tensor of `shape`, which has as many.
Tensor read_elements(ByteStream& stream, const IdxHeader& header, const Shape& shape) {
  Tensor tensor(shape, header.dtype);
  stream.read_exact(tensor.raw(), "data");
  stream.require_end("data");
  if (size_of(header.dtype) > 1) swap_bytes(tensor.raw(), size_of(header.dtype));
  return tensor;
}

// Pictures get their channel axis before they are allocated: a reshape would hold them twice.
Tensor read_pictures(Env& env, const std::string& path) {
  const Source source(env.open_read(path), path);
  const auto stream = open_idx(source);
  const IdxHeader header = read_header(*stream);
  const Shape& shape = header.shape;
  if (header.dtype != DType::kUInt8 || shape.rank() < 3 || shape.rank() > 4) {
    refuse(path, {.field = "extents",
                  .what = "not pictures",
                  .expected = "(count, height, width[, channels]) of uint8",
                  .got = fmt::format("{} of {}", shape.to_string(), name_of(header.dtype)),
                  .offset = 2});
  }
  return read_elements(*stream, header,
                       shape.rank() == 4 ? shape : Shape{shape[0], shape[1], shape[2], 1});
}

// The path that exists of the names MNIST's files go by.
std::string find_file(Env& env, const std::string& directory, std::string_view split,
                      std::string_view what, int rank) {
  for (const char separator : {'-', '.'}) {
    const std::string plain =
        fmt::format("{}/{}-{}{}idx{}-ubyte", directory, split, what, separator, rank);
    for (const std::string& path : {plain, plain + ".gz"}) {
      if (env.exists(path)) return path;
    }
  }
  throw DataError(
      fmt::format(
          "[{}] no {} of this split; expected {}-{}-idx{}-ubyte or the same with .gz; got none",
          directory, what, split, what, rank),
      directory);
}

}  // namespace

Tensor parse_idx(std::unique_ptr<ReadableFile> file, std::string name) {
  const Source source(std::move(file), std::move(name));
  const auto stream = open_idx(source);
  const IdxHeader header = read_header(*stream);
  return read_elements(*stream, header, header.shape);
}

Tensor read_idx(Env& env, const std::string& path) {
  return parse_idx(env.open_read(path), path);
}

IdxHeader index_idx(Env& env, const std::string& path) {
  const Source source(env.open_read(path), path);
  const auto stream = open_idx(source);
  IdxHeader header = read_header(*stream);
  header.gzipped = is_gzip(source);
  const std::uint64_t needed = header.shape.count() * size_of(header.dtype);
  if (!header.gzipped && source.size() - header.header_bytes != needed) {
    refuse(path, {.field = "data",
                  .what = "bytes are left over",
                  .expected = fmt::format("{}", needed),
                  .got = fmt::format("{}", source.size() - header.header_bytes),
                  .offset = header.header_bytes});
  }
  return header;
}

LabeledImages load_idx_directory(Env& env, const std::string& directory, Split split) {
  const std::string_view prefix = split == Split::kTrain ? "train" : "t10k";
  const std::string image_path = find_file(env, directory, prefix, "images", 3);
  const std::string label_path = find_file(env, directory, prefix, "labels", 1);
  LabeledImages data{.images = read_pictures(env, image_path), .labels = read_idx(env, label_path)};
  const Shape& shape = data.images.shape();
  const Shape& label_shape = data.labels.shape();
  if (data.labels.dtype() != DType::kUInt8 || label_shape.rank() != 1 ||
      label_shape[0] != shape[0]) {
    refuse(label_path,
           {.field = "extents",
            .what = "labels do not match the pictures",
            .expected = fmt::format("({},) of uint8, as in {}", shape[0], image_path),
            .got = fmt::format("{} of {}", label_shape.to_string(), name_of(data.labels.dtype())),
            .offset = 4});
  }
  return data;
}

}  // namespace surefit
