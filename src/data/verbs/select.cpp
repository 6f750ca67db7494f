// SPDX-License-Identifier: Apache-2.0
// Verbs that only choose which elements come: take, skip, repeat, prefetch.
#include <algorithm>
#include <fmt/format.h>

#include "data/node.hpp"

namespace surefit::data {
namespace {

class Select : public Node {
 public:
  using Node::Node;
  std::vector<ComponentSpec> spec() const override { return input().spec(); }
};

class Take final : public Select {
 public:
  Take(NodePtr input, std::uint64_t count) : Select({std::move(input)}), count_(count) {}
  std::string describe() const override { return fmt::format("take({})", count_); }
  std::optional<std::uint64_t> size() const override {
    const auto available = input().size();
    if (!available) return std::nullopt;
    return std::min(*available, count_);
  }
  const Node* forward(Position&, std::uint64_t) const override { return &input(); }

  std::unique_ptr<Cursor> open(std::uint64_t pass, Worker& worker) const override {
    class TakeCursor final : public Cursor {
     public:
      TakeCursor(std::unique_ptr<Cursor> input, std::uint64_t left)
          : input_(std::move(input)), left_(left) {}
      bool next(Sample& out, Worker& worker) override {
        if (left_ == 0 || !input_->next(out, worker)) return left_ = 0, false;
        --left_;
        return true;
      }

     private:
      std::unique_ptr<Cursor> input_;
      std::uint64_t left_;
    };
    return std::make_unique<TakeCursor>(input().open(pass, worker), count_);
  }

 private:
  std::uint64_t count_;
};

class Skip final : public Select {
 public:
  Skip(NodePtr input, std::uint64_t count) : Select({std::move(input)}), count_(count) {}
  std::string describe() const override { return fmt::format("skip({})", count_); }
  std::optional<std::uint64_t> size() const override {
    const auto available = input().size();
    if (!available || *available == kInfiniteCardinality) return available;
    return *available - std::min(*available, count_);
  }
  const Node* forward(Position& at, std::uint64_t) const override {
    at.index += count_;
    return &input();
  }

  std::unique_ptr<Cursor> open(std::uint64_t pass, Worker& worker) const override {
    auto cursor = input().open(pass, worker);
    cursor->skip(count_, worker);
    return cursor;
  }

 private:
  std::uint64_t count_;
};

class Repeat final : public Select {
 public:
  Repeat(NodePtr input, std::optional<std::uint64_t> count)
      : Select({std::move(input)}), count_(count) {}
  std::string describe() const override {
    return count_ ? fmt::format("repeat({})", *count_) : "repeat()";
  }
  std::optional<std::uint64_t> size() const override {
    const auto once = input().size();
    if (!once || *once == 0) return once;
    if (!count_ || *once == kInfiniteCardinality) return kInfiniteCardinality;
    return *once * *count_;
  }
  const Node* forward(Position& at, std::uint64_t) const override {
    const std::uint64_t once = input().size().value();
    at = {at.index % once, pass_of(at.pass, at.index / once)};
    return &input();
  }

  std::unique_ptr<Cursor> open(std::uint64_t pass, Worker&) const override {
    class RepeatCursor final : public Cursor {
     public:
      RepeatCursor(const Repeat& node, std::uint64_t pass) : node_(node), pass_(pass) {}
      bool next(Sample& out, Worker& worker) override {
        while (!node_.count_ || round_ < *node_.count_) {
          if (!input_) {
            input_ = node_.input().open(node_.pass_of(pass_, round_), worker);
            empty_ = true;
          }
          if (input_->next(out, worker)) {
            empty_ = false;
            return true;
          }
          input_.reset();
          if (empty_) break;  // repeating nothing for ever would never return
          ++round_;
        }
        return false;
      }

     private:
      const Repeat& node_;
      std::uint64_t pass_, round_ = 0;
      std::unique_ptr<Cursor> input_;
      bool empty_ = true;
    };
    return std::make_unique<RepeatCursor>(*this, pass);
  }

 private:
  // Every round is a fresh pass of the input, so that a shuffle below gives another order.
  std::uint64_t pass_of(std::uint64_t pass, std::uint64_t round) const {
    return count_ ? pass * *count_ + round : pass + round;
  }
  std::optional<std::uint64_t> count_;
};

// Depth of the read-ahead. It is a wish to the reader and changes nothing about what comes.
class Prefetch final : public Select {
 public:
  Prefetch(NodePtr input, std::int64_t buffer_size)
      : Select({std::move(input)}, Kind::kTransparent), buffer_size_(buffer_size) {
    if (buffer_size < AUTOTUNE) {
      throw ConfigError(fmt::format(
          "[prefetch] buffer_size {} is negative; expected AUTOTUNE, 0 or more", buffer_size));
    }
  }
  std::string describe() const override {
    return buffer_size_ == AUTOTUNE ? "prefetch(AUTOTUNE)"
                                    : fmt::format("prefetch({})", buffer_size_);
  }
  std::optional<std::uint64_t> size() const override { return input().size(); }
  const Node* forward(Position&, std::uint64_t) const override { return &input(); }
  std::unique_ptr<Cursor> open(std::uint64_t pass, Worker& worker) const override {
    return input().open(pass, worker);
  }
  std::int64_t prefetch_depth() const override { return buffer_size_; }

 private:
  std::int64_t buffer_size_;
};

}  // namespace

NodePtr make_take(NodePtr input, std::uint64_t count) {
  return std::make_shared<Take>(std::move(input), count);
}
NodePtr make_skip(NodePtr input, std::uint64_t count) {
  return std::make_shared<Skip>(std::move(input), count);
}
NodePtr make_repeat(NodePtr input, std::optional<std::uint64_t> count) {
  return std::make_shared<Repeat>(std::move(input), count);
}
NodePtr make_prefetch(NodePtr input, std::int64_t buffer_size) {
  return std::make_shared<Prefetch>(std::move(input), buffer_size);
}

}  // namespace surefit::data
