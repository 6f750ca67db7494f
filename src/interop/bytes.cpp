// SPDX-License-Identifier: Apache-2.0
#include "interop/bytes.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <zlib.h>

#include "base/check.hpp"

namespace surefit {
namespace {

// Deflate spends at least two bits on a match of at most 258 bytes, so it cannot expand more than
// 1032-fold.
constexpr std::uint64_t kMostExpansion = 1032;
constexpr std::size_t kMostRank = 32;  // numpy's limit until 2.0
constexpr std::size_t kInputBytes = std::size_t{64} * 1024;

class StoredStream final : public ByteStream {
 public:
  StoredStream(const Source& source, std::uint64_t offset, std::uint64_t bytes)
      : source_(source), offset_(offset), left_(bytes) {}

  std::size_t read(std::span<std::byte> buffer) override {
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), left_));
    const std::size_t got = source_.file().read_at(offset_ + position_, buffer.first(want));
    position_ += got;
    left_ = got < want ? 0 : left_ - got;
    return got;
  }
  std::uint64_t most_bytes() const override { return left_; }
  const std::string& path() const override { return source_.path(); }
  std::uint64_t position() const override { return offset_ + position_; }

 private:
  const Source& source_;
  std::uint64_t offset_;
  std::uint64_t left_;
  std::uint64_t position_ = 0;
};

class InflateStream final : public ByteStream {
 public:
  InflateStream(const Source& source, std::uint64_t offset, std::uint64_t bytes, bool gzip)
      : input_(source, offset, bytes), gzip_(gzip) {
    if (inflateInit2(&zlib_, gzip ? 16 + MAX_WBITS : -MAX_WBITS) != Z_OK) {
      throw SystemError(fmt::format("[{}] cannot start to decompress: out of memory", path()),
                        ENOMEM);
    }
  }
  ~InflateStream() override { inflateEnd(&zlib_); }
  InflateStream(const InflateStream&) = delete;
  InflateStream& operator=(const InflateStream&) = delete;

  std::size_t read(std::span<std::byte> buffer) override {
    std::size_t done = 0;
    while (done < buffer.size() && !ended_) {
      if (zlib_.avail_in == 0) refill();
      const std::size_t want = std::min<std::size_t>(buffer.size() - done, 1u << 30);
      zlib_.next_out = reinterpret_cast<Bytef*>(buffer.data() + done);
      zlib_.avail_out = static_cast<uInt>(want);
      const int status = inflate(&zlib_, Z_NO_FLUSH);
      const std::size_t made = want - zlib_.avail_out;
      done += made;
      position_ += made;
      if (status == Z_STREAM_END) {
        end_member();
      } else if (status == Z_BUF_ERROR && zlib_.avail_in == 0 && input_.most_bytes() == 0) {
        complain("ends before its data does", "more bytes", "end of data");
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        complain("cannot be decompressed", "a valid stream",
                 zlib_.msg != nullptr ? zlib_.msg : fmt::format("zlib status {}", status));
      }
    }
    return done;
  }

  std::uint64_t most_bytes() const override {
    if (ended_) return 0;
    // A window's worth may already be inside zlib, waiting for room.
    return (input_.most_bytes() + zlib_.avail_in + 64) * kMostExpansion;
  }
  const std::string& path() const override { return input_.path(); }
  std::uint64_t position() const override { return position_; }

 private:
  void refill() {
    zlib_.avail_in = static_cast<uInt>(input_.read(std::as_writable_bytes(std::span(buffer_))));
    zlib_.next_in = buffer_.data();
  }

  // A gzip file may be several members in a row (bgzip, `cat a.gz b.gz`).
  void end_member() {
    if (zlib_.avail_in == 0) refill();
    if (!gzip_ && zlib_.avail_in != 0) {
      complain("goes on after its end", "end of data",
               fmt::format("{} more bytes", zlib_.avail_in));
    }
    if (zlib_.avail_in == 0) {
      ended_ = true;
    } else if (inflateReset(&zlib_) != Z_OK) {
      complain("cannot be decompressed", "another gzip member", "an unknown state");
    }
  }

  [[noreturn]] void complain(std::string_view what, std::string expected, std::string got) const {
    refuse(path(), {.field = "compressed data",
                    .what = what,
                    .expected = std::move(expected),
                    .got = std::move(got),
                    .offset = input_.position() - zlib_.avail_in});
  }

  StoredStream input_;
  bool gzip_;
  bool ended_ = false;
  std::uint64_t position_ = 0;
  std::array<Bytef, kInputBytes> buffer_;
  z_stream zlib_{};
};

}  // namespace

std::size_t MemoryFile::read_at(std::uint64_t offset, std::span<std::byte> buffer) const {
  if (offset >= bytes_.size()) return 0;
  const std::size_t count =
      std::min(buffer.size(), bytes_.size() - static_cast<std::size_t>(offset));
  if (count > 0) std::memcpy(buffer.data(), bytes_.data() + offset, count);
  return count;
}

void refuse(const std::string& path, const Complaint& complaint) {
  throw DataError(fmt::format("[{}: {}] {}; expected {}; got {} (byte {})", path, complaint.field,
                              complaint.what, complaint.expected, complaint.got, complaint.offset),
                  path, static_cast<std::int64_t>(complaint.offset));
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMost = 60;
  std::string out = "\"";
  for (const char c : text.substr(0, kMost)) {
    if (c == '"' || c == '\\') {
      out += fmt::format("\\{}", c);
    } else if (c >= ' ' && c <= '~') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return out + (text.size() > kMost ? "...\"" : "\"");
}

void Source::read_exact(std::uint64_t offset, std::span<std::byte> buffer,
                        std::string_view field) const {
  const std::size_t got = offset >= size() ? 0 : file_->read_at(offset, buffer);
  if (got != buffer.size()) {
    refuse(path_, {.field = field,
                   .what = "the file is cut off",
                   .expected = fmt::format("{} bytes", buffer.size()),
                   .got = fmt::format("{}", got),
                   .offset = offset});
  }
}

void ByteStream::read_exact(std::span<std::byte> buffer, std::string_view field) {
  const std::uint64_t start = position();
  const std::size_t got = read(buffer);
  if (got != buffer.size()) {
    refuse(path(), {.field = field,
                    .what = "the data is cut off",
                    .expected = fmt::format("{} bytes", buffer.size()),
                    .got = fmt::format("{}", got),
                    .offset = start});
  }
}

void ByteStream::require_end(std::string_view field) {
  std::byte extra;
  const std::uint64_t end = position();
  if (read(std::span(&extra, 1)) != 0) {
    refuse(path(), {.field = field,
                    .what = "bytes are left over",
                    .expected = "end of data",
                    .got = "more bytes",
                    .offset = end});
  }
}

std::unique_ptr<ByteStream> open_stream(const Source& source, std::uint64_t offset,
                                        std::uint64_t bytes, Encoding encoding) {
  SUREFIT_CHECK(offset <= source.size() && bytes <= source.size() - offset, "range within {}",
                source.path());
  if (encoding == Encoding::kStored) return std::make_unique<StoredStream>(source, offset, bytes);
  return std::make_unique<InflateStream>(source, offset, bytes, encoding == Encoding::kGzip);
}

Shape checked_shape(std::vector<std::int64_t> dims, DType dtype, const std::string& path,
                    std::string_view field, std::uint64_t offset) {
  std::int64_t product = static_cast<std::int64_t>(size_of(dtype));
  bool good = dims.size() <= kMostRank;
  for (std::size_t axis = 0; good && axis < dims.size(); ++axis) {
    const std::int64_t extent = dims[axis];
    // Half of what Shape allows, so that rows and batches can still be put together.
    constexpr std::int64_t kMostBytes = std::int64_t{1} << 55;
    good = extent >= 0 && (extent == 0 || product <= kMostBytes / extent);
    if (good && extent > 0) product *= extent;
  }
  if (!good) {
    refuse(path, {.field = field,
                  .what = "impossible shape",
                  .expected = fmt::format("at most {} extents, not negative, of at most 2^55 bytes",
                                          kMostRank),
                  .got = dims.size() > kMostRank ? fmt::format("{} extents", dims.size())
                                                 : fmt::format("({})", fmt::join(dims, ", ")),
                  .offset = offset});
  }
  return Shape(std::move(dims));
}

void swap_bytes(std::span<std::byte> bytes, std::size_t element_bytes) {
  for (std::size_t at = 0; at + element_bytes <= bytes.size(); at += element_bytes) {
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                 bytes.begin() + static_cast<std::ptrdiff_t>(at + element_bytes));
  }
}

void require_bools(std::span<const std::byte> bytes, const std::string& path,
                   std::string_view field, std::uint64_t offset) {
  const auto bad =
      std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; });
  if (bad == bytes.end()) return;
  refuse(path, {.field = field,
                .what = "not a bool",
                .expected = "0 or 1",
                .got = fmt::format("{}", static_cast<int>(*bad)),
                .offset = offset + static_cast<std::uint64_t>(bad - bytes.begin())});
}

}  // namespace surefit
