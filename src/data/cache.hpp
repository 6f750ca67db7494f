// SPDX-License-Identifier: Apache-2.0
// Prepared samples kept between epochs. Nothing is ever evicted: with every epoch touching every
// sample once, an evicting cache that is too small would miss always, a full one that keeps what it
// has hits its share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "data/node.hpp"
#include "data/packed.hpp"

namespace surefit::data {

// Samples by number. Thread-safe for different workers.
class CacheStore {
 public:
  virtual ~CacheStore() = default;
  virtual bool find(std::uint64_t key, Sample& out, Worker& worker) = 0;
  virtual void keep(std::uint64_t key, const Sample& sample, Worker& worker) = 0;
  virtual std::uint64_t kept() const = 0;  // samples held
  virtual std::uint64_t memory_bytes() const = 0;
  virtual void limit(std::uint64_t bytes) = 0;    // of memory; takes effect before the first sample
  virtual std::uint64_t limit_bytes() const = 0;  // most memory it will take
  virtual void commit() {}  // takes that memory now, so that it cannot be missing later
  virtual std::string describe() const = 0;
};

// For samples of any size.
std::unique_ptr<CacheStore> make_memory_store(std::uint64_t samples, std::uint64_t limit_bytes);
// For samples of one size; `spec` must be fixed.
std::unique_ptr<CacheStore> make_slab_store(std::uint64_t samples,
                                            const std::vector<ComponentSpec>& spec,
                                            std::uint64_t limit_bytes);
std::uint64_t slab_bytes(std::uint64_t samples, const std::vector<ComponentSpec>& spec);  // for all
// `fingerprint` ties the file to its data; `spec` must be fixed. Throws when the file belongs to
// something else.
std::unique_ptr<CacheStore> make_file_store(const std::string& path, std::uint64_t samples,
                                            const std::vector<ComponentSpec>& spec,
                                            std::uint64_t fingerprint);

// The reader's own cache, laid over a node of the pipeline without changing it: keyed by the
// sample's stable number, so it works above shuffles too.
class ReaderCache {
 public:
  ReaderCache(const Node& node, std::unique_ptr<CacheStore> store)
      : node_(node), store_(std::move(store)) {}
  const Node& node() const { return node_; }
  CacheStore& store() const { return *store_; }
  void read(Position at, Sample& out, Worker& worker);

 private:
  const Node& node_;
  std::unique_ptr<CacheStore> store_;
};

// The best place for a reader's cache in a pipeline, or null: after the last step that gives the
// same in every epoch, but before pictures become four times larger as floats.
const Node* find_cache_place(const Node& top);
const Node& source_of(const Node& node);
// Bytes of one sample; 0 when not known.
std::uint64_t element_bytes(const std::vector<ComponentSpec>& spec);
std::uint64_t fingerprint_of(const Node& node);  // of the verbs and sources up to here
std::uint64_t available_memory_bytes();

}  // namespace surefit::data
