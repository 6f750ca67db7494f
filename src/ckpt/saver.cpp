// SPDX-License-Identifier: Apache-2.0
#include "ckpt/saver.hpp"

#include <cerrno>
#include <ctime>
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include "surefit/error.hpp"

#include "base/clock.hpp"

namespace surefit {
namespace {

double thread_cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

bool disk_full(const SystemError& error) {
  return error.error_number() == ENOSPC || error.error_number() == EDQUOT;
}

}  // namespace

Saver::Saver(Env& env, const std::string& directory, int keep, std::vector<SafetensorsSpec> tensors)
    : env_(env), tensors_(std::move(tensors)), generations_(env, directory, keep) {
  // Signals belong to the training thread.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Saver::~Saver() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool Saver::busy() const {
  const std::lock_guard lock(mutex_);
  return busy_;
}

void Saver::start(std::uint64_t step, std::string& state, TensorSource& source) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !busy_; });
  step_ = step;
  state_.swap(state);
  source_ = &source;
  busy_ = true;
  lock.unlock();
  changed_.notify_all();
}

void Saver::reserve_state(std::string state) {
  const std::lock_guard lock(mutex_);
  if (!busy_) state_ = std::move(state);
}

void Saver::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !busy_; });
}

std::optional<SaveReport> Saver::take_report() {
  const std::lock_guard lock(mutex_);
  std::optional<SaveReport> report;
  report.swap(report_);
  return report;
}

SaveReport Saver::save_now(std::uint64_t step, const std::string& state, TensorSource& source) {
  wait();
  return write(step, state, source);
}

void Saver::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return busy_ || stop_; });
    if (!busy_) return;
    lock.unlock();
    SaveReport report = write(step_, state_, *source_);
    lock.lock();
    report_ = std::move(report);
    busy_ = false;
    changed_.notify_all();
  }
}

SaveReport Saver::write(std::uint64_t step, std::string_view state, TensorSource& source) {
  SaveReport report;
  report.step = step;
  const double started = monotonic_seconds(), cpu = thread_cpu_seconds();
  try {
    // Room for the new one comes first from generations beyond two, then from all but the newest.
    for (const int left : {2, 1, 0}) {
      try {
        write_once(step, state, source, report);
        break;
      } catch (const SystemError& error) {
        if (!disk_full(error) || left == 0) throw;
        const int removed = generations_.prune_to(left);
        report.problem = fmt::format("{}; removed {} older checkpoint{} to make room", error.what(),
                                     removed, removed == 1 ? "" : "s");
      }
    }
  } catch (const NotFinite& error) {
    report.not_finite = true;
    report.problem = error.what();
  } catch (const Error& error) {
    report.problem = error.what();
  } catch (const std::exception& error) {  // no memory, say: the training may still go on
    report.problem = fmt::format("[checkpoint] {}", error.what());
  }
  report.seconds = monotonic_seconds() - started;
  report.cpu_seconds = thread_cpu_seconds() - cpu;
  return report;
}

void Saver::write_once(std::uint64_t step, std::string_view state, TensorSource& source,
                       SaveReport& report) {
  env_.make_directories(generations_.directory());
  report.bytes = write_checkpoint(env_, generations_.path_of(step),
                                  {.tensors = tensors_, .step = step, .state = state}, source);
  report.saved = true;
  generations_.add(step);
  try {
    generations_.prune();
  } catch (const SystemError& error) {
    report.problem = error.what();
  }
}

}  // namespace surefit
