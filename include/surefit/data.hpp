// SPDX-License-Identifier: Apache-2.0
// Input pipelines with tf.data's verbs. A Dataset is an immutable, cheap-to-copy description;
// nothing is read until it is iterated. Sources that can be indexed stay indexable through shuffle,
// map, batch, take, skip, repeat, zip and concatenate: their position is a number, resuming costs
// nothing, and a full shuffle needs no memory.
//
// Same bits: what comes out depends on the seed, the epoch and the sample alone, never on threads,
// prefetch depth, cache or resumes. Errors name the sample and, where there is one, its file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "surefit/error.hpp"
#include "surefit/tensor.hpp"

namespace surefit {

namespace data {
class Node;
class Meter;
class BatchReader;
}  // namespace data

// "Choose for me": accepted wherever tf.data accepts it.
inline constexpr std::int64_t AUTOTUNE = -1;
inline constexpr std::uint64_t kInfiniteCardinality = ~std::uint64_t{0};

// Extents of one component, held inline so that samples allocate nothing. -1 is "varies".
class Dims {
 public:
  static constexpr std::size_t kMaxRank = 8;
  Dims() = default;
  Dims(std::initializer_list<std::int64_t> extents)
      : Dims(std::span(extents.begin(), extents.size())) {}
  explicit Dims(std::span<const std::int64_t> extents);
  explicit Dims(const Shape& shape) : Dims(shape.dims()) {}

  std::size_t rank() const { return rank_; }
  std::int64_t operator[](std::size_t axis) const;  // throws ConfigError when axis >= rank()
  std::span<const std::int64_t> values() const { return {extents_.data(), rank_}; }
  std::size_t count() const;               // elements; a varying extent counts as 0
  bool fixed() const;                      // no extent varies
  bool accepts(const Dims& actual) const;  // equal where this one is fixed
  Dims prepend(std::int64_t extent) const;
  Shape shape() const;            // throws ConfigError when an extent varies
  std::string to_string() const;  // "(None, 224, 224, 3)"
  bool operator==(const Dims&) const = default;

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  std::size_t rank_ = 0;
};

// What one component of an element looks like.
struct ComponentSpec {
  DType dtype = DType::kFloat32;
  Dims dims;
  bool operator==(const ComponentSpec&) const = default;
};
std::string to_string(const std::vector<ComponentSpec>& spec);

// Random numbers of one (seed, map, epoch, sample). Draws follow each other; two maps never share a
// stream.
class Random {
 public:
  Random(std::uint64_t seed, std::uint32_t op, std::uint64_t epoch, std::uint64_t sample)
      : seed_(seed), op_(op), epoch_(epoch), sample_(sample) {}
  std::uint32_t word();
  float uniform();                           // [0, 1)
  float uniform(float low, float high);      // [low, high)
  std::uint32_t below(std::uint32_t bound);  // [0, bound)

 private:
  std::uint64_t seed_;
  std::uint32_t op_;
  std::uint64_t epoch_, sample_;
  std::uint64_t next_ = 0;
};

// One component of a sample on its way through the pipeline: a typed array that reuses its memory
// from sample to sample. Text and file contents are uint8 vectors.
class Field {
 public:
  struct Replaced {
    std::span<const std::byte> old_bytes;  // the contents so far, readable until the next replace()
    std::span<std::byte> bytes;            // the new contents, not initialised
  };

  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const;  // a uint8 vector as characters

  // Elements in row-major order; throw ConfigError when T is not the component's type.
  template <typename T>
  std::span<const T> values() const {
    require(dtype_of<T>());
    return {reinterpret_cast<const T*>(data_), size_ / sizeof(T)};
  }
  template <typename T>
  std::span<T> mutable_values() {
    require(dtype_of<T>());
    return {reinterpret_cast<T*>(own()), size_ / sizeof(T)};
  }

  // New type, extents and storage. Throws SystemError when the pipeline's byte budget does not
  // allow it.
  Replaced replace(DType dtype, const Dims& dims);
  void reshape(const Dims& dims);  // other extents of the same contents; throws ConfigError when
                                   // counts differ
  void assign(const Tensor& tensor);
  void assign(std::string_view text);
  template <typename T>
  void assign_scalar(T value) {
    const Replaced storage = replace(dtype_of<T>(), {});
    *reinterpret_cast<T*>(storage.bytes.data()) = value;
  }
  Tensor tensor() const;  // a copy

  // For sources and the batch assembler.
  void borrow(DType dtype, const Dims& dims,
              const std::byte* data);  // contents owned by somebody who outlives this
  void offer(DType dtype,
             std::span<std::byte> target);  // where a result of that size may be written
  void make_own() { own(); }                // copies contents that are borrowed
  void copy_from(const Field& other);
  void swap_contents(Field& other) noexcept;
  void release();  // gives the memory back
  void bind(data::Meter* meter) { meter_ = meter; }

  Field() = default;
  ~Field();
  Field(Field&& other) noexcept;
  Field(const Field&) = delete;
  Field& operator=(const Field&) = delete;
  Field& operator=(Field&&) = delete;

 private:
  struct Block {
    std::byte* data = nullptr;
    std::size_t capacity = 0;
  };
  void require(DType dtype) const;
  std::byte* own();  // copies borrowed contents before they are written to
  std::byte* reserve(Block& block, std::size_t bytes);

  DType dtype_ = DType::kFloat32;
  Dims dims_{0};
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::array<Block, 2> blocks_;
  std::byte* target_ = nullptr;
  DType target_dtype_ = DType::kFloat32;
  std::size_t target_bytes_ = 0;
  data::Meter* meter_ = nullptr;
};

// What a map sees: the components of one element, and where it came from. Valid only during the
// call.
class Sample {
 public:
  std::size_t size() const { return size_; }
  Field& operator[](std::size_t component);  // throws ConfigError when there is no such component
  const Field& operator[](std::size_t component) const;
  void resize(std::size_t components);

  std::uint64_t index() const { return index_; }  // stable number of the sample in its source
  std::uint64_t epoch() const {
    return epoch_;
  }  // how often the source has been gone through before
  const std::string& path() const { return path_; }  // empty when it came from no file

  void place(std::uint64_t index, std::uint64_t epoch) {
    index_ = index;
    epoch_ = epoch;
  }
  void set_path(std::string_view path) { path_.assign(path); }
  // Of a batch: the numbers of its samples.
  std::span<std::uint64_t> set_rows(std::size_t count) {
    rows_.resize(count);
    return rows_;
  }
  std::span<const std::uint64_t> rows() const { return rows_; }
  void copy_from(const Sample& other);
  void swap_contents(Sample& other) noexcept;
  std::vector<ComponentSpec> spec() const;

  explicit Sample(data::Meter* meter = nullptr) : meter_(meter) {}

 private:
  std::vector<Field> fields_;
  std::size_t size_ = 0;
  std::uint64_t index_ = 0, epoch_ = 0;
  std::string path_;
  std::vector<std::uint64_t> rows_;
  data::Meter* meter_;
};

// One element of a dataset in a user's own loop, e.g. a batch: its components as tensors.
class Element {
 public:
  std::size_t size() const { return components_.size(); }
  const Tensor& operator[](std::size_t component) const { return components_.at(component); }
  // const auto& [x, y] = element.pair();
  std::pair<const Tensor&, const Tensor&> pair() const {
    return {components_.at(0), components_.at(1)};
  }
  std::span<const std::uint64_t> ids() const {
    return ids_;
  }  // stable sample numbers, of a batch one per row

 private:
  friend class DatasetIterator;
  std::vector<Tensor> components_;
  std::vector<std::uint64_t> ids_;
};

struct ShuffleOptions {
  std::optional<std::uint64_t> seed = {};  // default: the seed of the run
  bool reshuffle_each_iteration = true;    // another order in every epoch
};

struct MapOptions {
  // AUTOTUNE: called from as many threads as the pool has. 1: never called concurrently, for
  // callables that share state. The order of calls is not defined in either case.
  std::int64_t num_parallel_calls = AUTOTUNE;
  std::string name = "map";  // in errors and explanations
};

struct CacheOptions {
  // Empty: in memory. Else a file that is made when missing, survives crashes, and is used again by
  // the next run.
  std::string file = {};
  // Most bytes in memory; what does not fit is read again in every epoch. Default: half of the
  // memory available now.
  std::optional<std::uint64_t> budget_bytes = {};
};

struct InterleaveOptions {
  std::uint64_t cycle_length = 4;  // inputs open at a time
  std::uint64_t block_length = 1;  // elements from one before the next
};

struct BatchOptions {
  bool drop_remainder = false;
};

// What fit() and its kin do with the samples of a Dataset on their way into the model.

// Where prepared samples stay between epochs. kAuto: in memory as far as the budget allows, at the
// last place where they do not depend on the epoch, when preparing them is more than copying.
// kMemory: all of them, or refuse. kFile: in `cache_file`, which survives crashes.
enum class CacheMode { kOff, kAuto, kMemory, kFile };

enum class OnBadSample { kFail, kSkip };

struct BadSample {
  std::uint64_t id = 0;  // stable number of the sample in its source
  std::string path;      // empty when it came from no file
  std::string cause;
};

inline constexpr std::uint64_t kPlannedBytes =
    ~std::uint64_t{0};  // what the pipeline finds it needs

struct InputOptions {
  int workers = 0;  // threads of the pool that prepare samples; 0: all of them. Changes no bits.
  CacheMode cache = CacheMode::kOff;
  std::string cache_file = {};
  // For decoding, shuffling and caching together; never exceeded. What a source itself keeps in
  // memory (arrays, names of files) comes on top.
  std::uint64_t budget_bytes = kPlannedBytes;
  OnBadSample on_bad_sample = OnBadSample::kFail;
  double max_bad_share = 0.01;  // kSkip stops the run above this share of the data
  // Told once of every bad sample that is skipped; called by one thread at a time.
  std::function<void(const BadSample&)> report_bad = {};
};

using MapFunction = std::function<void(Sample&)>;
using RandomMapFunction =
    std::function<void(Sample&, Random&)>;  // randomness keyed by (seed, epoch, sample)

using FilterFunction = std::function<bool(const Sample&)>;
// Writes the next element and returns true, or returns false at the end.
using Generator = std::function<bool(Sample&)>;
using GeneratorFactory = std::function<Generator()>;

class DatasetIterator;
class Transform;  // surefit/image.hpp

class Dataset {
 public:
  // Slices along the first axis. The tensors are shared by all copies of the Dataset. Throws
  // ConfigError when their first extents differ.
  static Dataset from_tensor_slices(std::vector<Tensor> components);
  static Dataset from_tensor_slices(Tensor x) { return from_tensor_slices(pack(std::move(x))); }
  static Dataset from_tensor_slices(Tensor x, Tensor y) {
    return from_tensor_slices(pack(std::move(x), std::move(y)));
  }
  static Dataset from_tensor_slices(Tensor x, Tensor y, Tensor sample_weight) {
    return from_tensor_slices(pack(std::move(x), std::move(y), std::move(sample_weight)));
  }
  static Dataset range(std::uint64_t count);  // int64 scalars 0 ... count - 1

  // Serial code of the user's, started anew for every epoch by `factory`. What it yields is checked
  // against `spec`. For resuming, it is run again and what came before is dropped, so it must yield
  // the same again.
  static Dataset from_generator(GeneratorFactory factory, std::vector<ComponentSpec> spec);
  // The same for generators that return std::optional<std::vector<Tensor>>.
  using TensorGenerator = std::function<std::optional<std::vector<Tensor>>()>;
  static Dataset from_generator(std::function<TensorGenerator()> factory,
                                std::vector<ComponentSpec> spec);

  // Elements of both, component after component; as long as the shorter one.
  static Dataset zip(const Dataset& first, const Dataset& second);

  // tf.data's buffer semantics over indices: element p of the result is among the first p +
  // buffer_size of the input. When everything fits in the buffer the order is a keyed permutation
  // that needs no memory.
  Dataset shuffle(std::uint64_t buffer_size, ShuffleOptions options = {}) const;
  Dataset map(MapFunction function, MapOptions options = {}) const;
  Dataset map(MapFunction function, std::int64_t num_parallel_calls) const;
  Dataset map(RandomMapFunction function, MapOptions options = {}) const;
  Dataset map(const Transform& transform, std::int64_t num_parallel_calls = AUTOTUNE) const;
  Dataset batch(std::uint64_t batch_size, BatchOptions options = {}) const;
  Dataset filter(FilterFunction keep) const;  // makes a stream: how many pass is not known before
  Dataset concatenate(const Dataset& next) const;
  Dataset enumerate(std::int64_t start = 0) const;  // puts an int64 counter before the components
  // One dataset per element, their elements in turns.
  Dataset interleave(std::function<Dataset(const Sample&)> function,
                     InterleaveOptions options = {}) const;
  // Keeps the elements of the first pass, as tf.data: what is random below becomes fixed.
  Dataset cache(CacheOptions options = {}) const;
  Dataset take(std::uint64_t count) const;
  Dataset skip(std::uint64_t count) const;
  Dataset repeat(
      std::optional<std::uint64_t> count = std::nullopt) const;  // without a count: for ever
  Dataset prefetch(std::int64_t buffer_size = AUTOTUNE) const;   // reads ahead; changes no bits

  // Elements per epoch, kInfiniteCardinality, or nothing when only running tells.
  std::optional<std::uint64_t> cardinality() const;
  // Type and extents of the components. A map of the user's is run on the first element to find
  // out.
  std::vector<ComponentSpec> element_spec() const;
  bool random_access() const;    // any position can be reached at once
  std::string describe() const;  // "arrays(60000) > shuffle(60000) > batch(32)"

  // for (const Element& batch : dataset). One pass; the dataset outlives the loop's iterators.
  DatasetIterator begin() const;
  std::default_sentinel_t end() const { return {}; }

  explicit Dataset(std::shared_ptr<const data::Node> node) : node_(std::move(node)) {}
  const std::shared_ptr<const data::Node>& node() const { return node_; }

 private:
  template <typename... T>
  static std::vector<Tensor> pack(T&&... tensors) {
    std::vector<Tensor> components;
    components.reserve(sizeof...(tensors));
    (components.push_back(std::forward<T>(tensors)), ...);
    return components;
  }

  std::shared_ptr<const data::Node> node_;
};

struct IterateOptions {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  int threads = 1;
};

class DatasetIterator {
 public:
  using value_type = Element;
  using difference_type = std::ptrdiff_t;

  explicit DatasetIterator(const Dataset& dataset, IterateOptions options = {});
  ~DatasetIterator();
  DatasetIterator(DatasetIterator&&) noexcept;
  DatasetIterator& operator=(DatasetIterator&&) noexcept;

  const Element& operator*() const { return element_; }
  const Element* operator->() const { return &element_; }
  DatasetIterator& operator++();
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return done_; }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  Element element_;
  bool done_ = false;
};

}  // namespace surefit
