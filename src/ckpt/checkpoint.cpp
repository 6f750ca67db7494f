// SPDX-License-Identifier: Apache-2.0
#include "ckpt/checkpoint.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <memory>

#include <xxhash.h>

#include "surefit/error.hpp"

#include "base/check.hpp"

namespace surefit {
namespace {

constexpr std::string_view kMagic = "SUREFIT\n";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kPiece = std::size_t{1} << 20;  // of a file, read or written at once

// The record's fixed part; hashes and state follow, then the hash of all of it.
struct RecordHead {
  std::array<char, 8> magic{};
  std::uint32_t version = kVersion;
  std::uint32_t tensors = 0;
  std::uint64_t step = 0;
  std::uint64_t state_bytes = 0;
  std::uint64_t header_hash = 0;  // of the file's first bytes, up to the data
};
static_assert(sizeof(RecordHead) == 40);

std::size_t record_bytes(std::size_t tensors, std::size_t state_bytes) {
  return sizeof(RecordHead) + 8 * tensors + state_bytes + 8;
}

std::uint64_t hash_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

class Hash {
 public:
  Hash() : state_(XXH3_createState()) {
    SUREFIT_CHECK(state_ != nullptr, "no memory for a hash");
    XXH3_64bits_reset(state_);
  }
  ~Hash() { XXH3_freeState(state_); }
  Hash(const Hash&) = delete;
  Hash& operator=(const Hash&) = delete;
  void add(std::span<const std::byte> bytes) {
    XXH3_64bits_update(state_, bytes.data(), bytes.size());
  }
  std::uint64_t value() const { return XXH3_64bits_digest(state_); }

 private:
  XXH3_state_t* state_;
};

// Hashes what passes through on its way to the file.
class HashedFile final : public WritableFile {
 public:
  explicit HashedFile(WritableFile& file) : file_(file) {}
  void preallocate(std::uint64_t bytes) override { file_.preallocate(bytes); }
  void append(std::span<const std::byte> bytes) override {
    hash_.add(bytes);
    file_.append(bytes);
  }
  void sync() override { file_.sync(); }
  void close() override { file_.close(); }
  std::uint64_t hash() const { return hash_.value(); }

 private:
  WritableFile& file_;
  Hash hash_;
};

// All bits of the exponent set means NaN or Inf. Fixed blocks of integers become vector code.
template <typename Bits>
bool all_finite(std::span<const std::byte> bytes, Bits exponent) {
  constexpr std::size_t kBlock = 64 / sizeof(Bits);
  std::array<Bits, kBlock> block{};
  Bits bad = 0;
  for (std::size_t at = 0; at < bytes.size(); at += 64) {
    block = {};
    std::memcpy(block.data(), bytes.data() + at, std::min<std::size_t>(64, bytes.size() - at));
    for (const Bits bits : block) bad |= static_cast<Bits>((bits & exponent) == exponent);
  }
  return bad == 0;
}

void require_finite(const SafetensorsSpec& spec, std::span<const std::byte> bytes) {
  const bool finite = spec.dtype == DType::kFloat32 ? all_finite<std::uint32_t>(bytes, 0x7f800000u)
                      : spec.dtype == DType::kFloat64
                          ? all_finite<std::uint64_t>(bytes, 0x7ff0000000000000u)
                          : true;
  if (!finite)
    throw NotFinite(fmt::format(
        "[checkpoint] '{}' contains NaN or Inf; expected finite numbers; the older checkpoints are "
        "kept",
        spec.name));
}

std::uint64_t write_content(WritableFile& file, const CheckpointContent& content,
                            TensorSource& source) {
  const std::size_t count = content.tensors.size();
  std::vector<SafetensorsSpec> specs(content.tensors.begin(), content.tensors.end());
  const std::size_t record_size = record_bytes(count, content.state.size());
  specs.push_back(
      {std::string(kRecordTensor), DType::kUInt8, Shape({static_cast<std::int64_t>(record_size)})});
  RecordHead head;
  std::copy(kMagic.begin(), kMagic.end(), head.magic.begin());
  head.tensors = static_cast<std::uint32_t>(count);
  head.step = content.step;
  head.state_bytes = content.state.size();
  HashedFile header(file);
  const SafetensorsWriter begin(header, specs);  // writes the header at once
  head.header_hash = header.hash();
  std::vector<std::uint64_t> hashes(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::span<const std::byte> bytes = source.tensor(i);
    SUREFIT_CHECK(bytes.size() == specs[i].shape.count() * size_of(specs[i].dtype),
                  "tensor {} of {} bytes", specs[i].name, bytes.size());
    require_finite(specs[i], bytes);
    hashes[i] = hash_of(bytes);
    for (std::size_t at = 0; at < bytes.size(); at += kPiece)
      file.append(bytes.subspan(at, std::min(kPiece, bytes.size() - at)));
  }
  std::vector<std::byte> record(record_size);
  std::byte* at = record.data();
  const auto put = [&](const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(at, from, bytes);
    at += bytes;
  };
  put(&head, sizeof head);
  put(hashes.data(), 8 * count);
  put(content.state.data(), content.state.size());
  const std::uint64_t own = hash_of(std::span(record).first(record_size - 8));
  put(&own, 8);
  file.append(record);
  return begin.total_bytes();
}

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw DataError(fmt::format("[{}] not a valid checkpoint: {}", path, what), path);
}

}  // namespace

std::uint64_t write_checkpoint(Env& env, const std::string& path, const CheckpointContent& content,
                               TensorSource& source) {
  std::uint64_t bytes = 0;
  write_file_atomically(env, path,
                        [&](WritableFile& file) { bytes = write_content(file, content, source); });
  return bytes;
}

CheckpointFile CheckpointFile::open(Env& env, const std::string& path) {
  CheckpointFile checkpoint(SafetensorsFile::open(env, path));
  checkpoint.check_record();
  const auto file = env.open_read(path);
  checkpoint.check_tensors(*file);
  return checkpoint;
}

void CheckpointFile::check_record() {
  names_ = file_.names();
  if (names_.empty() || names_.back() != kRecordTensor)
    refuse(path(), fmt::format("its last tensor is not {}", kRecordTensor));
  names_.pop_back();
  const SafetensorsEntry& entry = file_.entry(kRecordTensor);
  if (entry.dtype != DType::kUInt8 || entry.bytes < record_bytes(names_.size(), 0))
    refuse(path(), "its record is too short");
  std::vector<std::byte> record(entry.bytes);
  file_.read_into(kRecordTensor, record);
  RecordHead head;
  std::memcpy(&head, record.data(), sizeof head);
  if (std::string_view(head.magic.data(), head.magic.size()) != kMagic)
    refuse(path(), "its record does not start with the magic");
  std::uint64_t own = 0;
  std::memcpy(&own, record.data() + record.size() - 8, 8);
  if (own != hash_of(std::span(record).first(record.size() - 8)))
    refuse(path(), "the hash of its record is wrong");
  if (head.version != kVersion)
    refuse(path(), fmt::format("version {}; expected {}", head.version, kVersion));
  if (head.tensors != names_.size() ||
      head.state_bytes != entry.bytes - record_bytes(names_.size(), 0))
    refuse(path(), "its record does not describe this file");
  hashes_.resize(names_.size());
  const std::byte* at = record.data() + sizeof head;
  if (!hashes_.empty()) std::memcpy(hashes_.data(), at, 8 * hashes_.size());
  at += 8 * hashes_.size();
  state_.assign(reinterpret_cast<const char*>(at), head.state_bytes);
  step_ = head.step;
  header_hash_ = head.header_hash;
  bytes_ = entry.offset + entry.bytes;
}

void CheckpointFile::check_tensors(const ReadableFile& file) const {
  std::vector<std::byte> piece(std::min<std::uint64_t>(kPiece, bytes_));
  const auto hash_range = [&](std::uint64_t offset, std::uint64_t bytes) {
    Hash hash;
    while (bytes > 0) {
      const std::span<std::byte> part = std::span(piece).first(
          static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), bytes)));
      if (file.read_at(offset, part) != part.size())
        refuse(path(), "it became shorter while it was read");
      hash.add(part);
      offset += part.size();
      bytes -= part.size();
    }
    return hash.value();
  };
  const std::uint64_t data =
      names_.empty() ? file_.entry(kRecordTensor).offset : file_.entry(names_.front()).offset;
  if (hash_range(0, data) != header_hash_) refuse(path(), "the hash of its header is wrong");
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const SafetensorsEntry& entry = file_.entry(names_[i]);
    if (hash_range(entry.offset, entry.bytes) != hashes_[i])
      refuse(path(), fmt::format("the hash of '{}' is wrong", names_[i]));
  }
}

void CheckpointFile::read_into(std::string_view name, std::span<std::byte> bytes) const {
  file_.read_into(name, bytes);
  const auto at = std::find(names_.begin(), names_.end(), name);
  SUREFIT_CHECK(at != names_.end(), "'{}' is not a tensor of the state", name);
  if (hash_of(bytes) != hashes_[static_cast<std::size_t>(at - names_.begin())])
    refuse(path(), fmt::format("the hash of '{}' is wrong", name));
}

}  // namespace surefit
