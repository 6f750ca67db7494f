// SPDX-License-Identifier: Apache-2.0
// The cache verb: the elements of the first pass, kept and repeated.
#include "data/cache.hpp"

#include <atomic>
#include <fmt/format.h>
#include <vector>

namespace surefit::data {
namespace {

std::uint64_t limit_of(const CacheOptions& options) {
  return options.budget_bytes.value_or(available_memory_bytes() / 2);
}

class Cache final : public Node {
 public:
  Cache(NodePtr input, CacheOptions options)
      : Node({input}, input->varies() ? Kind::kMeaningful : Kind::kTransparent),
        options_(std::move(options)),
        indexed_(input->random_access() && input->size() != kInfiniteCardinality),
        meter_(std::make_unique<Meter>(limit_of(options_))) {
    if (!options_.file.empty() && !indexed_) {
      throw ConfigError(
          "[cache] a file can only hold what can be indexed; got a stream; use cache() in memory");
    }
    if (indexed_) {
      const std::uint64_t samples = input->size().value();
      const std::vector<ComponentSpec> spec = input->spec();
      const std::uint64_t limit = limit_of(options_);
      store_ = !options_.file.empty()
                   ? make_file_store(options_.file, samples, spec, fingerprint_of(*input))
               : element_bytes(spec) > 0 ? make_slab_store(samples, spec, limit)
                                         : make_memory_store(samples, limit);
    }
  }

  std::string describe() const override {
    return options_.file.empty() ? "cache" : fmt::format("cache({})", options_.file);
  }
  std::vector<ComponentSpec> spec() const override { return input().spec(); }
  std::optional<std::uint64_t> size() const override { return input().size(); }
  bool random_access() const override { return indexed_; }
  bool varies() const override { return false; }

  Position locate(Position at, std::uint64_t seed) const override {
    const Position first = input().locate({at.index, 0}, seed);
    return {first.index, first.pass + at.pass};
  }

  void read(Position at, Sample& out, Worker& worker) const override {
    const bool usable = holds_for(worker);
    if (!usable || !store_->find(at.index, out, worker)) {
      input().read({at.index, 0}, out, worker);
      if (usable) store_->keep(at.index, out, worker);
    }
    // Steps above see the epoch go on, though what is kept is that of the first.
    out.place(out.index(), out.epoch() + at.pass);
  }
  void will_need(Position at, Worker& worker) const override {
    // Once everything is kept the files are no longer touched.
    if (store_ && store_->kept() < size().value()) input().will_need({at.index, 0}, worker);
  }

  std::unique_ptr<Cursor> open(std::uint64_t pass, Worker& worker) const override {
    if (indexed_) return Node::open(pass, worker);
    return std::make_unique<StreamCursor>(*this, pass, holds_for(worker));
  }

  bool holds_cache() const override { return true; }
  void limit_cache(std::uint64_t bytes) const override {
    if (store_) store_->limit(bytes);
    if (kept_.empty() && bytes < meter_->limit_bytes()) meter_ = std::make_unique<Meter>(bytes);
  }
  std::vector<LedgerEntry> buffers() const override {
    if (!options_.file.empty()) return {};
    return {{"cache", store_ ? store_->limit_bytes() : meter_->limit_bytes(), Residence::kCache}};
  }

 private:
  // A stream is kept from its beginning, as far as the budget allows.
  class StreamCursor final : public Cursor {
   public:
    StreamCursor(const Cache& node, std::uint64_t pass, bool usable)
        : node_(node), pass_(pass), usable_(usable) {}
    bool next(Sample& out, Worker& worker) override {
      if (usable_ && at_ < node_.kept_.size()) {
        node_.kept_[at_].unpack(out);
      } else {
        if (usable_ && node_.complete_) return false;
        if (!input_) {
          input_ = node_.input().open(0, worker);
          input_->skip(at_, worker);
        }
        if (!input_->next(out, worker)) {
          if (usable_) node_.complete_ = at_ == node_.kept_.size();
          return false;
        }
        Packed packed;
        if (usable_ && at_ == node_.kept_.size() && packed.try_pack(out, *node_.meter_)) {
          node_.kept_.push_back(std::move(packed));
        }
      }
      ++at_;
      out.place(out.index(), out.epoch() + pass_);
      return true;
    }

   private:
    const Cache& node_;
    std::uint64_t pass_, at_ = 0;
    bool usable_;
    std::unique_ptr<Cursor> input_;
  };

  // What is random below was drawn with one seed and is of no use to a run with another: the first
  // one has the cache.
  bool holds_for(const Worker& worker) const {
    if (!input().varies()) return true;
    if (worker.probing()) return false;
    std::uint64_t nobody = kNoSeed;
    seed_.compare_exchange_strong(nobody, worker.seed());
    return seed_.load() == worker.seed();
  }

  static constexpr std::uint64_t kNoSeed = 0x6E6F20736565640A;
  CacheOptions options_;
  bool indexed_;
  mutable std::atomic<std::uint64_t> seed_{kNoSeed};
  std::unique_ptr<CacheStore> store_;
  // Of streams; they are run by one thread at a time.
  mutable std::unique_ptr<Meter> meter_;
  mutable std::vector<Packed> kept_;
  mutable bool complete_ = false;
};

}  // namespace

NodePtr make_cache(NodePtr input, CacheOptions options) {
  return std::make_shared<Cache>(std::move(input), std::move(options));
}

}  // namespace surefit::data
