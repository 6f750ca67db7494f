// SPDX-License-Identifier: Apache-2.0
#include "worker/progress.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/process_memory.hpp"
#include "base/units.hpp"

namespace surefit {
namespace {

// Formats into one fixed buffer: the progress of a step must not allocate.
class Line {
 public:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    const std::size_t room = text_.size() - size_;
    const auto result =
        fmt::format_to_n(text_.data() + size_, room, format, std::forward<Args>(args)...);
    size_ += std::min(result.size, room);
  }
  void add_logs(const Logs& logs) {
    for (const auto& [name, value] : logs) add(" - {}: {:.4f}", name, value);
  }
  std::size_t size() const { return size_; }
  void clear() { size_ = 0; }
  void truncate(std::size_t size) { size_ = std::min(size_, size); }
  void write(int fd) const {
    std::size_t done = 0;
    while (done < size_) {
      const ssize_t put = ::write(fd, text_.data() + done, size_ - done);
      if (put <= 0) return;
      done += static_cast<std::size_t>(put);
    }
  }

 private:
  std::array<char, 2048> text_{};
  std::size_t size_ = 0;
};

void add_memory(Line& line) {
  line.add(" - {:.0f} MiB", static_cast<double>(read_process_memory().resident_bytes) / 0x1p20);
}

// Only where it matters: networks that train slower than their data come are the rule.
void add_input(Line& line, const TrainState& state) {
  if (state.input_share() > 0.01) line.add(" - input {:.0f}%", state.input_share() * 100);
  if (state.input_stall() > 0.01) line.add(" (stall {:.0f}%)", state.input_stall() * 100);
}

std::size_t terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 100;
}

class TerminalProgress final : public Callback {
 public:
  void on_epoch_begin(TrainState& state) override {
    started_ = monotonic_seconds();
    first_step_ = state.step();
    next_ = 0;
    line_.clear();
    line_.add("Epoch {}/{}\n", state.epoch() + 1, state.epochs());
    line_.write(STDERR_FILENO);
  }
  void on_train_batch_end(TrainState& state, const Logs& logs) override {
    const double now = monotonic_seconds();
    if (now < next_) return;
    next_ = now + 0.1;
    draw(state, logs, false);
  }
  void on_epoch_end(TrainState& state, const Logs& logs) override {
    draw(state, logs, true);
    line_.clear();
    line_.add("\n");
    line_.write(STDERR_FILENO);
  }

 private:
  void draw(TrainState& state, const Logs& logs, bool done) {
    const std::int64_t step = state.step() - first_step_, total = state.steps_per_epoch();
    const double elapsed = monotonic_seconds() - started_;
    line_.clear();
    line_.add("\r{}", step);
    if (total > 0) line_.add("/{}", total);
    line_.add(" ");
    const std::size_t columns = terminal_columns();
    // The bar gives way to the numbers: a short one on narrow terminals, none once the epoch is
    // over.
    if (total > 0 && !done) {
      const std::int64_t width = columns >= 110 ? 24 : 10;
      const std::int64_t full = std::min(width, step * width / total);
      line_.add("[");
      for (std::int64_t i = 0; i < width; ++i)
        line_.add("{}", i < full ? '=' : i == full ? '>' : '.');
      line_.add("]");
    }
    if (done || total == 0) {
      line_.add("- {:.1f}s", elapsed);
    } else {
      const double left =
          step > 0 ? elapsed / static_cast<double>(step) * static_cast<double>(total - step) : 0;
      line_.add(" ETA {}s", static_cast<std::int64_t>(std::lround(left)));
    }
    line_.add(" - {:.0f} img/s", state.images_per_second());
    line_.add_logs(logs);
    add_memory(line_);
    add_input(line_, state);
    if (!done)
      line_.truncate(columns);  // a wrapped line cannot be drawn over; the last one may wrap
    line_.add("\x1b[K");
    line_.write(STDERR_FILENO);
  }
  Line line_;
  double started_ = 0, next_ = 0;
  std::int64_t first_step_ = 0;
};

class PlainProgress final : public Callback {
 public:
  void on_epoch_begin(TrainState&) override { started_ = monotonic_seconds(); }
  void on_epoch_end(TrainState& state, const Logs& logs) override {
    Line line;
    line.add("epoch {}/{} - {:.1f}s - {:.0f} img/s", state.epoch() + 1, state.epochs(),
             monotonic_seconds() - started_, state.images_per_second());
    line.add_logs(logs);
    add_memory(line);
    add_input(line, state);
    line.add("\n");
    line.write(STDERR_FILENO);
  }

 private:
  double started_ = 0;
};

class JsonProgress final : public Callback {
 public:
  void on_train_batch_end(TrainState& state, const Logs& logs) override {
    const double now = monotonic_seconds();
    if (now < next_) return;
    next_ = now + 1;
    event("step", state, logs);
  }
  void on_epoch_end(TrainState& state, const Logs& logs) override { event("epoch", state, logs); }

 private:
  static void number(Line& line, double value) {
    std::isfinite(value) ? line.add("{}", value) : line.add("null");
  }
  void event(const char* kind, TrainState& state, const Logs& logs) {
    Line line;
    line.add("{{\"event\":\"{}\",\"time\":{:.3f},\"epoch\":{},\"step\":{}", kind, wall_seconds(),
             state.epoch() + 1, state.step());
    for (const bool validation : {false, true}) {
      bool open = false;
      for (const auto& [name, value] : logs) {
        const bool is_validation = name.rfind("val_", 0) == 0;
        if (is_validation != validation) continue;
        if (!validation && name == "loss") {
          line.add(",\"loss\":");
          number(line, value);
          continue;
        }
        line.add("{}", open ? "," : validation ? ",\"val\":{" : ",\"metrics\":{");
        line.add("\"{}\":", std::string_view(name).substr(validation ? 4 : 0));
        number(line, value);
        open = true;
      }
      if (open) line.add("}}");
    }
    line.add(
        ",\"images_per_s\":{:.1f},\"input_share\":{:.4f},\"input_stall\":{:.4f},\"memory_bytes\":{}"
        "}}\n",
        state.images_per_second(), state.input_share(), state.input_stall(),
        read_process_memory().resident_bytes);
    line.write(STDOUT_FILENO);
  }
  double next_ = 0;
};

}  // namespace

std::unique_ptr<Callback> make_progress(ProgressStyle style) {
  if (style == ProgressStyle::kQuiet) return std::make_unique<Callback>();
  if (style == ProgressStyle::kJson) return std::make_unique<JsonProgress>();
  if (::isatty(STDERR_FILENO) != 0) return std::make_unique<TerminalProgress>();
  return std::make_unique<PlainProgress>();
}

}  // namespace surefit
