// SPDX-License-Identifier: Apache-2.0
// What every verb of a pipeline is made of. A node is immutable and stateless: what it yields at a
// position depends on the position, the pass and the seed alone, so threads, prefetch and resume
// cannot change it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "surefit/data.hpp"

#include "base/env.hpp"

namespace surefit {
class ThreadPool;
}

namespace surefit::data {

// Counts the bytes a pipeline holds and refuses above the limit. Thread-safe.
class Meter {
 public:
  explicit Meter(std::uint64_t limit_bytes = ~std::uint64_t{0}) : limit_(limit_bytes) {}
  void take(std::uint64_t bytes);  // throws SystemError above the limit
  bool try_take(std::uint64_t bytes);
  void give(std::uint64_t bytes);
  std::uint64_t used_bytes() const { return used_.load(std::memory_order_relaxed); }
  std::uint64_t peak_bytes() const { return peak_.load(std::memory_order_relaxed); }
  std::uint64_t limit_bytes() const { return limit_; }

 private:
  std::uint64_t limit_;
  std::atomic<std::uint64_t> used_{0}, peak_{0};
};

// kSource: the data themselves, there before the pipeline. kFixed: taken once. kMetered: drawn from
// the reader's meter. kCache: as much as there is room for.
enum class Residence { kSource, kFixed, kMetered, kCache };

// A buffer that stays resident while a pipeline runs, for the plan's ledger.
struct LedgerEntry {
  std::string name;
  std::uint64_t bytes = 0;
  Residence residence = Residence::kFixed;
};

// An element of a node: the `index`-th of its `pass`-th run through. Passes count from 0.
struct Position {
  std::uint64_t index = 0;
  std::uint64_t pass = 0;
};

// Time spent in one node by one thread, for explain().
struct ServiceTime {
  std::uint64_t calls = 0;
  double seconds = 0;
};

class Worker;
class Quarantine;
class ReaderCache;
class StreamResizer;
class DecoderMemory;

// The pool and one worker for each of its threads.
struct Team {
  ThreadPool* pool = nullptr;
  std::vector<Worker>* workers = nullptr;  // as many as threads, or fewer
};

// What one thread works with: reusable samples for inner nodes, the run's seed, and its clock
// sheet. Not synchronised.
class Worker {
 public:
  Worker(std::uint64_t seed, Meter& meter, Env& env);
  ~Worker();
  Worker(Worker&&) noexcept;

  std::uint64_t seed() const { return seed_; }
  Meter& meter() { return *meter_; }
  Env& env() { return *env_; }
  StreamResizer& resizer() { return *resizer_; }
  DecoderMemory& decoder() { return *decoder_; }
  std::string& text() { return text_; }  // a scratch string whose memory is reused
  void charge(std::uint32_t op, double seconds);
  void charge_io(double seconds) {
    io_seconds_ += seconds;
  }  // part of some op's time spent on files
  double io_seconds() const { return io_seconds_; }
  // When it last finished something, on the monotonic clock: whoever is done early waits.
  double busy_until() const { return busy_until_; }
  void set_busy_until(double seconds) { busy_until_ = seconds; }
  const std::vector<ServiceTime>& times() const { return times_; }
  void forget_times();

  // Set only on the first worker and only outside parallel work, because calls to the pool must not
  // nest.
  Team* team() const { return team_; }
  void set_team(Team* team) { team_ = team; }
  // Set on workers that only find out types: what they draw has the wrong seed and must not be
  // kept.
  bool probing() const { return probing_; }
  void set_probing() { probing_ = true; }
  ReaderCache* cache() const { return cache_; }
  void set_cache(ReaderCache* cache) { cache_ = cache; }
  Quarantine* quarantine() const { return quarantine_; }
  void set_quarantine(Quarantine* quarantine) { quarantine_ = quarantine; }

  // A scratch sample for the duration of a scope; nested scopes get different ones.
  class Lease {
   public:
    explicit Lease(Worker& worker) : worker_(worker), sample_(worker.lend()) {}
    ~Lease() { --worker_.lent_; }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Sample& operator*() { return sample_; }

   private:
    Worker& worker_;
    Sample& sample_;
  };

 private:
  Sample& lend();

  std::uint64_t seed_;
  Meter* meter_;
  Env* env_;
  Team* team_ = nullptr;
  Quarantine* quarantine_ = nullptr;
  ReaderCache* cache_ = nullptr;
  std::vector<ServiceTime> times_;
  double io_seconds_ = 0, busy_until_ = 0;
  bool probing_ = false;
  std::vector<std::unique_ptr<Sample>> samples_;
  std::unique_ptr<StreamResizer> resizer_;
  std::unique_ptr<DecoderMemory> decoder_;
  std::string text_;
  std::size_t lent_ = 0;
};

// One run through a node that cannot be indexed.
class Cursor {
 public:
  virtual ~Cursor() = default;
  virtual bool next(Sample& out, Worker& worker) = 0;  // false at the end, and from then on
  // Drops up to `count` elements, as cheaply as it can.
  virtual void skip(std::uint64_t count, Worker& worker);
};

class Node : public std::enable_shared_from_this<Node> {
 public:
  // kTransparent: the node changes no bits, so it may come and go without renumbering the random
  // ones.
  enum class Kind { kMeaningful, kTransparent };
  explicit Node(std::vector<std::shared_ptr<const Node>> inputs, Kind kind = Kind::kMeaningful);
  virtual ~Node() = default;

  const std::vector<std::shared_ptr<const Node>>& inputs() const { return inputs_; }
  const Node& input(std::size_t which = 0) const { return *inputs_[which]; }
  // Number of this node within its pipeline, by structure alone: keys randomness and clock sheets.
  std::uint32_t op() const { return op_; }

  virtual std::string describe() const = 0;  // this verb alone: "batch(32)"
  virtual std::vector<ComponentSpec> spec() const = 0;
  virtual std::optional<std::uint64_t> size()
      const = 0;                       // elements per pass; kInfiniteCardinality; nothing = unknown
  virtual bool random_access() const;  // default: when all inputs are
  virtual std::uint64_t fingerprint() const { return 0; }  // of a source's contents; 0 for verbs
  bool transparent() const { return transparent_; }        // a resumed run may have it or not

  // Random access only; thread-safe for different workers. `at.index` is below size().
  virtual void read(Position at, Sample& out, Worker& worker) const;
  // Verbs that only choose positions rewrite `at` and return the input it now refers to; others
  // return null.
  virtual const Node* forward(Position& at, std::uint64_t seed) const;
  // The stable number of the sample at a position and the pass of its source, without reading it.
  virtual Position locate(Position at, std::uint64_t seed) const;
  virtual std::unique_ptr<Cursor> open(std::uint64_t pass, Worker& worker) const;
  // A hint that these bytes will be wanted soon.
  virtual void will_need(Position at, Worker& worker) const;

  // A verb that changes one element at a time, whatever its position, applies itself here.
  virtual bool elementwise() const { return false; }
  virtual void apply(Sample& sample, Worker& worker) const;
  // False when what it does to an element depends on the epoch: its results may not be cached.
  virtual bool deterministic() const { return true; }
  // Another pass may bring other elements or another order.
  virtual bool varies() const;
  // Gives a cache in this node less room than it would take by itself.
  virtual void limit_cache(std::uint64_t) const {}
  virtual bool holds_cache() const { return false; }
  virtual std::int64_t prefetch_depth() const {
    return 0;
  }  // what a prefetch verb asks for; AUTOTUNE or batches

  virtual std::vector<LedgerEntry> buffers() const { return {}; }
  // Of a source: up to `count` samples that take most memory to prepare, where that can be told
  // without reading them.
  virtual std::vector<std::uint64_t> heaviest(std::uint64_t) const { return {}; }
  // Of a source: reading a sample costs no more than copying it, so keeping copies gains nothing.
  virtual bool only_copies() const { return false; }

 private:
  std::vector<std::shared_ptr<const Node>> inputs_;
  std::uint32_t op_ = 0;
  bool transparent_ = false;
};

// The element at a position of an elementwise node: from the reader's cache when that sits here,
// else read and applied.
void read_elementwise(const Node& node, Position at, Sample& out, Worker& worker);

// The cursor of an elementwise node: its input's, with apply() on top.
std::unique_ptr<Cursor> open_elementwise(const Node& node, std::uint64_t pass, Worker& worker);

using NodePtr = std::shared_ptr<const Node>;

// Makers, one per file.
NodePtr make_arrays(std::vector<Tensor> components);
NodePtr make_range(std::uint64_t count);
NodePtr make_shuffle(NodePtr input, std::uint64_t buffer_size, ShuffleOptions options);
NodePtr make_take(NodePtr input, std::uint64_t count);
NodePtr make_skip(NodePtr input, std::uint64_t count);
NodePtr make_repeat(NodePtr input, std::optional<std::uint64_t> count);
NodePtr make_prefetch(NodePtr input, std::int64_t buffer_size);
NodePtr make_map(NodePtr input, MapFunction function, MapOptions options);
NodePtr make_random_map(NodePtr input, RandomMapFunction function, MapOptions options);
NodePtr make_transform(NodePtr input, const Transform& transform, std::int64_t num_parallel_calls);
NodePtr make_generator(GeneratorFactory factory, std::vector<ComponentSpec> spec);
NodePtr make_filter(NodePtr input, FilterFunction keep);
NodePtr make_stream_shuffle(NodePtr input, std::uint64_t buffer_size, ShuffleOptions options);
NodePtr make_interleave(NodePtr input, std::function<Dataset(const Sample&)> function,
                        InterleaveOptions options);
NodePtr make_zip(NodePtr first, NodePtr second);
NodePtr make_concatenate(NodePtr first, NodePtr second);
NodePtr make_enumerate(NodePtr input, std::int64_t start);
NodePtr make_cache(NodePtr input, CacheOptions options);
NodePtr make_batch(NodePtr input, std::uint64_t batch_size, BatchOptions options);

// The whole pipeline from source to `node`: "arrays(60000) > shuffle(60000) > batch(32)".
// kOnlyMeaning: without the verbs that change no bits.
enum class Describe { kAll, kOnlyMeaning };
std::string describe_pipeline(const Node& node, Describe what = Describe::kAll);
// "sample 17 (photos/cat/3.jpg)"
std::string describe_sample(const Sample& sample);
// A file that is missing or cannot be read, rather than a machine at its limits.
bool is_about_files(const SystemError& error);
// Rethrows the exception being handled with the sample added to its text. Trouble with its file
// becomes a DataError.
[[noreturn]] void rethrow_with_sample(const std::string& where, const Sample& sample);

}  // namespace surefit::data
