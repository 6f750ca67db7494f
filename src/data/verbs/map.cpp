// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <mutex>

#include "base/clock.hpp"
#include "data/node.hpp"

namespace surefit::data {
namespace {

class Map final : public Node {
 public:
  Map(NodePtr input, MapFunction function, RandomMapFunction random, MapOptions options)
      : Node({std::move(input)}),
        function_(std::move(function)),
        random_(std::move(random)),
        options_(std::move(options)) {
    if (!function_ && !random_)
      throw ConfigError("[map] the function is empty; expected a callable");
    if (options_.num_parallel_calls != AUTOTUNE && options_.num_parallel_calls < 1) {
      throw ConfigError(fmt::format("[map] num_parallel_calls is {}; expected AUTOTUNE, 1 or more",
                                    options_.num_parallel_calls));
    }
  }

  std::string describe() const override {
    return options_.name == "map" ? options_.name : fmt::format("map({})", options_.name);
  }
  std::optional<std::uint64_t> size() const override { return input().size(); }

  // Only running it tells; callables are pure by contract, so a trial run on the first element
  // changes nothing.
  std::vector<ComponentSpec> spec() const override {
    Meter meter;
    Worker worker(0, meter, Env::posix());
    worker.set_probing();
    Worker::Lease sample(worker);
    if (input().random_access() && input().size() == 0) return input().spec();
    const auto cursor = input().open(0, worker);
    if (!cursor->next(*sample, worker)) return input().spec();
    apply(*sample, worker);
    return (*sample).spec();
  }

  void read(Position at, Sample& out, Worker& worker) const override {
    read_elementwise(*this, at, out, worker);
  }

  bool elementwise() const override { return true; }
  bool deterministic() const override { return !random_; }

  void apply(Sample& sample, Worker& worker) const override {
    const double start = monotonic_seconds();
    try {
      if (options_.num_parallel_calls == 1) {
        const std::lock_guard lock(mutex_);
        call(sample, worker);
      } else {
        call(sample, worker);
      }
    } catch (...) {
      rethrow_with_sample(options_.name, sample);
    }
    worker.charge(op(), monotonic_seconds() - start);
  }

  std::unique_ptr<Cursor> open(std::uint64_t pass, Worker& worker) const override {
    return open_elementwise(*this, pass, worker);
  }

 private:
  void call(Sample& sample, Worker& worker) const {
    if (function_) return function_(sample);
    Random random(worker.seed(), op(), sample.epoch(), sample.index());
    random_(sample, random);
  }

  MapFunction function_;
  RandomMapFunction random_;
  MapOptions options_;
  mutable std::mutex mutex_;
};

}  // namespace

NodePtr make_map(NodePtr input, MapFunction function, MapOptions options) {
  return std::make_shared<Map>(std::move(input), std::move(function), RandomMapFunction{},
                               std::move(options));
}
NodePtr make_random_map(NodePtr input, RandomMapFunction function, MapOptions options) {
  return std::make_shared<Map>(std::move(input), MapFunction{}, std::move(function),
                               std::move(options));
}

}  // namespace surefit::data
