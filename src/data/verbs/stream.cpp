// SPDX-License-Identifier: Apache-2.0
// What cannot be indexed: generators, filters, interleaved inputs, and shuffles of those.
#include <algorithm>
#include <fmt/format.h>

#include "base/philox.hpp"
#include "data/packed.hpp"
#include "data/parallel.hpp"

namespace surefit::data {
namespace {

class Stream : public Node {
 public:
  using Node::Node;
  bool random_access() const override { return false; }
  std::optional<std::uint64_t> size() const override { return std::nullopt; }
};

class GeneratorSource final : public Stream {
 public:
  GeneratorSource(GeneratorFactory factory, std::vector<ComponentSpec> spec)
      : Stream(std::vector<NodePtr>{}), factory_(std::move(factory)), spec_(std::move(spec)) {
    if (!factory_) throw ConfigError("[from_generator] the factory is empty; expected a callable");
    if (spec_.empty())
      throw ConfigError("[from_generator] no component declared; expected at least one");
  }
  std::string describe() const override {
    return fmt::format("from_generator({})", to_string(spec_));
  }
  std::vector<ComponentSpec> spec() const override { return spec_; }

  std::unique_ptr<Cursor> open(std::uint64_t pass, Worker&) const override {
    return std::make_unique<GeneratorCursor>(spec_, factory_(), pass);
  }

 private:
  class GeneratorCursor final : public Cursor {
   public:
    GeneratorCursor(const std::vector<ComponentSpec>& spec, Generator generator, std::uint64_t pass)
        : spec_(spec), generator_(std::move(generator)), pass_(pass) {
      if (!generator_) throw ConfigError("[from_generator] the factory returned nothing to call");
    }
    bool next(Sample& out, Worker&) override {
      if (done_) return false;
      out.resize(spec_.size());
      out.place(produced_, pass_);
      out.set_path({});
      bool more = false;
      try {
        more = generator_(out);
      } catch (...) {
        rethrow_with_sample("from_generator", out);
      }
      if (!more) {
        done_ = true;
        return false;
      }
      check(out);
      out.place(produced_++, pass_);
      return true;
    }

   private:
    void check(const Sample& out) const {
      bool good = out.size() == spec_.size();
      for (std::size_t i = 0; good && i < spec_.size(); ++i) {
        good = out[i].dtype() == spec_[i].dtype && spec_[i].dims.accepts(out[i].dims());
      }
      if (!good) {
        throw DataError(
            fmt::format("[from_generator] element {} is not as declared; expected {}; got {}",
                        produced_, to_string(spec_), to_string(out.spec())));
      }
    }
    std::vector<ComponentSpec> spec_;
    Generator generator_;
    std::uint64_t pass_, produced_ = 0;
    bool done_ = false;
  };

  GeneratorFactory factory_;
  std::vector<ComponentSpec> spec_;
};

class Filter final : public Stream {
 public:
  Filter(NodePtr input, FilterFunction keep) : Stream({std::move(input)}), keep_(std::move(keep)) {
    if (!keep_) throw ConfigError("[filter] the predicate is empty; expected a callable");
  }
  std::string describe() const override { return "filter"; }
  std::vector<ComponentSpec> spec() const override { return input().spec(); }
  std::unique_ptr<Cursor> open(std::uint64_t pass, Worker& worker) const override {
    if (input().random_access()) return std::make_unique<BlockCursor>(*this, pass);
    return std::make_unique<PlainCursor>(*this, input().open(pass, worker));
  }

 private:
  bool keep(const Sample& sample) const {
    try {
      return keep_(sample);
    } catch (...) {
      rethrow_with_sample("filter", sample);
    }
  }

  class PlainCursor final : public Cursor {
   public:
    PlainCursor(const Filter& node, std::unique_ptr<Cursor> input)
        : node_(node), input_(std::move(input)) {}
    bool next(Sample& out, Worker& worker) override {
      while (input_->next(out, worker)) {
        if (node_.keep(out)) return true;
      }
      return false;
    }

   private:
    const Filter& node_;
    std::unique_ptr<Cursor> input_;
  };

  // The input can be indexed: a block of it is read and judged in parallel, then handed out in
  // order.
  class BlockCursor final : public Cursor {
   public:
    BlockCursor(const Filter& node, std::uint64_t pass)
        : node_(node), size_(node.input().size().value()), pass_(pass) {}
    bool next(Sample& out, Worker& worker) override {
      for (;;) {
        while (at_ < filled_) {
          const std::size_t i = at_++;
          if (passes_[i]) {
            out.swap_contents(*samples_[i]);
            return true;
          }
        }
        if (!read_block(worker)) return false;
      }
    }

   private:
    bool read_block(Worker& worker) {
      const std::uint64_t wanted =
          worker.team() == nullptr ? 1 : 4 * worker.team()->workers->size();
      filled_ = static_cast<std::size_t>(std::min(wanted, size_ - next_));
      at_ = 0;
      while (samples_.size() < filled_)
        samples_.push_back(std::make_unique<Sample>(&worker.meter()));
      passes_.resize(samples_.size());
      for_each(filled_, worker, [&](std::size_t i, Worker& mine) {
        node_.input().read({next_ + i, pass_}, *samples_[i], mine);
        passes_[i] = node_.keep(*samples_[i]);
      });
      next_ += filled_;
      return filled_ > 0;
    }

    const Filter& node_;
    std::uint64_t size_, pass_, next_ = 0;
    std::vector<std::unique_ptr<Sample>> samples_;
    std::vector<char> passes_;  // not vector<bool>: written by several threads
    std::size_t at_ = 0, filled_ = 0;
  };

  FilterFunction keep_;
};

class StreamShuffle final : public Stream {
 public:
  StreamShuffle(NodePtr input, std::uint64_t buffer_size, ShuffleOptions options)
      : Stream({std::move(input)}), buffer_size_(buffer_size), options_(options) {
    if (buffer_size == 0) throw ConfigError("[shuffle] buffer_size is 0; expected at least 1");
  }
  std::string describe() const override {
    std::string text = fmt::format("shuffle({}", buffer_size_);
    if (options_.seed) text += fmt::format(", seed={}", *options_.seed);
    return text + (options_.reshuffle_each_iteration ? ")" : ", reshuffle_each_iteration=False)");
  }
  std::vector<ComponentSpec> spec() const override { return input().spec(); }
  std::optional<std::uint64_t> size() const override { return input().size(); }
  std::unique_ptr<Cursor> open(std::uint64_t pass, Worker& worker) const override {
    return std::make_unique<ShuffleCursor>(*this, pass, worker);
  }
  bool varies() const override { return options_.reshuffle_each_iteration || input().varies(); }
  std::vector<LedgerEntry> buffers() const override {
    std::uint64_t bytes = 64;
    for (const ComponentSpec& component : input().spec()) {
      bytes += 16 + component.dims.rank() * 8 + component.dims.count() * size_of(component.dtype);
    }
    return {{describe() + " buffer", buffer_size_ * bytes, Residence::kMetered}};
  }

 private:
  class ShuffleCursor final : public Cursor {
   public:
    ShuffleCursor(const StreamShuffle& node, std::uint64_t pass, Worker& worker)
        : buffer_size_(node.buffer_size_),
          stream_(node.options_.seed.value_or(worker.seed()), Purpose::kShuffle, node.op(),
                  node.options_.reshuffle_each_iteration ? pass : 0, 2),
          input_(node.input().open(pass, worker)) {}

    bool next(Sample& out, Worker& worker) override {
      while (!ended_ && buffer_.size() < buffer_size_) {
        if (input_->next(out, worker)) {
          buffer_.emplace_back().pack(out, worker.meter());
        } else {
          ended_ = true;
        }
      }
      if (buffer_.empty()) return false;
      const std::size_t drawn = (std::uint64_t{stream_.word(produced_++)} * buffer_.size()) >> 32;
      buffer_[drawn].unpack(out);
      Worker::Lease incoming(worker);
      if (!ended_ && input_->next(*incoming, worker)) {
        buffer_[drawn].pack(*incoming, worker.meter());
      } else {
        ended_ = true;
        buffer_[drawn] = std::move(buffer_.back());
        buffer_.pop_back();
      }
      return true;
    }

   private:
    std::uint64_t buffer_size_;
    Philox stream_;
    std::unique_ptr<Cursor> input_;
    std::vector<Packed> buffer_;
    std::uint64_t produced_ = 0;
    bool ended_ = false;
  };

  std::uint64_t buffer_size_;
  ShuffleOptions options_;
};

class Interleave final : public Stream {
 public:
  Interleave(NodePtr input, std::function<Dataset(const Sample&)> function,
             InterleaveOptions options)
      : Stream({std::move(input)}), function_(std::move(function)), options_(options) {
    if (!function_) throw ConfigError("[interleave] the function is empty; expected a callable");
    if (options.cycle_length == 0 || options.block_length == 0) {
      throw ConfigError("[interleave] cycle_length and block_length must be at least 1");
    }
  }
  std::string describe() const override {
    return fmt::format("interleave(cycle_length={}, block_length={})", options_.cycle_length,
                       options_.block_length);
  }
  std::vector<ComponentSpec> spec() const override {
    Meter meter;
    Worker worker(0, meter, Env::posix());
    worker.set_probing();
    Worker::Lease sample(worker);
    const auto cursor = input().open(0, worker);
    return cursor->next(*sample, worker) ? function_(*sample).element_spec()
                                         : std::vector<ComponentSpec>{};
  }
  std::unique_ptr<Cursor> open(std::uint64_t pass, Worker& worker) const override {
    return std::make_unique<InterleaveCursor>(*this, pass, worker);
  }

 private:
  class InterleaveCursor final : public Cursor {
   public:
    InterleaveCursor(const Interleave& node, std::uint64_t pass, Worker& worker)
        : node_(node), pass_(pass), input_(node.input().open(pass, worker)) {}

    bool next(Sample& out, Worker& worker) override {
      for (;;) {
        while (!ended_ && lanes_.size() < node_.options_.cycle_length) open_lane(worker);
        if (lanes_.empty()) return false;
        if (lanes_[turn_].cursor->next(out, worker)) {
          out.place(produced_++, pass_);
          if (++taken_ == node_.options_.block_length) pass_turn();
          return true;
        }
        // The next input takes the place of the finished one, as in tf.data; else the cycle gets
        // shorter.
        if (!replace_lane(worker)) {
          lanes_.erase(lanes_.begin() + static_cast<std::ptrdiff_t>(turn_));
          taken_ = 0;
          if (turn_ >= lanes_.size()) turn_ = 0;
        }
      }
    }

   private:
    struct Lane {
      Dataset dataset;
      std::unique_ptr<Cursor> cursor;
    };
    std::optional<Lane> next_lane(Worker& worker) {
      Worker::Lease element(worker);
      if (ended_ || !input_->next(*element, worker)) {
        ended_ = true;
        return std::nullopt;
      }
      Dataset dataset = node_.function_(*element);
      std::unique_ptr<Cursor> cursor = dataset.node()->open(pass_, worker);
      return Lane{std::move(dataset), std::move(cursor)};
    }
    void open_lane(Worker& worker) {
      if (std::optional<Lane> lane = next_lane(worker)) lanes_.push_back(std::move(*lane));
    }
    bool replace_lane(Worker& worker) {
      std::optional<Lane> lane = next_lane(worker);
      if (!lane) return false;
      lanes_[turn_].cursor = std::move(lane->cursor);  // before the dataset it refers to goes
      lanes_[turn_].dataset = std::move(lane->dataset);
      pass_turn();
      return true;
    }
    void pass_turn() {
      taken_ = 0;
      turn_ = (turn_ + 1) % lanes_.size();
    }

    const Interleave& node_;
    std::uint64_t pass_, produced_ = 0, taken_ = 0;
    std::unique_ptr<Cursor> input_;
    std::vector<Lane> lanes_;
    std::size_t turn_ = 0;
    bool ended_ = false;
  };

  std::function<Dataset(const Sample&)> function_;
  InterleaveOptions options_;
};

}  // namespace

NodePtr make_generator(GeneratorFactory factory, std::vector<ComponentSpec> spec) {
  return std::make_shared<GeneratorSource>(std::move(factory), std::move(spec));
}
NodePtr make_filter(NodePtr input, FilterFunction keep) {
  return std::make_shared<Filter>(std::move(input), std::move(keep));
}
NodePtr make_stream_shuffle(NodePtr input, std::uint64_t buffer_size, ShuffleOptions options) {
  return std::make_shared<StreamShuffle>(std::move(input), buffer_size, options);
}
NodePtr make_interleave(NodePtr input, std::function<Dataset(const Sample&)> function,
                        InterleaveOptions options) {
  return std::make_shared<Interleave>(std::move(input), std::move(function), options);
}

}  // namespace surefit::data
