// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/transform.hpp"

#include <fmt/format.h>
#include <mutex>

#include "base/clock.hpp"

namespace surefit {

void Transform::operator()(Sample& sample) const {
  if (op_->random()) {
    throw ConfigError(
        fmt::format("[{}] is random and cannot be called directly; expected "
                    "dataset.map({}), which keys it by seed, epoch and sample",
                    op_->name(), op_->name()));
  }
  data::Meter meter;
  data::Worker worker(0, meter, Env::posix());
  Random random(0, 0, 0, 0);
  op_->apply(sample, random, worker);
}

std::string Transform::describe() const {
  return op_->describe();
}

}  // namespace surefit

namespace surefit::data {
namespace {

class TransformNode final : public Node {
 public:
  TransformNode(NodePtr input, Transform transform, std::int64_t num_parallel_calls)
      : Node({std::move(input)}), op_owner_(transform.op()), one_call_(num_parallel_calls == 1) {
    if (num_parallel_calls != AUTOTUNE && num_parallel_calls < 1) {
      throw ConfigError(fmt::format("[map] num_parallel_calls is {}; expected AUTOTUNE, 1 or more",
                                    num_parallel_calls));
    }
  }

  std::string describe() const override { return op_owner_->describe(); }
  std::vector<ComponentSpec> spec() const override { return op_owner_->spec(input().spec()); }
  std::optional<std::uint64_t> size() const override { return input().size(); }
  bool elementwise() const override { return true; }
  bool deterministic() const override { return !op_owner_->random(); }

  void read(Position at, Sample& out, Worker& worker) const override {
    read_elementwise(*this, at, out, worker);
  }

  void apply(Sample& sample, Worker& worker) const override {
    const double start = monotonic_seconds();
    try {
      Random random(worker.seed(), op(), sample.epoch(), sample.index());
      if (one_call_) {
        const std::lock_guard lock(mutex_);
        op_owner_->apply(sample, random, worker);
      } else {
        op_owner_->apply(sample, random, worker);
      }
    } catch (...) {
      rethrow_with_sample(op_owner_->name(), sample);
    }
    worker.charge(op(), monotonic_seconds() - start);
  }

  std::unique_ptr<Cursor> open(std::uint64_t pass, Worker& worker) const override {
    return open_elementwise(*this, pass, worker);
  }

 private:
  std::shared_ptr<const TransformOp> op_owner_;
  bool one_call_;
  mutable std::mutex mutex_;
};

}  // namespace

NodePtr make_transform(NodePtr input, const Transform& transform, std::int64_t num_parallel_calls) {
  return std::make_shared<TransformNode>(std::move(input), transform, num_parallel_calls);
}

PictureDims picture_dims(const Field& field) {
  const Dims& dims = field.dims();
  const bool typed = field.dtype() == DType::kUInt8 || field.dtype() == DType::kFloat32;
  if (dims.rank() != 3 || !typed || dims.count() == 0) {
    throw DataError(
        fmt::format("expected a picture, uint8 or float32 (height, width, channels); got {} {}",
                    name_of(field.dtype()), dims.to_string()));
  }
  return {dims[0], dims[1], dims[2]};
}

ComponentSpec& first_component(std::vector<ComponentSpec>& spec, const char* where) {
  if (spec.empty()) throw ConfigError(fmt::format("[{}] elements have no components", where));
  return spec.front();
}

}  // namespace surefit::data
