// SPDX-License-Identifier: Apache-2.0
#include "interop/npy.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <set>

#include "base/check.hpp"

namespace surefit {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor bytes go to files as they are");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMostHeaderBytes = std::size_t{64} * 1024;
constexpr std::size_t kAlignment = 64;

struct DTypeCode {
  std::string_view code;
  DType dtype;
};
constexpr std::array<DTypeCode, 12> kDTypeCodes = {{{"f4", DType::kFloat32},
                                                    {"f8", DType::kFloat64},
                                                    {"f2", DType::kFloat16},
                                                    {"i1", DType::kInt8},
                                                    {"i2", DType::kInt16},
                                                    {"i4", DType::kInt32},
                                                    {"i8", DType::kInt64},
                                                    {"u1", DType::kUInt8},
                                                    {"u2", DType::kUInt16},
                                                    {"u4", DType::kUInt32},
                                                    {"u8", DType::kUInt64},
                                                    {"b1", DType::kBool}}};

// The header is a Python literal: a dict of the three keys descr (string), fortran_order (bool) and
// shape (tuple of ints). Only that much of Python is understood; nothing is evaluated.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& path, const std::string& field,
               std::uint64_t start)
      : text_(text), path_(path), field_(field), start_(start) {}

  NpyHeader parse() {
    NpyHeader header;
    std::vector<std::int64_t> dims;
    std::set<std::string> seen;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      if (!seen.insert(key).second) fail("a key appears twice", "each key once", in_quotes(key));
      expect(':');
      if (key == "descr") {
        descr(header);
      } else if (key == "fortran_order") {
        header.fortran_order = boolean();
      } else if (key == "shape") {
        dims = tuple();
      } else {
        fail("unknown key", "descr, fortran_order, shape", in_quotes(key));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (seen.size() != 3)
      fail("keys are missing", "descr, fortran_order, shape", fmt::format("{} keys", seen.size()));
    skip_space();
    if (at_ != text_.size()) fail("text after the header", "its end", in_quotes(text_.substr(at_)));
    header.shape = checked_shape(std::move(dims), header.dtype, path_, field_ + " shape", start_);
    return header;
  }

 private:
  [[noreturn]] void fail(std::string_view what, std::string expected, std::string got) const {
    const std::string field = field_ + " header";
    refuse(path_, {.field = field,
                   .what = what,
                   .expected = std::move(expected),
                   .got = std::move(got),
                   .offset = start_ + at_});
  }

  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
  }

  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) fail("malformed", fmt::format("'{}'", c), in_quotes(text_.substr(at_, 16)));
  }

  std::string string() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"')
      fail("malformed", "a string", in_quotes(text_.substr(at_, 16)));
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("malformed", "the end of a string", "end of header");
    std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }

  bool boolean() {
    skip_space();
    for (const auto& [word, value] :
         {std::pair{std::string_view("True"), true}, std::pair{std::string_view("False"), false}}) {
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    }
    fail("malformed", "True or False", in_quotes(text_.substr(at_, 16)));
  }

  std::int64_t integer() {
    skip_space();
    const std::size_t first = at_;
    std::int64_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      constexpr std::int64_t kMost = std::int64_t{1} << 56;
      if (value > kMost / 10)
        fail("extent too large", "at most 2^56", in_quotes(text_.substr(first, 24)));
      value = value * 10 + (text_[at_++] - '0');
    }
    if (at_ == first) fail("malformed", "an integer", in_quotes(text_.substr(at_, 16)));
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // written by Python 2
    return value;
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> values;
    expect('(');
    while (!accept(')')) {
      values.push_back(integer());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }

  void descr(NpyHeader& header) {
    skip_space();
    if (at_ < text_.size() && text_[at_] == '[') {
      fail("structured arrays are not supported", "one numeric type",
           in_quotes(text_.substr(at_, 40)));
    }
    const std::string code = string();
    const char order = code.empty() ? '\0' : code[0];
    if (code.size() >= 2 && code[1] == 'O') {
      fail("an array of Python objects (pickled) is never loaded", "a numeric type",
           in_quotes(code));
    }
    for (const DTypeCode& row : kDTypeCodes) {
      if (std::string_view(code).substr(code.empty() ? 0 : 1) != row.code) continue;
      const bool one_byte = size_of(row.dtype) == 1;
      if (order != '<' && order != '>' && order != '=' && !(order == '|' && one_byte)) break;
      header.dtype = row.dtype;
      header.big_endian = order == '>' && !one_byte;
      return;
    }
    fail("unknown type", "a bool, integer or float of at most 8 bytes, such as '<f4' or '|u1'",
         in_quotes(code));
  }

  std::string_view text_;
  const std::string& path_;
  const std::string& field_;
  std::uint64_t start_;
  std::size_t at_ = 0;
};

// Column-major to row-major: walks the output in order and keeps the input position by its strides.
Tensor to_row_major(const Tensor& columns, const Shape& shape) {
  Tensor rows(shape, columns.dtype());
  const std::size_t rank = shape.rank();
  const std::size_t element = size_of(columns.dtype());
  std::vector<std::size_t> stride(rank, element);
  for (std::size_t axis = 1; axis < rank; ++axis) {
    stride[axis] = stride[axis - 1] * static_cast<std::size_t>(shape[axis - 1]);
  }
  std::vector<std::int64_t> index(rank, 0);
  std::size_t from = 0;
  const std::size_t count = shape.count();
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(rows.raw().data() + i * element, columns.raw().data() + from, element);
    for (std::size_t axis = rank; axis-- > 0;) {
      from += stride[axis];
      if (++index[axis] < shape[axis]) break;
      from -= stride[axis] * static_cast<std::size_t>(shape[axis]);
      index[axis] = 0;
    }
  }
  return rows;
}

}  // namespace

NpyHeader read_npy_header(ByteStream& stream, const std::string& field) {
  const std::uint64_t start = stream.position();
  std::array<std::byte, 8> lead;
  stream.read_exact(lead, field + " magic");
  if (std::memcmp(lead.data(), kMagic.data(), kMagic.size()) != 0) {
    const std::string got(reinterpret_cast<const char*>(lead.data()), kMagic.size());
    // A pickle starts with 0x80 and its protocol number; numpy's own save() writes one for plain
    // objects.
    refuse(stream.path(),
           {.field = field,
            .what = lead[0] == std::byte{0x80} ? "a Python pickle, which is never loaded"
                                               : "not a numpy array",
            .expected = in_quotes(kMagic),
            .got = in_quotes(got),
            .offset = start});
  }
  const int major = static_cast<int>(lead[6]);
  const int minor = static_cast<int>(lead[7]);
  if (major < 1 || major > 3 || minor != 0) {
    refuse(stream.path(), {.field = field,
                           .what = "unknown version of the format",
                           .expected = "1.0, 2.0 or 3.0",
                           .got = fmt::format("{}.{}", major, minor),
                           .offset = start + kMagic.size()});
  }
  std::array<std::byte, 4> length_bytes{};
  stream.read_exact(std::span(length_bytes).first(major == 1 ? 2 : 4), field + " header length");
  const auto length = little_endian<std::uint32_t>(length_bytes, 0);
  if (length > kMostHeaderBytes) {
    refuse(stream.path(), {.field = field,
                           .what = "header too large",
                           .expected = fmt::format("at most {} bytes", kMostHeaderBytes),
                           .got = fmt::format("{}", length),
                           .offset = start + lead.size()});
  }
  std::string text(length, '\0');
  stream.read_exact(std::as_writable_bytes(std::span(text)), field + " header");
  NpyHeader header = HeaderParser(text, stream.path(), field, stream.position() - length).parse();
  header.header_bytes = stream.position() - start;
  return header;
}

Tensor read_npy(ByteStream& stream, const std::string& field) {
  const NpyHeader header = read_npy_header(stream, field);
  const std::uint64_t start = stream.position();
  if (header.data_bytes() > stream.most_bytes()) {
    refuse(stream.path(), {.field = field,
                           .what = "the data is cut off",
                           .expected = fmt::format("{} bytes for {} of {}", header.data_bytes(),
                                                   header.shape.to_string(), name_of(header.dtype)),
                           .got = fmt::format("at most {}", stream.most_bytes()),
                           .offset = start});
  }
  Tensor tensor(header.shape, header.dtype);
  stream.read_exact(tensor.raw(), field + " data");
  stream.require_end(field);
  if (header.dtype == DType::kBool) require_bools(tensor.raw(), stream.path(), field, start);
  if (header.big_endian) swap_bytes(tensor.raw(), size_of(header.dtype));
  return header.fortran_order && header.shape.rank() > 1 ? to_row_major(tensor, header.shape)
                                                         : tensor;
}

Tensor parse_npy(std::unique_ptr<ReadableFile> file, std::string name) {
  const Source source(std::move(file), std::move(name));
  return read_npy(*open_stream(source, 0, source.size(), Encoding::kStored), "array");
}

Tensor read_npy(Env& env, const std::string& path) {
  return parse_npy(env.open_read(path), path);
}

NpyHeader index_npy(Env& env, const std::string& path) {
  const Source source(env.open_read(path), path);
  NpyHeader header =
      read_npy_header(*open_stream(source, 0, source.size(), Encoding::kStored), "array");
  if (source.size() - header.header_bytes != header.data_bytes()) {
    refuse(path, {.field = "array data",
                  .what = "size does not match shape and dtype",
                  .expected = fmt::format("{} bytes", header.data_bytes()),
                  .got = fmt::format("{}", source.size() - header.header_bytes),
                  .offset = header.header_bytes});
  }
  return header;
}

std::string make_npy_header(DType dtype, const Shape& shape) {
  std::string code;
  for (const DTypeCode& row : kDTypeCodes) {
    if (row.dtype == dtype) code = fmt::format("{}{}", size_of(dtype) == 1 ? '|' : '<', row.code);
  }
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", code,
                                 shape.to_string());
  constexpr std::size_t kLeadBytes = 10;
  while ((kLeadBytes + text.size() + 1) % kAlignment != 0) text += ' ';
  text += '\n';
  SUREFIT_CHECK(text.size() <= 0xFFFF, "npy header of {} bytes", text.size());
  std::string header(kMagic);
  header += '\x01';
  header += '\0';
  header += static_cast<char>(text.size() & 0xFF);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

void write_npy(Env& env, const std::string& path, const Tensor& tensor) {
  write_file_atomically(env, path, [&](WritableFile& file) {
    const std::string header = make_npy_header(tensor.dtype(), tensor.shape());
    file.preallocate(header.size() + tensor.bytes());
    file.append(std::as_bytes(std::span(header)));
    file.append(tensor.raw());
  });
}

}  // namespace surefit
