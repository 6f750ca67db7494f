// SPDX-License-Identifier: Apache-2.0
// What the tests of the pipeline share: small sources, and a reader that remembers what it
// delivered.
#pragma once

#include <cstring>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>
#include <xxhash.h>

#include "surefit/data.hpp"

#include "base/thread_pool.hpp"
#include "data/reader.hpp"

namespace surefit::data {

// `count` uint8 pictures of 4 x 3 x 2 whose every byte tells the picture, and int64 labels.
inline Dataset pictures(std::int64_t count) {
  Tensor x(Shape{count, 4, 3, 2}, DType::kUInt8), y(Shape{count}, DType::kInt64);
  for (std::size_t i = 0; i < x.count(); ++i) {
    x.values<std::uint8_t>()[i] = static_cast<std::uint8_t>(i / 24 * 7 + i % 24);
  }
  for (std::int64_t i = 0; i < count; ++i)
    y.values<std::int64_t>()[static_cast<std::size_t>(i)] = i % 10;
  return Dataset::from_tensor_slices(std::move(x), std::move(y));
}

struct Delivered {
  std::vector<std::uint64_t> ids;
  std::uint64_t hash = 0;  // of the bytes of the batch
  bool operator==(const Delivered&) const = default;
};

// Room for one batch: float32 pictures and int32 labels, as a trainer has them.
class Room {
 public:
  explicit Room(const BatchReader& reader, std::uint64_t rows = 0) {
    if (rows == 0) rows = reader.batch_size();
    for (const ComponentSpec& component : reader.sample_spec()) {
      const bool label = component.dims.rank() == 0;
      const DType dtype = label ? DType::kInt32 : DType::kFloat32;
      storage_.emplace_back(rows * component.dims.count() * 4 / sizeof(float));
      slots_.push_back({dtype, component.dims, std::as_writable_bytes(std::span(storage_.back()))});
    }
    ids_.resize(rows);
  }

  Delivered next(BatchReader& reader, ThreadPool& pool) {
    const std::uint64_t rows = reader.fill(slots_, ids_, pool);
    Delivered batch{{ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(rows)}, 0};
    for (const Slot& slot : slots_) {
      batch.hash = XXH3_64bits_withSeed(slot.bytes.data(), rows * slot.row_bytes(), batch.hash);
    }
    return batch;
  }
  std::span<const float> floats(std::size_t component) const { return storage_[component]; }
  std::span<const Slot> slots() const { return slots_; }

 private:
  std::vector<std::vector<float>> storage_;
  std::vector<Slot> slots_;
  std::vector<std::uint64_t> ids_;
};

// Everything from where the reader stands to the end of `epochs` epochs.
inline std::vector<Delivered> drain(BatchReader& reader, ThreadPool& pool, std::uint64_t epochs,
                                    std::uint64_t rows = 0) {
  Room room(reader, rows);
  std::vector<Delivered> batches;
  while (reader.epoch() < epochs) {
    Delivered batch = room.next(reader, pool);
    if (batch.ids.empty()) {
      reader.next_epoch();
    } else {
      batches.push_back(std::move(batch));
    }
  }
  return batches;
}

inline std::vector<Delivered> run(const Dataset& dataset, int threads = 1, std::uint64_t epochs = 2,
                                  std::uint64_t seed = 5) {
  ThreadPool pool(threads);
  BatchReader reader(dataset, {.seed = seed, .threads = threads});
  return drain(reader, pool, epochs);
}

inline std::vector<std::uint64_t> ids_of(const std::vector<Delivered>& batches) {
  std::vector<std::uint64_t> ids;
  for (const Delivered& batch : batches) ids.insert(ids.end(), batch.ids.begin(), batch.ids.end());
  return ids;
}

// The text of the error that `work` throws; fails the test when it throws none.
template <typename Thrown = Error, typename Work>
std::string error_of(const Work& work) {
  try {
    work();
  } catch (const Thrown& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "threw something else: " << error.what();
    return {};
  }
  ADD_FAILURE() << "threw nothing";
  return {};
}

}  // namespace surefit::data
