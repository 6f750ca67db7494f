// SPDX-License-Identifier: Apache-2.0
#include "data/node.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <new>

#include "base/check.hpp"
#include "base/units.hpp"
#include "data/cache.hpp"
#include "data/images/memory.hpp"
#include "data/images/resize.hpp"

namespace surefit::data {
namespace {

class PositionCursor final : public Cursor {
 public:
  PositionCursor(const Node& node, std::uint64_t pass)
      : node_(node), size_(node.size().value_or(0)), at_{0, pass} {}

  bool next(Sample& out, Worker& worker) override {
    if (at_.index >= size_) return false;
    node_.read(at_, out, worker);
    ++at_.index;
    return true;
  }
  void skip(std::uint64_t count, Worker&) override { at_.index += count; }

 private:
  const Node& node_;
  std::uint64_t size_;
  Position at_;
};

class ElementwiseCursor final : public Cursor {
 public:
  ElementwiseCursor(const Node& node, std::unique_ptr<Cursor> input)
      : node_(node), input_(std::move(input)) {}
  bool next(Sample& out, Worker& worker) override {
    if (!input_->next(out, worker)) return false;
    node_.apply(out, worker);
    return true;
  }
  void skip(std::uint64_t count, Worker& worker) override { input_->skip(count, worker); }

 private:
  const Node& node_;
  std::unique_ptr<Cursor> input_;
};

}  // namespace

void read_elementwise(const Node& node, Position at, Sample& out, Worker& worker) {
  if (worker.cache() != nullptr && &worker.cache()->node() == &node) {
    worker.cache()->read(at, out, worker);
    return;
  }
  node.input().read(at, out, worker);
  node.apply(out, worker);
}

std::unique_ptr<Cursor> open_elementwise(const Node& node, std::uint64_t pass, Worker& worker) {
  return std::make_unique<ElementwiseCursor>(node, node.input().open(pass, worker));
}

bool Meter::try_take(std::uint64_t bytes) {
  std::uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ || used > limit_ - bytes) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  std::uint64_t peak = peak_.load(std::memory_order_relaxed);
  while (peak < used + bytes &&
         !peak_.compare_exchange_weak(peak, used + bytes, std::memory_order_relaxed)) {
  }
  return true;
}

void Meter::take(std::uint64_t bytes) {
  if (try_take(bytes)) return;
  throw SystemError(
      fmt::format(
          "[data] the pipeline's byte budget is used up; expected at most {}; got {} in use "
          "and {} more wanted; raise the budget, or lower threads or picture size",
          format_bytes(limit_), format_bytes(used_bytes()), format_bytes(bytes)),
      ENOMEM);
}

void Meter::give(std::uint64_t bytes) {
  used_.fetch_sub(bytes, std::memory_order_relaxed);
}

Worker::Worker(std::uint64_t seed, Meter& meter, Env& env)
    : seed_(seed),
      meter_(&meter),
      env_(&env),
      resizer_(std::make_unique<StreamResizer>()),
      decoder_(std::make_unique<DecoderMemory>(&meter)) {
  text_.reserve(1000);
}
Worker::~Worker() = default;
Worker::Worker(Worker&&) noexcept = default;

void Worker::charge(std::uint32_t op, double seconds) {
  if (op >= times_.size()) times_.resize(op + 1);
  times_[op].calls += 1;
  times_[op].seconds += seconds;
}

void Worker::forget_times() {
  std::fill(times_.begin(), times_.end(), ServiceTime{});
  io_seconds_ = 0;
}

Sample& Worker::lend() {
  constexpr std::size_t kUsualPath = 1000;
  if (lent_ == samples_.size()) {
    samples_.push_back(std::make_unique<Sample>(meter_));
    samples_.back()->set_path(
        std::string(kUsualPath, ' '));  // a longer path later must not allocate
  }
  return *samples_[lent_++];
}

Node::Node(std::vector<std::shared_ptr<const Node>> inputs, Kind kind)
    : inputs_(std::move(inputs)), transparent_(kind == Kind::kTransparent) {
  for (const auto& input : inputs_) op_ += input->op() + (transparent_ ? 0 : 1);
}

bool Node::random_access() const {
  return std::all_of(inputs_.begin(), inputs_.end(),
                     [](const auto& input) { return input->random_access(); });
}

void Node::read(Position at, Sample& out, Worker& worker) const {
  const Node* next = forward(at, worker.seed());
  SUREFIT_CHECK(next != nullptr, "{} cannot be read by position", describe());
  next->read(at, out, worker);
}

const Node* Node::forward(Position&, std::uint64_t) const {
  return nullptr;
}

Position Node::locate(Position at, std::uint64_t seed) const {
  if (const Node* next = forward(at, seed)) return next->locate(at, seed);
  return elementwise() ? input().locate(at, seed) : at;
}

bool Node::varies() const {
  return !deterministic() || std::any_of(inputs_.begin(), inputs_.end(),
                                         [](const auto& input) { return input->varies(); });
}

std::unique_ptr<Cursor> Node::open(std::uint64_t pass, Worker&) const {
  SUREFIT_CHECK(random_access(), "{} has neither positions nor a cursor", describe());
  return std::make_unique<PositionCursor>(*this, pass);
}

void Node::will_need(Position at, Worker& worker) const {
  if (const Node* next = forward(at, worker.seed())) {
    next->will_need(at, worker);
  } else if (elementwise()) {
    input().will_need(at, worker);
  }
}

void Node::apply(Sample&, Worker&) const {
  throw InternalError(fmt::format("[data] {} is not elementwise", describe()));
}

void Cursor::skip(std::uint64_t count, Worker& worker) {
  Worker::Lease scratch(worker);
  for (std::uint64_t i = 0; i < count && next(*scratch, worker); ++i) {
  }
}

std::string describe_pipeline(const Node& node, Describe what) {
  std::string text;
  for (const auto& input : node.inputs()) {
    if (!text.empty()) text += " | ";
    text += describe_pipeline(*input, what);
  }
  if (node.inputs().size() > 1) text = "{" + text + "}";
  if (what == Describe::kOnlyMeaning && node.transparent()) return text;
  return text.empty() ? node.describe() : text + " > " + node.describe();
}

std::string describe_sample(const Sample& sample) {
  return sample.path().empty() ? fmt::format("sample {}", sample.index())
                               : fmt::format("sample {} ({})", sample.index(), sample.path());
}

bool is_about_files(const SystemError& error) {
  switch (error.error_number()) {
    case ENOENT:
    case EACCES:
    case EPERM:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case EIO:
    case ESTALE:
      return true;
    default:
      return false;
  }
}

void rethrow_with_sample(const std::string& where, const Sample& sample) {
  const std::string prefix = fmt::format("[{}] {}: ", where, describe_sample(sample));
  try {
    throw;
  } catch (const DataError& error) {
    throw DataError(prefix + error.what(), sample.path(), error.offset());
  } catch (const SystemError& error) {
    if (is_about_files(error)) {
      throw DataError(prefix + error.what() + "; was the data set moved or changed while in use?",
                      sample.path());
    }
    throw SystemError(prefix + error.what(), error.error_number());
  } catch (const ConfigError& error) {
    throw ConfigError(prefix + error.what());
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw SystemError(prefix + "out of memory", ENOMEM);
  } catch (const std::exception& error) {
    throw DataError(prefix + error.what(), sample.path());
  } catch (...) {
    throw DataError(prefix + "threw something that is not a std::exception", sample.path());
  }
}

}  // namespace surefit::data
