// SPDX-License-Identifier: Apache-2.0
#include "worker/interruption.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <optional>
#include <signal.h>
#include <unistd.h>

#include "surefit/error.hpp"

#include "base/clock.hpp"
#include "base/units.hpp"

namespace surefit::worker {
namespace {

volatile sig_atomic_t caught_signal = 0;

void on_signal(int signal) {
  if (signal == SIGINT && caught_signal == SIGINT) {
    // Whatever is being written is not renamed yet, or whole.
    ::_exit(static_cast<int>(ExitCode::kStopped));
  }
  caught_signal = signal;
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

std::optional<double> number_in_environment(const char* name) {
  const char* text = std::getenv(name);
  double value = 0;
  if (text == nullptr) return std::nullopt;
  const auto [at, error] = std::from_chars(text, text + std::strlen(text), value);
  return error == std::errc{} && *at == '\0' ? std::optional(value) : std::nullopt;
}

class Interruption final : public Callback {
 public:
  explicit Interruption(double deadline_s) : ends_(monotonic_seconds() + seconds_left(deadline_s)) {
    for (const int signal : {SIGTERM, SIGINT}) handle(signal, on_signal);
    handle(SIGHUP, SIG_IGN);
    handle(SIGXFSZ, SIG_IGN);  // a file too large is an error to report, not a death
  }
  ~Interruption() override {
    for (const int signal : {SIGTERM, SIGINT}) handle(signal, SIG_DFL);
  }

  void on_train_batch_end(TrainState& state, const Logs&) override { look(state); }
  void on_test_batch_end(TrainState& state) override { look(state); }
  void on_checkpoint(TrainState&, const CheckpointEvent& event) override {
    save_s_ = std::max(save_s_, event.seconds);
  }

 private:
  void look(TrainState& state) {
    if (caught_signal != 0)
      state.interrupt(caught_signal == SIGINT ? "interrupted (SIGINT)" : "asked to stop (SIGTERM)");
    const double now = monotonic_seconds();
    // What is still to come: one more step, and a save that may take longer than those before.
    if (last_ > 0) step_s_ = std::max(step_s_, now - last_);
    last_ = now;
    if (now + 2 * step_s_ + 3 * save_s_ + 1 >= ends_) state.interrupt("the deadline is near");
  }
  double ends_, last_ = 0, step_s_ = 0, save_s_ = 0;
};

}  // namespace

double seconds_left(double deadline_s) {
  double left = std::numeric_limits<double>::infinity();
  const double now = wall_seconds();
  if (deadline_s > 0)
    left = number_in_environment("SUREFIT_STARTED").value_or(now) + deadline_s - now;
  // SLURM sends SIGTERM only to those who asked for it; the margin is for what comes behind the
  // training.
  constexpr double kMargin = 10;
  if (const auto end = number_in_environment("SLURM_JOB_END_TIME"))
    left = std::min(left, *end - kMargin - now);
  return left;
}

std::unique_ptr<Callback> make_interruption(double deadline_s) {
  return std::make_unique<Interruption>(deadline_s);
}

}  // namespace surefit::worker
