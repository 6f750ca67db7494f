// SPDX-License-Identifier: Apache-2.0
#include "interop/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <fmt/format.h>
#include <set>
#include <tuple>

#include "base/check.hpp"
#include "interop/json.hpp"

namespace surefit {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor bytes go to files as they are");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr std::uint64_t kAlignment = 8;
constexpr std::string_view kMetadata = "__metadata__";

struct DTypeCode {
  std::string_view code;
  DType dtype;
};
constexpr std::array<DTypeCode, 12> kDTypeCodes = {{{"F32", DType::kFloat32},
                                                    {"F64", DType::kFloat64},
                                                    {"F16", DType::kFloat16},
                                                    {"I8", DType::kInt8},
                                                    {"I16", DType::kInt16},
                                                    {"I32", DType::kInt32},
                                                    {"I64", DType::kInt64},
                                                    {"U8", DType::kUInt8},
                                                    {"U16", DType::kUInt16},
                                                    {"U32", DType::kUInt32},
                                                    {"U64", DType::kUInt64},
                                                    {"BOOL", DType::kBool}}};

std::string_view code_of(DType dtype) {
  for (const DTypeCode& row : kDTypeCodes) {
    if (row.dtype == dtype) return row.code;
  }
  throw InternalError("[safetensors] a dtype without a code");
}

DType dtype_from(const std::string& code, const JsonWhere& where) {
  for (const DTypeCode& row : kDTypeCodes) {
    if (row.code == code) return row.dtype;
  }
  where.refuse("unknown dtype", "one of F64, F32, F16, I64, I32, I16, I8, U64, U32, U16, U8, BOOL",
               in_quotes(code));
}

// Offsets in the result count from the start of the data.
SafetensorsEntry parse_entry(const Json& value, const JsonWhere& where) {
  allow_only(value, {"dtype", "shape", "data_offsets"}, where);
  SafetensorsEntry entry;
  entry.dtype = dtype_from(get_string(value, "dtype", where), where.at("dtype"));
  entry.shape = checked_shape(get_ints(value, "shape", where, 0), entry.dtype, where.file(),
                              where.at("shape").path(), kLengthBytes);
  const std::vector<std::int64_t> range = get_ints(value, "data_offsets", where, 0);
  if (range.size() != 2 || range[0] > range[1]) {
    where.at("data_offsets")
        .refuse_value("not a range", "[begin, end] with begin <= end", value.at("data_offsets"));
  }
  entry.offset = static_cast<std::uint64_t>(range[0]);
  entry.bytes = static_cast<std::uint64_t>(range[1] - range[0]);
  const std::uint64_t needed = entry.shape.count() * size_of(entry.dtype);
  if (entry.bytes != needed) {
    where.at("data_offsets")
        .refuse("size does not match shape and dtype",
                fmt::format("{} bytes for {} of {}", needed, entry.shape.to_string(),
                            name_of(entry.dtype)),
                fmt::format("{}", entry.bytes));
  }
  return entry;
}

// Text as JSON, ConfigError when it is not UTF-8.
std::string json_string(const std::string& text) {
  try {
    return Json(text).dump();
  } catch (const Json::exception&) {
    throw ConfigError(
        fmt::format("[safetensors] name or metadata is not UTF-8; got {}", in_quotes(text)));
  }
}

// Length field, header and padding. Written by hand because the order of the tensors is part of the
// contract.
std::string make_header(const std::vector<SafetensorsSpec>& specs,
                        const SafetensorsMetadata& metadata) {
  std::string header(kLengthBytes, '\0');
  header += '{';
  if (!metadata.empty()) {
    header += fmt::format("\"{}\":{{", kMetadata);
    for (const auto& [key, value] : metadata) {
      if (header.back() != '{') header += ',';
      header += json_string(key) + ':' + json_string(value);
    }
    header += '}';
  }
  std::set<std::string_view> seen;
  std::uint64_t begin = 0;
  for (const SafetensorsSpec& spec : specs) {
    if (spec.name.empty() || spec.name == kMetadata || !seen.insert(spec.name).second) {
      throw ConfigError(
          fmt::format("[safetensors] a tensor cannot have this name; expected a unique name other "
                      "than {}; got {}",
                      kMetadata, in_quotes(spec.name)));
    }
    const std::uint64_t end = begin + spec.shape.count() * size_of(spec.dtype);
    std::string shape;
    for (const std::int64_t extent : spec.shape.dims()) {
      shape += fmt::format("{}{}", shape.empty() ? "" : ",", extent);
    }
    if (header.back() != '{') header += ',';
    header += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                          json_string(spec.name), code_of(spec.dtype), shape, begin, end);
    begin = end;
  }
  header += '}';
  while (header.size() % kAlignment != 0) header += ' ';
  const std::uint64_t length = header.size() - kLengthBytes;
  if (length > kMostHeaderBytes) {
    throw ConfigError(
        fmt::format("[safetensors] header too large; expected at most {} bytes; got {}",
                    kMostHeaderBytes, length));
  }
  for (std::size_t i = 0; i < kLengthBytes; ++i) header[i] = static_cast<char>(length >> (8 * i));
  return header;
}

std::uint64_t data_bytes(const std::vector<SafetensorsSpec>& specs) {
  std::uint64_t bytes = 0;
  for (const SafetensorsSpec& spec : specs) bytes += spec.shape.count() * size_of(spec.dtype);
  return bytes;
}

}  // namespace

SafetensorsFile SafetensorsFile::open(Env& env, const std::string& path) {
  return parse(env.open_read(path), path);
}

SafetensorsFile SafetensorsFile::parse(std::unique_ptr<ReadableFile> file, std::string name) {
  SafetensorsFile result(Source(std::move(file), std::move(name)));
  result.parse_header();
  return result;
}

void SafetensorsFile::parse_header() {
  std::array<std::byte, kLengthBytes> length_bytes;
  source_.read_exact(0, length_bytes, "header length");
  const auto length = little_endian<std::uint64_t>(length_bytes, 0);
  const std::uint64_t most = std::min(source_.size() - kLengthBytes, kMostHeaderBytes);
  if (length < 2 || length > most) {
    refuse(path(), {.field = "header length",
                    .what = "impossible",
                    .expected = fmt::format("2 to {} bytes", most),
                    .got = fmt::format("{}", length),
                    .offset = 0});
  }
  std::string text(static_cast<std::size_t>(length), '\0');
  source_.read_exact(kLengthBytes, std::as_writable_bytes(std::span(text)), "header");
  if (text.front() != '{') {
    refuse(path(), {.field = "header",
                    .what = "not a safetensors header",
                    .expected = "'{'",
                    .got = in_quotes(text.substr(0, 8)),
                    .offset = kLengthBytes});
  }
  const Json header = parse_json(text, path(), {.max_bytes = kMostHeaderBytes});
  const JsonWhere where(path());
  const std::uint64_t data_start = kLengthBytes + length;
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadata) {
      for (const auto& [key, item] : require_object(value, where.at(name)).items()) {
        metadata_[key] = require_string(item, where.at(name).at(key));
      }
      continue;
    }
    SafetensorsEntry entry = parse_entry(value, where.at(name));
    if (entry.offset > source_.size() - data_start) {
      where.at(name).refuse("data out of the file",
                            fmt::format("at most {}", source_.size() - data_start),
                            fmt::format("{}", entry.offset));
    }
    entry.offset += data_start;
    entries_.emplace(name, std::move(entry));
    names_.push_back(name);
  }
  order_and_check(data_start);
}

// The tensors must tile the data: no overlap, no hole, no byte after the last.
void SafetensorsFile::order_and_check(std::uint64_t data_start) {
  std::sort(names_.begin(), names_.end(), [&](const std::string& a, const std::string& b) {
    const SafetensorsEntry& x = entries_.find(a)->second;
    const SafetensorsEntry& y = entries_.find(b)->second;
    return std::tie(x.offset, x.bytes, a) < std::tie(y.offset, y.bytes, b);
  });
  const JsonWhere where(path());
  std::uint64_t end = data_start;
  for (const std::string& name : names_) {
    const SafetensorsEntry& entry = entries_.find(name)->second;
    if (entry.offset != end) {
      where.at(name)
          .at("data_offsets")
          .refuse(entry.offset < end ? "overlaps another tensor" : "leaves a hole before it",
                  fmt::format("to begin at {}", end - data_start),
                  fmt::format("{}", entry.offset - data_start));
    }
    if (entry.bytes > source_.size() - end) {
      where.at(name)
          .at("data_offsets")
          .refuse("the file is cut off",
                  fmt::format("{} bytes of data", entry.bytes + (end - data_start)),
                  fmt::format("{}", source_.size() - data_start));
    }
    end += entry.bytes;
  }
  if (end != source_.size()) {
    refuse(path(), {.field = "data",
                    .what = "bytes after the last tensor",
                    .expected = fmt::format("a file of {} bytes", end),
                    .got = fmt::format("{}", source_.size()),
                    .offset = end});
  }
}

const SafetensorsEntry& SafetensorsFile::entry(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    throw DataError(
        fmt::format("[{}] no tensor of this name; expected one of its {} tensors{}; got {}", path(),
                    names_.size(),
                    names_.empty() ? "" : " (first: " + in_quotes(names_.front()) + ")",
                    in_quotes(name)),
        path());
  }
  return found->second;
}

Tensor SafetensorsFile::read(std::string_view name) const {
  const SafetensorsEntry& found = entry(name);
  Tensor tensor(found.shape, found.dtype);
  read_into(name, tensor.raw());
  return tensor;
}

void SafetensorsFile::read_into(std::string_view name, std::span<std::byte> bytes) const {
  const SafetensorsEntry& found = entry(name);
  if (bytes.size() != found.bytes) {
    throw ConfigError(fmt::format("[{}: {}] wrong buffer; expected {} bytes; got {}", path(), name,
                                  found.bytes, bytes.size()));
  }
  read_part(name, 0, bytes);
}

void SafetensorsFile::read_part(std::string_view name, std::uint64_t begin,
                                std::span<std::byte> bytes) const {
  const SafetensorsEntry& found = entry(name);
  if (begin > found.bytes || bytes.size() > found.bytes - begin) {
    throw ConfigError(fmt::format("[{}: {}] wrong part; expected within {} bytes; got {} from {}",
                                  path(), name, found.bytes, bytes.size(), begin));
  }
  if (bytes.empty()) return;
  const std::string field = in_quotes(name);
  source_.read_exact(found.offset + begin, bytes, field);
  if (found.dtype == DType::kBool) require_bools(bytes, path(), field, found.offset + begin);
}

SafetensorsWriter::SafetensorsWriter(WritableFile& file, std::vector<SafetensorsSpec> specs,
                                     const SafetensorsMetadata& metadata)
    : file_(file), specs_(std::move(specs)) {
  const std::string header = make_header(specs_, metadata);
  total_bytes_ = header.size() + data_bytes(specs_);
  file_.preallocate(total_bytes_);
  file_.append(std::as_bytes(std::span(header)));
  position_ = header.size();
}

std::uint64_t SafetensorsWriter::file_bytes(const std::vector<SafetensorsSpec>& specs,
                                            const SafetensorsMetadata& metadata) {
  return make_header(specs, metadata).size() + data_bytes(specs);
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  SUREFIT_CHECK(bytes.size() <= total_bytes_ - position_, "{} bytes too many for the header",
                bytes.size());
  file_.append(bytes);
  position_ += bytes.size();
}

void SafetensorsWriter::append(std::string_view name, const Tensor& tensor) {
  SUREFIT_CHECK(next_spec_ < specs_.size(), "tensor {} comes after the last", name);
  const SafetensorsSpec& spec = specs_[next_spec_++];
  SUREFIT_CHECK(spec.name == name && spec.dtype == tensor.dtype() && spec.shape == tensor.shape(),
                "tensor {} of {}{} where {} of {}{} was announced", name, name_of(tensor.dtype()),
                tensor.shape().to_string(), spec.name, name_of(spec.dtype), spec.shape.to_string());
  append(tensor.raw());
}

void SafetensorsWriter::finish() const {
  SUREFIT_CHECK(position_ == total_bytes_, "{} bytes of tensors are missing",
                total_bytes_ - position_);
}

void write_safetensors(Env& env, const std::string& path, const std::vector<TensorRef>& tensors,
                       const SafetensorsMetadata& metadata) {
  std::vector<SafetensorsSpec> specs;
  specs.reserve(tensors.size());
  for (const TensorRef& item : tensors) {
    specs.push_back({item.name, item.tensor.dtype(), item.tensor.shape()});
  }
  write_file_atomically(env, path, [&](WritableFile& file) {
    SafetensorsWriter writer(file, std::move(specs), metadata);
    for (const TensorRef& item : tensors) writer.append(item.name, item.tensor);
    writer.finish();
  });
}

}  // namespace surefit
