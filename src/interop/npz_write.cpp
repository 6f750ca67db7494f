// SPDX-License-Identifier: Apache-2.0
// Writing of .npz: stored members, so that others can read rows in place. Nothing in the file
// depends on when or where it was written.
#include <fmt/format.h>
#include <set>

#include <zlib.h>

#include "interop/npy.hpp"
#include "interop/zip_format.hpp"

namespace surefit {
namespace {

constexpr std::uint16_t kVersion20 = 20;
constexpr std::uint16_t kVersion45 = 45;  // the first with zip64
constexpr std::uint16_t kUtf8Names = 1 << 11;
constexpr std::uint16_t kFirstDay = 0x21;  // 1980-01-01, the zero of ZIP's calendar

struct Member {
  std::string name;
  std::string header;
  const Tensor* tensor = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
  std::uint32_t crc = 0;

  bool wide() const { return bytes >= zip::kUse64; }
};

void put_common(std::vector<std::byte>& out, const Member& member, bool wide, std::size_t extra) {
  put_little_endian<std::uint16_t>(out, wide ? kVersion45 : kVersion20);
  put_little_endian<std::uint16_t>(out, kUtf8Names);
  put_little_endian<std::uint16_t>(out, zip::kStoredMethod);
  put_little_endian<std::uint16_t>(out, 0);  // midnight
  put_little_endian<std::uint16_t>(out, kFirstDay);
  put_little_endian<std::uint32_t>(out, member.crc);
  const std::uint32_t shown =
      member.wide() ? zip::kUse64 : static_cast<std::uint32_t>(member.bytes);
  put_little_endian<std::uint32_t>(out, shown);
  put_little_endian<std::uint32_t>(out, shown);
  put_little_endian<std::uint16_t>(out, static_cast<std::uint16_t>(member.name.size()));
  put_little_endian<std::uint16_t>(out, static_cast<std::uint16_t>(extra));
}

void put_text(std::vector<std::byte>& out, const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

std::vector<std::byte> local_header(const Member& member) {
  std::vector<std::byte> out;
  put_little_endian(out, zip::kLocalSignature);
  put_common(out, member, member.wide(), member.wide() ? 20 : 0);
  put_text(out, member.name);
  if (member.wide()) {
    put_little_endian(out, zip::kExtra64Id);
    put_little_endian<std::uint16_t>(out, 16);
    put_little_endian(out, member.bytes);
    put_little_endian(out, member.bytes);
  }
  return out;
}

void put_central(std::vector<std::byte>& out, const Member& member) {
  const bool far = member.offset >= zip::kUse64;
  const std::size_t payload = (member.wide() ? 16u : 0u) + (far ? 8u : 0u);
  put_little_endian(out, zip::kCentralSignature);
  put_little_endian<std::uint16_t>(out, kVersion45);
  put_common(out, member, payload != 0, payload == 0 ? 0 : payload + 4);
  put_little_endian<std::uint16_t>(out, 0);  // comment
  put_little_endian<std::uint16_t>(out, 0);  // disk
  put_little_endian<std::uint16_t>(out, 0);  // internal attributes
  put_little_endian<std::uint32_t>(out, 0);  // external attributes
  put_little_endian<std::uint32_t>(out,
                                   far ? zip::kUse64 : static_cast<std::uint32_t>(member.offset));
  put_text(out, member.name);
  if (payload != 0) {
    put_little_endian(out, zip::kExtra64Id);
    put_little_endian(out, static_cast<std::uint16_t>(payload));
    if (member.wide()) {
      put_little_endian(out, member.bytes);
      put_little_endian(out, member.bytes);
    }
    if (far) put_little_endian(out, member.offset);
  }
}

void put_end(std::vector<std::byte>& out, std::uint64_t count, std::uint64_t offset) {
  const std::uint64_t bytes = out.size();
  const bool wide = count >= 0xFFFF || bytes >= zip::kUse64 || offset >= zip::kUse64;
  if (wide) {
    const std::uint64_t record = offset + bytes;
    put_little_endian(out, zip::kEnd64Signature);
    put_little_endian<std::uint64_t>(out, zip::kEnd64Bytes - 12);
    put_little_endian(out, kVersion45);
    put_little_endian(out, kVersion45);
    put_little_endian<std::uint32_t>(out, 0);
    put_little_endian<std::uint32_t>(out, 0);
    put_little_endian(out, count);
    put_little_endian(out, count);
    put_little_endian(out, bytes);
    put_little_endian(out, offset);
    put_little_endian(out, zip::kLocator64Signature);
    put_little_endian<std::uint32_t>(out, 0);
    put_little_endian(out, record);
    put_little_endian<std::uint32_t>(out, 1);
  }
  put_little_endian(out, zip::kEndSignature);
  put_little_endian<std::uint32_t>(out, 0);  // disks
  put_little_endian<std::uint16_t>(out, static_cast<std::uint16_t>(wide ? 0xFFFF : count));
  put_little_endian<std::uint16_t>(out, static_cast<std::uint16_t>(wide ? 0xFFFF : count));
  put_little_endian<std::uint32_t>(out, wide ? zip::kUse64 : static_cast<std::uint32_t>(bytes));
  put_little_endian<std::uint32_t>(out, wide ? zip::kUse64 : static_cast<std::uint32_t>(offset));
  put_little_endian<std::uint16_t>(out, 0);  // comment
}

std::vector<Member> plan_members(const std::vector<TensorRef>& tensors) {
  std::vector<Member> members;
  std::set<std::string_view> seen;
  std::uint64_t offset = 0;
  for (const TensorRef& item : tensors) {
    // numpy unpacks by name; a path would be one for whoever unzips the file.
    if (item.name.empty() || item.name.size() > 4096 ||
        item.name.find_first_of("/\\") != std::string::npos ||
        item.name.find('\0') != std::string::npos || !seen.insert(item.name).second) {
      throw ConfigError(fmt::format(
          "[npz] an array cannot have this name; expected a unique name without slashes; got {}",
          in_quotes(item.name)));
    }
    Member member{.name = item.name + ".npy",
                  .header = make_npy_header(item.tensor.dtype(), item.tensor.shape()),
                  .tensor = &item.tensor};
    const auto raw = item.tensor.raw();
    uLong crc =
        ::crc32_z(0, reinterpret_cast<const Bytef*>(member.header.data()), member.header.size());
    if (!raw.empty()) crc = ::crc32_z(crc, reinterpret_cast<const Bytef*>(raw.data()), raw.size());
    member.crc = static_cast<std::uint32_t>(crc);
    member.bytes = member.header.size() + raw.size();
    member.offset = offset;
    offset += local_header(member).size() + member.bytes;
    members.push_back(std::move(member));
  }
  return members;
}

}  // namespace

void write_npz(Env& env, const std::string& path, const std::vector<TensorRef>& tensors) {
  const std::vector<Member> members = plan_members(tensors);
  std::vector<std::byte> directory;
  std::uint64_t position = 0;
  for (const Member& member : members) {
    put_central(directory, member);
    position = member.offset + local_header(member).size() + member.bytes;
  }
  put_end(directory, members.size(), position);
  write_file_atomically(env, path, [&](WritableFile& file) {
    file.preallocate(position + directory.size());
    for (const Member& member : members) {
      file.append(local_header(member));
      file.append(std::as_bytes(std::span(member.header)));
      file.append(member.tensor->raw());
    }
    file.append(directory);
  });
}

}  // namespace surefit
