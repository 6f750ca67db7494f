// SPDX-License-Identifier: Apache-2.0
#include "interop/cifar.hpp"

#include <array>
#include <fmt/format.h>
#include <vector>

#include "interop/bytes.hpp"

namespace surefit {
namespace {

constexpr std::size_t kSide = 32;
constexpr std::size_t kChannels = 3;
constexpr std::size_t kPlane = kSide * kSide;
constexpr std::size_t kPixels = kPlane * kChannels;
constexpr std::size_t kRecordsAtOnce = 64;

std::size_t label_bytes(Cifar kind) {
  return kind == Cifar::k10 ? 1 : 2;
}

std::int64_t count_records(const Source& source, Cifar kind) {
  const std::uint64_t record = label_bytes(kind) + kPixels;
  if (source.size() == 0 || source.size() % record != 0) {
    refuse(source.path(), {.field = "file size",
                           .what = "not a whole number of pictures",
                           .expected = fmt::format("a multiple of {} bytes", record),
                           .got = fmt::format("{}", source.size()),
                           .offset = source.size() / record * record});
  }
  return static_cast<std::int64_t>(source.size() / record);
}

void check_label(std::byte label, int classes, const Source& source, std::uint64_t offset) {
  if (static_cast<int>(label) < classes) return;
  refuse(source.path(), {.field = "label",
                         .what = "out of range",
                         .expected = fmt::format("0 to {}", classes - 1),
                         .got = fmt::format("{}", static_cast<int>(label)),
                         .offset = offset});
}

// Where the records of one file go.
struct Output {
  std::span<std::byte> images;
  std::span<std::byte> labels;
  std::span<std::byte> coarse_labels;  // empty when nobody wants them
};

void read_records(const Source& source, Cifar kind, const Output& out) {
  const std::size_t lead = label_bytes(kind);
  const std::size_t record_bytes = lead + kPixels;
  std::vector<std::byte> buffer(record_bytes * kRecordsAtOnce);
  for (std::size_t first = 0; first < out.labels.size(); first += kRecordsAtOnce) {
    const std::size_t count = std::min(kRecordsAtOnce, out.labels.size() - first);
    const std::uint64_t offset = std::uint64_t{first} * record_bytes;
    source.read_exact(offset, std::span(buffer).first(count * record_bytes), "pictures");
    for (std::size_t i = 0; i < count; ++i) {
      const auto record =
          std::span<const std::byte>(buffer).subspan(i * record_bytes, record_bytes);
      const std::uint64_t at = offset + i * record_bytes;
      if (kind == Cifar::k100) check_label(record[0], 20, source, at);
      check_label(record[lead - 1], kind == Cifar::k10 ? 10 : 100, source, at + lead - 1);
      out.labels[first + i] = record[lead - 1];
      if (!out.coarse_labels.empty()) out.coarse_labels[first + i] = record[0];
      const auto planes = record.subspan(lead);
      const auto pixels = out.images.subspan((first + i) * kPixels, kPixels);
      for (std::size_t pixel = 0; pixel < kPlane; ++pixel) {
        for (std::size_t c = 0; c < kChannels; ++c) {
          pixels[pixel * kChannels + c] = planes[c * kPlane + pixel];
        }
      }
    }
  }
}

Tensor picture_tensor(std::int64_t count) {
  constexpr auto kExtent = static_cast<std::int64_t>(kSide);
  return Tensor({count, kExtent, kExtent, kChannels}, DType::kUInt8);
}

std::vector<std::string> file_names(Cifar kind, Split split) {
  if (kind == Cifar::k100) return {split == Split::kTrain ? "train.bin" : "test.bin"};
  if (split == Split::kTest) return {"test_batch.bin"};
  std::vector<std::string> names;
  for (int i = 1; i <= 5; ++i) names.push_back(fmt::format("data_batch_{}.bin", i));
  return names;
}

}  // namespace

CifarBatch parse_cifar(std::unique_ptr<ReadableFile> file, std::string name, Cifar kind) {
  const Source source(std::move(file), std::move(name));
  const std::int64_t count = count_records(source, kind);
  CifarBatch batch{.images = picture_tensor(count),
                   .labels = Tensor({count}, DType::kUInt8),
                   .coarse_labels = Tensor({kind == Cifar::k100 ? count : 0}, DType::kUInt8)};
  read_records(source, kind, {batch.images.raw(), batch.labels.raw(), batch.coarse_labels.raw()});
  return batch;
}

CifarBatch read_cifar(Env& env, const std::string& path, Cifar kind) {
  return parse_cifar(env.open_read(path), path, kind);
}

LabeledImages load_cifar_directory(Env& env, const std::string& directory, Cifar kind,
                                   Split split) {
  // All sizes first, so that everything is read once, straight to its place.
  std::vector<Source> sources;
  std::vector<std::int64_t> counts;
  std::int64_t total = 0;
  for (const std::string& name : file_names(kind, split)) {
    const std::string path = fmt::format("{}/{}", directory, name);
    if (!env.exists(path)) {
      throw DataError(
          fmt::format("[{}] a batch is missing; expected {}; got none", directory, name),
          directory);
    }
    sources.emplace_back(env.open_read(path), path);
    counts.push_back(count_records(sources.back(), kind));
    total += counts.back();
  }
  LabeledImages data{.images = picture_tensor(total), .labels = Tensor({total}, DType::kUInt8)};
  std::size_t first = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto count = static_cast<std::size_t>(counts[i]);
    read_records(sources[i], kind,
                 {.images = data.images.raw().subspan(first * kPixels, count * kPixels),
                  .labels = data.labels.raw().subspan(first, count),
                  .coarse_labels = {}});
    first += count;
  }
  return data;
}

}  // namespace surefit
