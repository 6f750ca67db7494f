// SPDX-License-Identifier: Apache-2.0
#include "data/cache.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/check.hpp"
#include "base/units.hpp"
#include "data/state.hpp"

namespace surefit::data {
namespace {

class MemoryStore final : public CacheStore {
 public:
  MemoryStore(std::uint64_t samples, std::uint64_t limit_bytes)
      : samples_(samples), meter_(std::make_unique<Meter>(limit_bytes)) {}

  bool find(std::uint64_t key, Sample& out, Worker&) override {
    if (!ready_.load(std::memory_order_acquire) || key >= samples_) return false;
    if (states_[key].load(std::memory_order_acquire) != kReady) return false;
    entries_[key].lend(out);
    return true;
  }

  void keep(std::uint64_t key, const Sample& sample, Worker&) override {
    if (full_.load(std::memory_order_relaxed) || key >= samples_ || !prepare()) return;
    std::uint8_t expected = kEmpty;
    if (!states_[key].compare_exchange_strong(expected, kBusy, std::memory_order_acquire)) return;
    if (entries_[key].try_pack(sample, *meter_)) {
      kept_.fetch_add(1, std::memory_order_relaxed);
      states_[key].store(kReady, std::memory_order_release);
    } else {
      // A smaller one might still fit, but then what is kept would depend on the order of threads
      // for long.
      full_.store(true, std::memory_order_relaxed);
      states_[key].store(kEmpty, std::memory_order_release);
    }
  }

  std::uint64_t kept() const override { return kept_.load(std::memory_order_relaxed); }
  std::uint64_t memory_bytes() const override { return meter_->used_bytes(); }
  std::uint64_t limit_bytes() const override { return meter_->limit_bytes(); }
  void limit(std::uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (!ready_ && bytes < meter_->limit_bytes()) meter_ = std::make_unique<Meter>(bytes);
  }
  std::string describe() const override {
    return fmt::format("memory, {} of {} samples, {} of at most {}", kept(), samples_,
                       format_bytes(memory_bytes()), format_bytes(meter_->limit_bytes()));
  }

 private:
  static constexpr std::uint8_t kEmpty = 0, kBusy = 1, kReady = 2;

  bool prepare() {
    if (ready_.load(std::memory_order_acquire)) return true;
    const std::lock_guard lock(mutex_);
    if (ready_.load(std::memory_order_relaxed)) return true;
    if (!meter_->try_take(samples_ * (sizeof(Packed) + 1))) {
      full_ = true;
      return false;
    }
    entries_ = std::vector<Packed>(samples_);
    states_ = std::vector<std::atomic<std::uint8_t>>(samples_);
    ready_.store(true, std::memory_order_release);
    return true;
  }

  std::uint64_t samples_;
  std::unique_ptr<Meter> meter_;
  std::vector<Packed> entries_;
  std::vector<std::atomic<std::uint8_t>> states_;
  std::atomic<bool> ready_{false}, full_{false};
  std::atomic<std::uint64_t> kept_{0};
  std::mutex mutex_;
};

// [header, 64 bytes][records]. A record is [hash][packed sample]: one that was torn by a crash, or
// never written, does not match its hash and is simply prepared again, so no syncing is needed.
class FileStore final : public CacheStore {
 public:
  FileStore(std::string path, std::uint64_t samples, const std::vector<ComponentSpec>& spec,
            std::uint64_t fingerprint)
      : path_(std::move(path)), samples_(samples), packed_bytes_(packed_bytes(spec)) {
    header_ = {kMagic, fingerprint, samples, packed_bytes_};
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file_ < 0) fail("open", errno);
    try {
      check_header();
    } catch (...) {
      ::close(file_);
      throw;
    }
  }
  ~FileStore() override { ::close(file_); }
  FileStore(const FileStore&) = delete;
  FileStore& operator=(const FileStore&) = delete;

  bool find(std::uint64_t key, Sample& out, Worker& worker) override {
    if (key >= samples_) return false;
    Worker::Lease lease(worker);
    (*lease).resize(1);
    const std::span<std::byte> record =
        (*lease)[0].replace(DType::kUInt8, {static_cast<std::int64_t>(stride())}).bytes;
    if (::pread(file_, record.data(), record.size(), offset(key)) !=
        static_cast<ssize_t>(record.size()))
      return false;
    if (!valid(record) || !lend_packed(record.subspan(sizeof(std::uint64_t)), out)) return false;
    // The record is borrowed only until the lease ends.
    for (std::size_t i = 0; i < out.size(); ++i) out[i].make_own();
    return true;
  }

  void keep(std::uint64_t key, const Sample& sample, Worker& worker) override {
    if (key >= samples_ || full_.load(std::memory_order_relaxed)) return;
    Worker::Lease lease(worker), bare(worker);
    borrow_without_path(sample, *bare);
    if (Packed::bytes_for(*bare) != packed_bytes_) return;  // not as declared; batch will say so
    (*lease).resize(1);
    const std::span<std::byte> record =
        (*lease)[0].replace(DType::kUInt8, {static_cast<std::int64_t>(stride())}).bytes;
    write_packed(*bare, record.subspan(sizeof(std::uint64_t)));
    const std::uint64_t hash = hash_of(record);
    std::memcpy(record.data(), &hash, sizeof hash);
    if (::pwrite(file_, record.data(), record.size(), offset(key)) !=
        static_cast<ssize_t>(record.size())) {
      full_.store(true, std::memory_order_relaxed);  // a full disk costs speed, not the run
      return;
    }
    kept_.fetch_add(1, std::memory_order_relaxed);
  }

  std::uint64_t kept() const override { return kept_.load(std::memory_order_relaxed); }
  std::uint64_t memory_bytes() const override { return 0; }
  std::uint64_t limit_bytes() const override { return 0; }
  void limit(std::uint64_t) override {}
  std::string describe() const override {
    return fmt::format("file {}, {} samples written in this run{}", path_, kept(),
                       full_.load() ? ", stopped: the disk is full" : "");
  }

 private:
  static constexpr std::uint64_t kMagic = 0x3145484341434653;  // "SFCACHE1"
  static constexpr std::size_t kHeaderBytes = 64;
  struct Header {
    std::uint64_t magic = 0, fingerprint = 0, samples = 0, packed_bytes = 0;
    bool operator==(const Header&) const = default;
  };

  [[noreturn]] void fail(const char* what, int error) const {
    throw SystemError(
        fmt::format("[{}] cannot {} the cache file: {}", path_, what, std::strerror(error)), error);
  }

  void check_header() {
    Header found;
    const ssize_t got = ::pread(file_, &found, sizeof found, 0);
    if (got < 0) fail("read", errno);
    if (got == 0) {
      if (::pwrite(file_, &header_, sizeof header_, 0) != static_cast<ssize_t>(sizeof header_))
        fail("write", errno);
      return;
    }
    if (got != static_cast<ssize_t>(sizeof found) || !(found == header_)) {
      throw DataError(
          fmt::format(
              "[{}] the cache file belongs to other data or another pipeline; expected {} samples "
              "of {} bytes, fingerprint {:016x}; got {} of {}, {:016x}; delete it or name another",
              path_, header_.samples, header_.packed_bytes, header_.fingerprint, found.samples,
              found.packed_bytes, found.fingerprint),
          path_);
    }
  }

  std::size_t stride() const { return sizeof(std::uint64_t) + packed_bytes_; }
  off_t offset(std::uint64_t key) const {
    return static_cast<off_t>(kHeaderBytes + key * stride());
  }
  static std::uint64_t hash_of(std::span<const std::byte> record) {
    const std::span<const std::byte> body = record.subspan(sizeof(std::uint64_t));
    return XXH3_64bits_withSeed(body.data(), body.size(), kMagic);
  }
  static bool valid(std::span<const std::byte> record) {
    std::uint64_t stored = 0;
    std::memcpy(&stored, record.data(), sizeof stored);
    return stored == hash_of(record);
  }

  std::string path_;
  std::uint64_t samples_;
  std::size_t packed_bytes_ = 0;
  Header header_;
  int file_ = -1;
  std::atomic<bool> full_{false};
  std::atomic<std::uint64_t> kept_{0};
};

}  // namespace

std::unique_ptr<CacheStore> make_memory_store(std::uint64_t samples, std::uint64_t limit_bytes) {
  return std::make_unique<MemoryStore>(samples, limit_bytes);
}

std::unique_ptr<CacheStore> make_file_store(const std::string& path, std::uint64_t samples,
                                            const std::vector<ComponentSpec>& spec,
                                            std::uint64_t fingerprint) {
  for (const ComponentSpec& component : spec) {
    if (!component.dims.fixed()) {
      throw ConfigError(
          fmt::format("[cache] a file needs samples of one size; got {}; resize before cache",
                      to_string(spec)));
    }
  }
  return std::make_unique<FileStore>(path, samples, spec, fingerprint);
}

void ReaderCache::read(Position at, Sample& out, Worker& worker) {
  const Position place = node_.locate(at, worker.seed());
  if (store_->find(place.index, out, worker)) {
    out.place(place.index, place.pass);
    return;
  }
  node_.input().read(at, out, worker);
  node_.apply(out, worker);
  store_->keep(place.index, out, worker);
}

const Node* find_cache_place(const Node& top) {
  std::vector<const Node*> chain;
  for (const Node* node = &top;; node = &node->input()) {
    chain.push_back(node);
    if (node->inputs().empty()) break;
    if (node->inputs().size() > 1) return nullptr;
  }
  const Node* place = nullptr;
  const Node* bytes_place = nullptr;
  for (auto node = chain.rbegin(); node != chain.rend(); ++node) {
    Position probe{0, 0};
    const bool selects =
        (*node)->inputs().empty() ||
        ((*node)->random_access() && (*node)->size() != 0 && (*node)->forward(probe, 0) != nullptr);
    if (selects) continue;
    if (!(*node)->elementwise() || !(*node)->deterministic() || !(*node)->random_access()) break;
    const std::vector<ComponentSpec> spec = (*node)->spec();
    if (element_bytes(spec) == 0) continue;
    place = *node;
    if (spec[0].dtype == DType::kUInt8) bytes_place = *node;
  }
  return bytes_place != nullptr ? bytes_place : place;
}

const Node& source_of(const Node& node) {
  const Node* source = &node;
  while (!source->inputs().empty()) source = &source->input();
  return *source;
}

std::uint64_t element_bytes(const std::vector<ComponentSpec>& spec) {
  std::uint64_t bytes = 0;
  for (const ComponentSpec& component : spec) {
    if (!component.dims.fixed()) return 0;
    bytes += component.dims.count() * size_of(component.dtype);
  }
  return bytes;
}

std::uint64_t fingerprint_of(const Node& node) {
  State state = describe_state(node);
  for (const State::Source& source : state.sources) {
    state.pipeline_hash =
        XXH3_64bits_withSeed(&source.fingerprint, sizeof source.fingerprint, state.pipeline_hash);
  }
  return state.pipeline_hash;
}

std::uint64_t available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::uint64_t kilobytes = 0;
  while (file >> name >> kilobytes) {
    if (name == "MemAvailable:") return kilobytes << 10;
    file.ignore(1000, '\n');
  }
  return std::uint64_t{1} << 30;
}

}  // namespace surefit::data
