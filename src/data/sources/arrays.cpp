// SPDX-License-Identifier: Apache-2.0
// Arrays in memory: samples borrow their rows, nothing is copied before the batch.
#include <algorithm>
#include <fmt/format.h>

#include <xxhash.h>

#include "data/node.hpp"

namespace surefit::data {
namespace {

// Above this, contents are fingerprinted by evenly spaced blocks: a checkpoint must not read
// gigabytes.
constexpr std::size_t kFullHashBytes = std::size_t{64} << 20;
constexpr std::size_t kHashBlocks = 1024, kHashBlockBytes = std::size_t{64} << 10;

std::uint64_t hash_contents(const Tensor& tensor, std::uint64_t seed) {
  const std::span<const std::byte> bytes = tensor.raw();
  const std::string head = fmt::format("{}{}", name_of(tensor.dtype()), tensor.shape().to_string());
  seed = XXH3_64bits_withSeed(head.data(), head.size(), seed);
  if (bytes.size() <= kFullHashBytes) return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
  for (std::size_t block = 0; block < kHashBlocks; ++block) {
    const std::size_t offset = (bytes.size() - kHashBlockBytes) / (kHashBlocks - 1) * block;
    seed = XXH3_64bits_withSeed(bytes.data() + offset, kHashBlockBytes, seed);
  }
  return seed;
}

class Arrays final : public Node {
 public:
  explicit Arrays(std::vector<Tensor> components) : Node({}), components_(std::move(components)) {
    if (components_.empty()) {
      throw ConfigError("[from_tensor_slices] no tensors; expected at least one");
    }
    for (const Tensor& tensor : components_) {
      if (tensor.shape().rank() == 0) {
        throw ConfigError(
            "[from_tensor_slices] a scalar cannot be sliced; expected rank 1 or more");
      }
      if (tensor.shape()[0] != components_[0].shape()[0]) {
        throw ConfigError(fmt::format(
            "[from_tensor_slices] first extents differ; expected {} for all; got {} and {}",
            components_[0].shape()[0], components_[0].shape().to_string(),
            tensor.shape().to_string()));
      }
      rows_.push_back({tensor.dtype(), Dims(tensor.shape().drop_front())});
      row_bytes_.push_back(rows_.back().dims.count() * size_of(tensor.dtype()));
    }
    count_ = static_cast<std::uint64_t>(components_[0].shape()[0]);
  }

  std::string describe() const override { return fmt::format("arrays({})", count_); }
  std::vector<ComponentSpec> spec() const override { return rows_; }
  std::optional<std::uint64_t> size() const override { return count_; }

  void read(Position at, Sample& out, Worker&) const override {
    out.resize(rows_.size());
    out.place(at.index, at.pass);
    out.set_path({});
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      out[i].borrow(rows_[i].dtype, rows_[i].dims,
                    components_[i].raw().data() + at.index * row_bytes_[i]);
    }
  }

  std::uint64_t fingerprint() const override {
    std::uint64_t hash = count_;
    for (const Tensor& tensor : components_) hash = hash_contents(tensor, hash);
    return hash;
  }

  std::vector<LedgerEntry> buffers() const override {
    std::uint64_t bytes = 0;
    for (const Tensor& tensor : components_) bytes += tensor.bytes();
    return {{describe(), bytes, Residence::kSource}};
  }
  bool only_copies() const override { return true; }

 private:
  std::vector<Tensor> components_;
  std::vector<ComponentSpec> rows_;
  std::vector<std::size_t> row_bytes_;
  std::uint64_t count_ = 0;
};

class Range final : public Node {
 public:
  explicit Range(std::uint64_t count) : Node({}), count_(count) {}
  std::string describe() const override { return fmt::format("range({})", count_); }
  std::vector<ComponentSpec> spec() const override { return {{DType::kInt64, {}}}; }
  std::optional<std::uint64_t> size() const override { return count_; }
  std::uint64_t fingerprint() const override { return count_; }
  bool only_copies() const override { return true; }
  void read(Position at, Sample& out, Worker&) const override {
    out.resize(1);
    out.place(at.index, at.pass);
    out.set_path({});
    out[0].assign_scalar(static_cast<std::int64_t>(at.index));
  }

 private:
  std::uint64_t count_;
};

}  // namespace

NodePtr make_arrays(std::vector<Tensor> components) {
  return std::make_shared<Arrays>(std::move(components));
}
NodePtr make_range(std::uint64_t count) {
  return std::make_shared<Range>(count);
}

}  // namespace surefit::data
