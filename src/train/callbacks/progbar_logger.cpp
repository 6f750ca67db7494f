// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "train/callbacks/progress_line.hpp"

namespace surefit {
namespace {

std::size_t terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 100;
}

void print_plan(const TrainState& state) {
  ProgressLine line;
  line.add("{}\n", state.memory().to_text());
  line.write(STDERR_FILENO);
}

// `clear` takes a half-drawn bar away first.
template <typename... Args>
void say(bool clear, fmt::format_string<Args...> format, Args&&... args) {
  ProgressLine line;
  if (clear) line.add("\r\x1b[K");
  line.add(format, std::forward<Args>(args)...);
  line.add("\n");
  line.write(STDERR_FILENO);
}

void say_resumed(bool clear, const TrainState& state) {
  say(clear, "resuming at step {}, epoch {}/{}", state.step(), state.epoch() + 1, state.epochs());
}

class TerminalProgress final : public Callback {
 public:
  void on_train_begin(TrainState& state) override { print_plan(state); }
  void on_epoch_begin(TrainState& state) override { begin(state); }
  void on_resume(TrainState& state) override {
    say_resumed(true, state);
    if (state.epoch_step() > 0) begin(state);
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

  void on_warning(TrainState&, const std::string& text) override { say(true, "warning: {}", text); }
  void on_plan_change(TrainState&, const std::string& text) override { say(true, "{}", text); }

 private:
  void begin(TrainState& state) {
    started_ = monotonic_seconds();
    first_step_ = state.epoch_step();
    next_ = 0;
    line_.clear();
    line_.add("Epoch {}/{}\n", state.epoch() + 1, state.epochs());
    line_.write(STDERR_FILENO);
  }
  void draw(TrainState& state, const Logs& logs, bool done) {
    const std::int64_t step = state.epoch_step(), total = state.steps_per_epoch();
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
      const std::int64_t seen = step - first_step_;
      const double left =
          seen > 0 ? elapsed / static_cast<double>(seen) * static_cast<double>(total - step) : 0;
      line_.add(" ETA {}s", static_cast<std::int64_t>(std::lround(left)));
    }
    line_.add(" - {:.0f} img/s", state.images_per_second());
    line_.add_logs(logs);
    line_.add_memory();
    line_.add_input(state);
    if (!done)
      line_.truncate(columns);  // a wrapped line cannot be drawn over; the last one may wrap
    line_.add("\x1b[K");
    line_.write(STDERR_FILENO);
  }
  ProgressLine line_;
  double started_ = 0, next_ = 0;
  std::int64_t first_step_ = 0;
};

class PlainProgress final : public Callback {
 public:
  void on_train_begin(TrainState& state) override { print_plan(state); }
  void on_epoch_begin(TrainState&) override { started_ = monotonic_seconds(); }
  void on_resume(TrainState& state) override {
    say_resumed(false, state);
    started_ = monotonic_seconds();
  }
  void on_epoch_end(TrainState& state, const Logs& logs) override {
    ProgressLine line;
    line.add("epoch {}/{} - {:.1f}s - {:.0f} img/s", state.epoch() + 1, state.epochs(),
             monotonic_seconds() - started_, state.images_per_second());
    line.add_logs(logs);
    line.add_memory();
    line.add_input(state);
    line.add("\n");
    line.write(STDERR_FILENO);
  }
  void on_warning(TrainState&, const std::string& text) override {
    say(false, "warning: {}", text);
  }
  void on_plan_change(TrainState&, const std::string& text) override { say(false, "{}", text); }

 private:
  double started_ = 0;
};

}  // namespace

CallbackPtr make_callback(const ProgbarLogger&) {
  if (::isatty(STDERR_FILENO) != 0) return std::make_shared<TerminalProgress>();
  return std::make_shared<PlainProgress>();
}

}  // namespace surefit
