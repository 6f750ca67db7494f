// SPDX-License-Identifier: Apache-2.0
// Verbs over two inputs, and enumerate.
#include <algorithm>
#include <fmt/format.h>

#include "data/node.hpp"

namespace surefit::data {
namespace {

// Moves the components of `from` behind the first `count` of `out`.
void append(Sample& out, std::size_t count, Sample& from) {
  out.resize(count + from.size());
  for (std::size_t i = 0; i < from.size(); ++i) out[count + i].swap_contents(from[i]);
}

class Zip final : public Node {
 public:
  Zip(NodePtr first, NodePtr second) : Node({std::move(first), std::move(second)}) {}
  std::string describe() const override { return "zip"; }
  std::vector<ComponentSpec> spec() const override {
    std::vector<ComponentSpec> all = input(0).spec();
    for (ComponentSpec& component : input(1).spec()) all.push_back(component);
    return all;
  }
  std::optional<std::uint64_t> size() const override {
    const auto first = input(0).size(), second = input(1).size();
    if (!first || !second) return std::nullopt;
    return std::min(*first, *second);
  }
  Position locate(Position at, std::uint64_t seed) const override {
    return input(0).locate(at, seed);
  }

  void read(Position at, Sample& out, Worker& worker) const override {
    input(0).read(at, out, worker);
    Worker::Lease other(worker);
    input(1).read(at, *other, worker);
    append(out, out.size(), *other);
  }

  std::unique_ptr<Cursor> open(std::uint64_t pass, Worker& worker) const override {
    class ZipCursor final : public Cursor {
     public:
      ZipCursor(std::unique_ptr<Cursor> first, std::unique_ptr<Cursor> second)
          : first_(std::move(first)), second_(std::move(second)) {}
      bool next(Sample& out, Worker& worker) override {
        Worker::Lease other(worker);
        if (!first_->next(out, worker) || !second_->next(*other, worker)) return false;
        append(out, out.size(), *other);
        return true;
      }
      void skip(std::uint64_t count, Worker& worker) override {
        first_->skip(count, worker);
        second_->skip(count, worker);
      }

     private:
      std::unique_ptr<Cursor> first_, second_;
    };
    return std::make_unique<ZipCursor>(input(0).open(pass, worker), input(1).open(pass, worker));
  }

  void will_need(Position at, Worker& worker) const override {
    input(0).will_need(at, worker);
    input(1).will_need(at, worker);
  }
};

class Concatenate final : public Node {
 public:
  Concatenate(NodePtr first, NodePtr second) : Node({std::move(first), std::move(second)}) {
    const auto a = input(0).spec(), b = input(1).spec();
    bool same = a.size() == b.size();
    for (std::size_t i = 0; same && i < a.size(); ++i) same = a[i].dtype == b[i].dtype;
    if (!same) {
      throw ConfigError(fmt::format("[concatenate] elements differ; expected {}; got {}",
                                    to_string(a), to_string(b)));
    }
  }
  std::string describe() const override { return "concatenate"; }
  std::vector<ComponentSpec> spec() const override {
    std::vector<ComponentSpec> spec = input(0).spec();
    const std::vector<ComponentSpec> other = input(1).spec();
    for (std::size_t i = 0; i < spec.size(); ++i) spec[i].dims = merge(spec[i].dims, other[i].dims);
    return spec;
  }
  std::optional<std::uint64_t> size() const override {
    const auto first = input(0).size(), second = input(1).size();
    if (!first || !second) return std::nullopt;
    if (*first == kInfiniteCardinality || *second == kInfiniteCardinality)
      return kInfiniteCardinality;
    return *first + *second;
  }
  const Node* forward(Position& at, std::uint64_t) const override {
    const std::uint64_t first = input(0).size().value();
    if (at.index < first) return &input(0);
    at.index -= first;
    return &input(1);
  }

  std::unique_ptr<Cursor> open(std::uint64_t pass, Worker& worker) const override {
    class ConcatenateCursor final : public Cursor {
     public:
      ConcatenateCursor(const Node& second, std::uint64_t pass, std::unique_ptr<Cursor> first)
          : second_(second), pass_(pass), cursor_(std::move(first)) {}
      bool next(Sample& out, Worker& worker) override {
        if (cursor_->next(out, worker)) return true;
        if (in_second_) return false;
        in_second_ = true;
        cursor_ = second_.open(pass_, worker);
        return cursor_->next(out, worker);
      }

     private:
      const Node& second_;
      std::uint64_t pass_;
      std::unique_ptr<Cursor> cursor_;
      bool in_second_ = false;
    };
    return std::make_unique<ConcatenateCursor>(input(1), pass, input(0).open(pass, worker));
  }

 private:
  // What differs varies; of different ranks nothing is known, which batch then reports.
  static Dims merge(const Dims& a, const Dims& b) {
    if (a.rank() != b.rank()) return Dims{-1};
    std::vector<std::int64_t> extents;
    for (std::size_t i = 0; i < a.rank(); ++i) extents.push_back(a[i] == b[i] ? a[i] : -1);
    return Dims(std::span<const std::int64_t>(extents));
  }
};

class Enumerate final : public Node {
 public:
  Enumerate(NodePtr input, std::int64_t start) : Node({std::move(input)}), start_(start) {}
  std::string describe() const override { return fmt::format("enumerate({})", start_); }
  std::vector<ComponentSpec> spec() const override {
    std::vector<ComponentSpec> spec = input().spec();
    spec.insert(spec.begin(), ComponentSpec{DType::kInt64, {}});
    return spec;
  }
  std::optional<std::uint64_t> size() const override { return input().size(); }
  Position locate(Position at, std::uint64_t seed) const override {
    return input().locate(at, seed);
  }
  void read(Position at, Sample& out, Worker& worker) const override {
    Worker::Lease element(worker);
    input().read(at, *element, worker);
    number(out, *element, at.index);
  }
  void will_need(Position at, Worker& worker) const override { input().will_need(at, worker); }

  std::unique_ptr<Cursor> open(std::uint64_t pass, Worker& worker) const override {
    class EnumerateCursor final : public Cursor {
     public:
      EnumerateCursor(const Enumerate& node, std::unique_ptr<Cursor> input)
          : node_(node), input_(std::move(input)) {}
      bool next(Sample& out, Worker& worker) override {
        Worker::Lease element(worker);
        if (!input_->next(*element, worker)) return false;
        node_.number(out, *element, at_++);
        return true;
      }
      void skip(std::uint64_t count, Worker& worker) override {
        input_->skip(count, worker);
        at_ += count;
      }

     private:
      const Enumerate& node_;
      std::unique_ptr<Cursor> input_;
      std::uint64_t at_ = 0;
    };
    return std::make_unique<EnumerateCursor>(*this, input().open(pass, worker));
  }

 private:
  void number(Sample& out, Sample& element, std::uint64_t index) const {
    out.resize(1);
    out[0].assign_scalar(start_ + static_cast<std::int64_t>(index));
    out.place(element.index(), element.epoch());
    out.set_path(element.path());
    append(out, 1, element);
  }
  std::int64_t start_;
};

}  // namespace

NodePtr make_zip(NodePtr first, NodePtr second) {
  return std::make_shared<Zip>(std::move(first), std::move(second));
}
NodePtr make_concatenate(NodePtr first, NodePtr second) {
  return std::make_shared<Concatenate>(std::move(first), std::move(second));
}
NodePtr make_enumerate(NodePtr input, std::int64_t start) {
  return std::make_shared<Enumerate>(std::move(input), start);
}

}  // namespace surefit::data
