// SPDX-License-Identifier: Apache-2.0
// Reading of .npz: a ZIP archive (PKWARE APPNOTE 6.3) of .npy members. The central directory at the
// end is the truth; local headers are only asked where the data begins.
#include <algorithm>
#include <array>
#include <fmt/format.h>

#include <zlib.h>

#include "interop/npy.hpp"
#include "interop/zip_format.hpp"

namespace surefit {
namespace {

constexpr std::uint64_t kMostDirectoryBytes = 64 << 20;

struct Directory {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
};

struct Member {
  std::string name;
  std::uint64_t header_offset = 0;  // of the local header
  std::uint64_t data_offset = 0;
  std::uint64_t stored_bytes = 0;
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
  bool deflated = false;
};

// The end record stands last, behind it only a comment of the length it names.
std::uint64_t find_end_record(const Source& source) {
  const std::uint64_t most = std::min<std::uint64_t>(source.size(), zip::kEndBytes + 0xFFFF);
  std::vector<std::byte> tail(static_cast<std::size_t>(most));
  const std::uint64_t start = source.size() - most;
  source.read_exact(start, tail, "end of archive");
  for (std::size_t at = tail.size() < zip::kEndBytes ? 0 : tail.size() - zip::kEndBytes + 1;
       at-- > 0;) {
    if (little_endian<std::uint32_t>(tail, at) == zip::kEndSignature &&
        little_endian<std::uint16_t>(tail, at + 20) == tail.size() - at - zip::kEndBytes) {
      return start + at;
    }
  }
  refuse(source.path(), {.field = "end of archive",
                         .what = "not a complete zip archive",
                         .expected = "an end-of-directory record",
                         .got = fmt::format("none in the last {} bytes", most),
                         .offset = start});
}

// Reads the zip64 end record if the archive has one; returns where the directory must have ended.
std::uint64_t read_zip64_end(const Source& source, std::uint64_t end_offset, Directory& directory) {
  if (end_offset < zip::kLocator64Bytes) return end_offset;
  std::array<std::byte, zip::kLocator64Bytes> locator;
  source.read_exact(end_offset - zip::kLocator64Bytes, locator, "zip64 locator");
  if (little_endian<std::uint32_t>(locator, 0) != zip::kLocator64Signature) return end_offset;
  const auto record_offset = little_endian<std::uint64_t>(locator, 8);
  const std::uint64_t limit = end_offset - zip::kLocator64Bytes;
  if (record_offset > limit || limit - record_offset < zip::kEnd64Bytes) {
    refuse(source.path(), {.field = "zip64 locator",
                           .what = "points out of the file",
                           .expected = fmt::format("at most {}", limit),
                           .got = fmt::format("{}", record_offset),
                           .offset = limit});
  }
  std::array<std::byte, zip::kEnd64Bytes> record;
  source.read_exact(record_offset, record, "zip64 end record");
  if (little_endian<std::uint32_t>(record, 0) != zip::kEnd64Signature) {
    refuse(source.path(), {.field = "zip64 end record",
                           .what = "wrong signature",
                           .expected = fmt::format("{:#x}", zip::kEnd64Signature),
                           .got = fmt::format("{:#x}", little_endian<std::uint32_t>(record, 0)),
                           .offset = record_offset});
  }
  directory = {.offset = little_endian<std::uint64_t>(record, 48),
               .bytes = little_endian<std::uint64_t>(record, 40),
               .count = little_endian<std::uint64_t>(record, 32)};
  return record_offset;
}

Directory find_directory(const Source& source) {
  const std::uint64_t end_offset = find_end_record(source);
  std::array<std::byte, zip::kEndBytes> record;
  source.read_exact(end_offset, record, "end of archive");
  Directory directory{.offset = little_endian<std::uint32_t>(record, 16),
                      .bytes = little_endian<std::uint32_t>(record, 12),
                      .count = little_endian<std::uint16_t>(record, 10)};
  const std::uint64_t limit = read_zip64_end(source, end_offset, directory);
  if (little_endian<std::uint16_t>(record, 4) != 0 &&
      little_endian<std::uint16_t>(record, 4) != 0xFFFF) {
    refuse(source.path(), {.field = "end of archive",
                           .what = "archives in several parts are not supported",
                           .expected = "disk 0",
                           .got = fmt::format("{}", little_endian<std::uint16_t>(record, 4)),
                           .offset = end_offset});
  }
  if (directory.offset > limit || directory.bytes > limit - directory.offset ||
      directory.bytes > kMostDirectoryBytes ||
      directory.count > directory.bytes / zip::kCentralBytes) {
    refuse(source.path(), {.field = "directory",
                           .what = "does not fit the file",
                           .expected = fmt::format("to end before byte {}", limit),
                           .got = fmt::format("{} entries in {} bytes at {}", directory.count,
                                              directory.bytes, directory.offset),
                           .offset = end_offset});
  }
  return directory;
}

// Sizes of 0xFFFFFFFF stand in the zip64 extra field instead, in this order, only those that are
// needed.
void apply_zip64(std::span<const std::byte> extra, Member& member, const std::string& path,
                 std::uint64_t offset) {
  std::array<std::uint64_t*, 3> wide = {&member.bytes, &member.stored_bytes, &member.header_offset};
  const bool needed = std::any_of(wide.begin(), wide.end(),
                                  [](const std::uint64_t* v) { return *v == zip::kUse64; });
  if (!needed) return;
  std::size_t at = 0;
  while (extra.size() - at >= 4) {
    const auto id = little_endian<std::uint16_t>(extra, at);
    const std::size_t size = little_endian<std::uint16_t>(extra, at + 2);
    at += 4;
    if (size > extra.size() - at) break;
    if (id == zip::kExtra64Id) {
      std::size_t from = at;
      for (std::uint64_t* value : wide) {
        if (*value != zip::kUse64) continue;
        if (at + size - from < 8) break;
        *value = little_endian<std::uint64_t>(extra, from);
        from += 8;
      }
      return;
    }
    at += size;
  }
  refuse(path, {.field = member.name,
                .what = "zip64 sizes are missing",
                .expected = "a zip64 extra field",
                .got = "none",
                .offset = offset});
}

std::vector<Member> read_directory(const Source& source, const Directory& directory) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(directory.bytes));
  source.read_exact(directory.offset, bytes, "directory");
  std::vector<Member> members;
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    const std::uint64_t offset = directory.offset + at;
    const auto complain = [&](std::string_view what, std::string expected, std::string got) {
      const std::string field = fmt::format("directory entry {}", i);
      refuse(source.path(), {field, what, std::move(expected), std::move(got), offset});
    };
    if (bytes.size() - at < zip::kCentralBytes ||
        little_endian<std::uint32_t>(bytes, at) != zip::kCentralSignature) {
      complain("malformed", "an entry", "something else");
    }
    const auto flags = little_endian<std::uint16_t>(bytes, at + 8);
    const auto method = little_endian<std::uint16_t>(bytes, at + 10);
    const std::size_t name_bytes = little_endian<std::uint16_t>(bytes, at + 28);
    const std::size_t extra_bytes = little_endian<std::uint16_t>(bytes, at + 30);
    const std::size_t comment_bytes = little_endian<std::uint16_t>(bytes, at + 32);
    Member member{.name = {},
                  .header_offset = little_endian<std::uint32_t>(bytes, at + 42),
                  .data_offset = 0,
                  .stored_bytes = little_endian<std::uint32_t>(bytes, at + 20),
                  .bytes = little_endian<std::uint32_t>(bytes, at + 24),
                  .crc = little_endian<std::uint32_t>(bytes, at + 16),
                  .deflated = method == zip::kDeflated};
    at += zip::kCentralBytes;
    if (name_bytes + extra_bytes + comment_bytes > bytes.size() - at) {
      complain("cut off", fmt::format("{} bytes", name_bytes + extra_bytes + comment_bytes),
               fmt::format("{}", bytes.size() - at));
    }
    member.name.assign(reinterpret_cast<const char*>(bytes.data() + at), name_bytes);
    if ((flags & 0x2041) != 0) complain("encrypted", "a plain member", in_quotes(member.name));
    if (method != zip::kStoredMethod && method != zip::kDeflated) {
      complain("unknown compression", "stored (0) or deflated (8)", fmt::format("{}", method));
    }
    apply_zip64(std::span(bytes).subspan(at + name_bytes, extra_bytes), member, source.path(),
                offset);
    at += name_bytes + extra_bytes + comment_bytes;
    members.push_back(std::move(member));
  }
  return members;
}

// Finds where the member's bytes begin; they must lie before the directory.
void locate(const Source& source, std::uint64_t limit, Member& member) {
  const std::string field = in_quotes(member.name);
  const auto complain = [&](std::string_view what, std::string expected, std::string got) {
    refuse(source.path(), {field, what, std::move(expected), std::move(got), member.header_offset});
  };
  if (member.header_offset > limit || limit - member.header_offset < zip::kLocalBytes) {
    complain("out of the file", fmt::format("to begin before byte {}", limit),
             fmt::format("{}", member.header_offset));
  }
  std::array<std::byte, zip::kLocalBytes> header;
  source.read_exact(member.header_offset, header, field);
  if (little_endian<std::uint32_t>(header, 0) != zip::kLocalSignature) {
    complain("wrong signature of its header", fmt::format("{:#x}", zip::kLocalSignature),
             fmt::format("{:#x}", little_endian<std::uint32_t>(header, 0)));
  }
  member.data_offset = member.header_offset + zip::kLocalBytes +
                       little_endian<std::uint16_t>(header, 26) +
                       little_endian<std::uint16_t>(header, 28);
  if (member.data_offset > limit || member.stored_bytes > limit - member.data_offset) {
    complain("does not fit the file", fmt::format("to end before byte {}", limit),
             fmt::format("{} bytes at {}", member.stored_bytes, member.data_offset));
  }
  if (!member.deflated && member.stored_bytes != member.bytes) {
    complain("sizes of a stored member differ", fmt::format("{} bytes", member.bytes),
             fmt::format("{}", member.stored_bytes));
  }
}

// Members that share bytes are how small archives unpack to terabytes.
void refuse_overlap(const Source& source, std::vector<Member> members) {
  std::sort(members.begin(), members.end(),
            [](const Member& a, const Member& b) { return a.header_offset < b.header_offset; });
  for (std::size_t i = 1; i < members.size(); ++i) {
    const std::uint64_t end = members[i - 1].data_offset + members[i - 1].stored_bytes;
    if (members[i].header_offset < end) {
      const std::string field = in_quotes(members[i].name);
      refuse(source.path(), {.field = field,
                             .what = "overlaps another member",
                             .expected = fmt::format("to begin at {} or later", end),
                             .got = fmt::format("{}", members[i].header_offset),
                             .offset = members[i].header_offset});
    }
  }
}

// Passes bytes through and sums them up, because a flipped bit in a stored member shows nowhere
// else.
class ChecksumStream final : public ByteStream {
 public:
  explicit ChecksumStream(ByteStream& inner) : inner_(inner) {}
  std::size_t read(std::span<std::byte> buffer) override {
    const std::size_t got = inner_.read(buffer);
    if (got > 0) {
      crc_ = ::crc32_z(crc_, reinterpret_cast<const Bytef*>(buffer.data()), got);
    }
    return got;
  }
  std::uint64_t most_bytes() const override { return inner_.most_bytes(); }
  const std::string& path() const override { return inner_.path(); }
  std::uint64_t position() const override { return inner_.position(); }
  std::uint32_t crc() const { return static_cast<std::uint32_t>(crc_); }

 private:
  ByteStream& inner_;
  uLong crc_ = 0;
};

}  // namespace

NpzFile NpzFile::open(Env& env, const std::string& path) {
  return parse(env.open_read(path), path);
}

NpzFile NpzFile::parse(std::unique_ptr<ReadableFile> file, std::string name) {
  NpzFile result(Source(std::move(file), std::move(name)));
  const Source& source = *result.source_;
  const Directory directory = find_directory(source);
  std::vector<Member> members = read_directory(source, directory);
  for (Member& member : members) locate(source, directory.offset, member);
  refuse_overlap(source, members);
  for (const Member& member : members) {
    constexpr std::string_view kSuffix = ".npy";
    if (!member.name.ends_with(kSuffix)) {
      refuse(source.path(), {.field = "directory",
                             .what = "a member is not an array",
                             .expected = "names that end in .npy",
                             .got = in_quotes(member.name),
                             .offset = member.header_offset});
    }
    const std::string array = member.name.substr(0, member.name.size() - kSuffix.size());
    const std::string field = in_quotes(array);
    const auto stream = open_stream(source, member.data_offset, member.stored_bytes,
                                    member.deflated ? Encoding::kDeflate : Encoding::kStored);
    Record record{.member = {},
                  .offset = member.data_offset,
                  .stored_bytes = member.stored_bytes,
                  .bytes = member.bytes,
                  .crc = member.crc};
    record.member = {
        .header = read_npy_header(*stream, field), .stored = !member.deflated, .data_offset = {}};
    const NpyHeader& header = record.member.header;
    if (header.header_bytes + header.data_bytes() != member.bytes) {
      refuse(source.path(), {.field = field,
                             .what = "size does not match shape and dtype",
                             .expected = fmt::format(
                                 "{} bytes for {} of {}", header.header_bytes + header.data_bytes(),
                                 header.shape.to_string(), name_of(header.dtype)),
                             .got = fmt::format("{}", member.bytes),
                             .offset = member.data_offset});
    }
    if (!member.deflated) record.member.data_offset = member.data_offset + header.header_bytes;
    if (!result.members_.emplace(array, std::move(record)).second) {
      refuse(source.path(), {.field = "directory",
                             .what = "an array appears twice",
                             .expected = "each name once",
                             .got = field,
                             .offset = member.header_offset});
    }
    result.names_.push_back(array);
  }
  return result;
}

const NpzFile::Record& NpzFile::record(std::string_view name) const {
  const auto found = members_.find(name);
  if (found == members_.end()) {
    std::string have;
    for (std::size_t i = 0; i < std::min<std::size_t>(names_.size(), 8); ++i) {
      have += (i == 0 ? "" : ", ") + in_quotes(names_[i]);
    }
    throw DataError(fmt::format("[{}] no array of this name; expected one of {}; got {}", path(),
                                have.empty() ? "none" : have, in_quotes(name)),
                    path());
  }
  return found->second;
}

const NpzMember& NpzFile::member(std::string_view name) const {
  return record(name).member;
}

Tensor NpzFile::read(std::string_view name) const {
  const Record& found = record(name);
  const auto stream = open_stream(*source_, found.offset, found.stored_bytes,
                                  found.member.stored ? Encoding::kStored : Encoding::kDeflate);
  ChecksumStream summed(*stream);
  const std::string field = in_quotes(name);
  Tensor tensor = read_npy(summed, field);
  if (summed.crc() != found.crc) {
    refuse(path(), {.field = field,
                    .what = "the checksum does not match: the file is damaged",
                    .expected = fmt::format("{:08x}", found.crc),
                    .got = fmt::format("{:08x}", summed.crc()),
                    .offset = found.offset});
  }
  return tensor;
}

void NpzFile::read_data(std::string_view name, std::uint64_t offset,
                        std::span<std::byte> bytes) const {
  const NpzMember& found = member(name);
  if (!found.data_offset || !found.header.plain() || offset > found.header.data_bytes() ||
      bytes.size() > found.header.data_bytes() - offset) {
    throw ConfigError(
        fmt::format("[{}: {}] cannot read in place; expected a stored row-major array of more than "
                    "{} bytes; got {} bytes{}",
                    path(), name, offset + bytes.size(), found.header.data_bytes(),
                    found.stored ? "" : ", compressed"));
  }
  const std::string field = in_quotes(name);
  source_->read_exact(*found.data_offset + offset, bytes, field);
  if (found.header.dtype == DType::kBool) {
    require_bools(bytes, path(), field, *found.data_offset + offset);
  }
}

std::vector<NamedTensor> read_npz(Env& env, const std::string& path) {
  const NpzFile file = NpzFile::open(env, path);
  std::vector<NamedTensor> tensors;
  for (const std::string& name : file.names()) tensors.push_back({name, file.read(name)});
  return tensors;
}

}  // namespace surefit
