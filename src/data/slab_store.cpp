// SPDX-License-Identifier: Apache-2.0
// Samples of one size in one mapping: its bytes are known before the first sample comes, and
// keeping one allocates nothing.
#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <sys/mman.h>

#include "base/units.hpp"
#include "data/cache.hpp"

namespace surefit::data {
namespace {

class SlabStore final : public CacheStore {
 public:
  SlabStore(std::uint64_t samples, const std::vector<ComponentSpec>& spec,
            std::uint64_t limit_bytes)
      : samples_(samples),
        stride_((packed_bytes(spec) + 15) & ~std::size_t{15}),
        most_bytes_(limit_bytes) {
    limit(limit_bytes);
  }
  ~SlabStore() override {
    if (slab_ != nullptr) ::munmap(slab_, slab_bytes());
  }
  SlabStore(const SlabStore&) = delete;
  SlabStore& operator=(const SlabStore&) = delete;

  bool find(std::uint64_t key, Sample& out, Worker&) override {
    if (!ready_.load(std::memory_order_acquire) || key >= samples_) return false;
    const std::uint32_t place = places_[key].load(std::memory_order_acquire);
    if (place == kEmpty || place == kBusy) return false;
    return lend_packed(record(place - 1), out);
  }

  void keep(std::uint64_t key, const Sample& sample, Worker& worker) override {
    if (capacity_ == 0 || key >= samples_) return;
    prepare();
    if (next_.load(std::memory_order_relaxed) >= capacity_) return;
    Worker::Lease bare(worker);
    borrow_without_path(sample, *bare);
    if (Packed::bytes_for(*bare) > stride_) return;  // not as declared; batch will say so
    std::uint32_t expected = kEmpty;
    if (!places_[key].compare_exchange_strong(expected, kBusy, std::memory_order_acquire)) return;
    const std::uint64_t place = next_.fetch_add(1, std::memory_order_relaxed);
    if (place >= capacity_) {
      places_[key].store(kEmpty, std::memory_order_release);
      return;
    }
    write_packed(*bare, record(place).first(Packed::bytes_for(*bare)));
    places_[key].store(static_cast<std::uint32_t>(place + 1), std::memory_order_release);
  }

  std::uint64_t kept() const override {
    return std::min(next_.load(std::memory_order_relaxed), capacity_);
  }
  std::uint64_t memory_bytes() const override {
    return ready_.load(std::memory_order_acquire) ? limit_bytes() : 0;
  }
  std::uint64_t limit_bytes() const override {
    return capacity_ == 0 ? 0 : slab_bytes() + samples_ * sizeof places_[0];
  }
  void limit(std::uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (ready_) return;
    const std::uint64_t table = samples_ * sizeof places_[0];
    constexpr std::uint64_t kPage = 4096, kMost = 0xFFFFFFF0u;
    bytes = std::min(bytes, most_bytes_);
    const std::uint64_t room = bytes > table + kPage ? bytes - table - kPage : 0;
    capacity_ = std::min({samples_, room / stride_, kMost});
  }
  void commit() override {
    if (capacity_ == 0) return;
    prepare();
    constexpr std::size_t kPage = 4096;
    volatile std::byte* bytes = slab_;
    for (std::size_t at = 0; at < slab_bytes(); at += kPage) bytes[at] = bytes[at];
  }
  std::string describe() const override {
    return fmt::format("memory, {} of {} samples, room for {} in {}", kept(), samples_, capacity_,
                       format_bytes(limit_bytes()));
  }

 private:
  static constexpr std::uint32_t kEmpty = 0, kBusy = 0xFFFFFFFFu;  // else: number of the record + 1

  std::size_t slab_bytes() const { return (capacity_ * stride_ + 4095) & ~std::size_t{4095}; }
  std::span<std::byte> record(std::uint64_t place) const {
    return {slab_ + place * stride_, stride_};
  }

  void prepare() {
    if (ready_.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(mutex_);
    if (ready_.load(std::memory_order_relaxed)) return;
    void* memory =
        ::mmap(nullptr, slab_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      throw SystemError(fmt::format("[cache] the system refused {}; lower the budget or use "
                                    "--cache none",
                                    format_bytes(slab_bytes())),
                        ENOMEM);
    }
    slab_ = static_cast<std::byte*>(memory);
    places_ = std::vector<std::atomic<std::uint32_t>>(samples_);
    ready_.store(true, std::memory_order_release);
  }

  std::uint64_t samples_;
  std::size_t stride_;
  std::uint64_t most_bytes_;
  std::uint64_t capacity_ = 0;
  std::byte* slab_ = nullptr;
  std::vector<std::atomic<std::uint32_t>> places_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> ready_{false};
  std::mutex mutex_;
};

}  // namespace

std::unique_ptr<CacheStore> make_slab_store(std::uint64_t samples,
                                            const std::vector<ComponentSpec>& spec,
                                            std::uint64_t limit_bytes) {
  return std::make_unique<SlabStore>(samples, spec, limit_bytes);
}

std::uint64_t slab_bytes(std::uint64_t samples, const std::vector<ComponentSpec>& spec) {
  return SlabStore(samples, spec, ~std::uint64_t{0}).limit_bytes() + 4096;
}

}  // namespace surefit::data
