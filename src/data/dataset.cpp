// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "surefit/data.hpp"
#include "surefit/image.hpp"

#include "base/thread_pool.hpp"
#include "data/node.hpp"
#include "data/reader.hpp"

namespace surefit {

Dataset Dataset::from_tensor_slices(std::vector<Tensor> components) {
  return Dataset(data::make_arrays(std::move(components)));
}
Dataset Dataset::range(std::uint64_t count) {
  return Dataset(data::make_range(count));
}

Dataset Dataset::from_generator(GeneratorFactory factory, std::vector<ComponentSpec> spec) {
  return Dataset(data::make_generator(std::move(factory), std::move(spec)));
}

Dataset Dataset::from_generator(std::function<TensorGenerator()> factory,
                                std::vector<ComponentSpec> spec) {
  if (!factory) throw ConfigError("[from_generator] the factory is empty; expected a callable");
  return from_generator(GeneratorFactory([factory = std::move(factory)] {
                          return Generator([next = factory()](Sample& sample) {
                            const std::optional<std::vector<Tensor>> tensors = next();
                            if (!tensors) return false;
                            sample.resize(tensors->size());
                            for (std::size_t i = 0; i < tensors->size(); ++i)
                              sample[i].assign((*tensors)[i]);
                            return true;
                          });
                        }),
                        std::move(spec));
}

Dataset Dataset::zip(const Dataset& first, const Dataset& second) {
  return Dataset(data::make_zip(first.node_, second.node_));
}
Dataset Dataset::filter(FilterFunction keep) const {
  return Dataset(data::make_filter(node_, std::move(keep)));
}
Dataset Dataset::concatenate(const Dataset& next) const {
  return Dataset(data::make_concatenate(node_, next.node_));
}
Dataset Dataset::enumerate(std::int64_t start) const {
  return Dataset(data::make_enumerate(node_, start));
}
Dataset Dataset::interleave(std::function<Dataset(const Sample&)> function,
                            InterleaveOptions options) const {
  return Dataset(data::make_interleave(node_, std::move(function), options));
}
Dataset Dataset::cache(CacheOptions options) const {
  return Dataset(data::make_cache(node_, std::move(options)));
}

Dataset Dataset::shuffle(std::uint64_t buffer_size, ShuffleOptions options) const {
  return Dataset(data::make_shuffle(node_, buffer_size, options));
}
Dataset Dataset::map(MapFunction function, MapOptions options) const {
  return Dataset(data::make_map(node_, std::move(function), std::move(options)));
}
Dataset Dataset::map(MapFunction function, std::int64_t num_parallel_calls) const {
  return map(std::move(function), MapOptions{.num_parallel_calls = num_parallel_calls});
}
Dataset Dataset::map(RandomMapFunction function, MapOptions options) const {
  return Dataset(data::make_random_map(node_, std::move(function), std::move(options)));
}
Dataset Dataset::map(const Transform& transform, std::int64_t num_parallel_calls) const {
  return Dataset(data::make_transform(node_, transform, num_parallel_calls));
}
Dataset Dataset::batch(std::uint64_t batch_size, BatchOptions options) const {
  return Dataset(data::make_batch(node_, batch_size, options));
}
Dataset Dataset::take(std::uint64_t count) const {
  return Dataset(data::make_take(node_, count));
}
Dataset Dataset::skip(std::uint64_t count) const {
  return Dataset(data::make_skip(node_, count));
}
Dataset Dataset::repeat(std::optional<std::uint64_t> count) const {
  return Dataset(data::make_repeat(node_, count));
}
Dataset Dataset::prefetch(std::int64_t buffer_size) const {
  return Dataset(data::make_prefetch(node_, buffer_size));
}

std::optional<std::uint64_t> Dataset::cardinality() const {
  return node_->size();
}
std::vector<ComponentSpec> Dataset::element_spec() const {
  return node_->spec();
}
bool Dataset::random_access() const {
  return node_->random_access();
}
std::string Dataset::describe() const {
  return data::describe_pipeline(*node_);
}
DatasetIterator Dataset::begin() const {
  return DatasetIterator(*this);
}

// The loop owns what a run needs; elements are copied out because users keep them.
struct DatasetIterator::Impl {
  Impl(const Dataset& dataset, const IterateOptions& options)
      : node(dataset.node()),
        pool(options.threads),
        meter(),
        position{0, options.epoch},
        sample(&meter) {
    for (int i = 0; i < options.threads; ++i)
      workers.emplace_back(options.seed, meter, Env::posix());
    team = {&pool, &workers};
    workers[0].set_team(&team);
    if (!node->random_access()) cursor = node->open(options.epoch, workers[0]);
  }

  bool next() {
    if (cursor) return cursor->next(sample, workers[0]);
    if (position.index >= node->size().value()) return false;
    node->read(position, sample, workers[0]);
    ++position.index;
    return true;
  }

  data::NodePtr node;
  ThreadPool pool;
  data::Meter meter;
  std::vector<data::Worker> workers;
  data::Team team;
  data::Position position;
  Sample sample;
  std::unique_ptr<data::Cursor> cursor;
};

DatasetIterator::DatasetIterator(const Dataset& dataset, IterateOptions options)
    : impl_(std::make_unique<Impl>(dataset, options)) {
  ++*this;
}
DatasetIterator::~DatasetIterator() = default;
DatasetIterator::DatasetIterator(DatasetIterator&&) noexcept = default;
DatasetIterator& DatasetIterator::operator=(DatasetIterator&&) noexcept = default;

DatasetIterator& DatasetIterator::operator++() {
  done_ = !impl_->next();
  if (done_) return *this;
  element_.components_.clear();
  for (std::size_t i = 0; i < impl_->sample.size(); ++i) {
    element_.components_.push_back(impl_->sample[i].tensor());
  }
  const std::span<const std::uint64_t> rows = impl_->sample.rows();
  element_.ids_.assign(rows.begin(), rows.end());
  if (rows.empty()) element_.ids_.assign(1, impl_->sample.index());
  return *this;
}

}  // namespace surefit
