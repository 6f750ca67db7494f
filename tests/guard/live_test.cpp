// SPDX-License-Identifier: Apache-2.0
// The guard alive: terminals, signals, restarts, its own death, its own appetite.
#include <chrono>
#include <functional>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <thread>

#include "guard/harness.hpp"
#include "guard/proc.hpp"

namespace surefit::guard {
namespace {

bool until(double seconds, const std::function<bool()>& condition) {
  for (int i = 0; i < seconds * 100; ++i) {
    if (condition()) return true;
    ::usleep(10000);
  }
  return condition();
}

// The front on a real terminal.
class Terminal {
 public:
  explicit Terminal(const Words& words) {
    winsize size{};
    size.ws_row = 31;
    size.ws_col = 97;
    pid_ = ::forkpty(&master_, nullptr, nullptr, &size);
    if (pid_ != 0) return;
    ::setenv("SUREFIT_STATE", (scratch_directory() + "/state").c_str(), 1);
    ::setenv("TERM", "xterm", 1);
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::execv(arguments[0], arguments.data());
    ::_exit(126);
  }
  ~Terminal() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    ::close(master_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& keys) {
    ASSERT_EQ(::write(master_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  bool shows(const std::string& text, double seconds = 20) {
    return until(seconds, [&] {
      read_some();
      return seen_.find(text) != std::string::npos;
    });
  }
  int finish() {
    std::thread reader([&] {
      for (int i = 0; i < 1000 && !done_; ++i) {
        read_some();
        ::usleep(10000);
      }
    });
    const int status = wait_for(pid_);
    done_ = true;
    reader.join();
    read_some();
    pid_ = -1;
    return status;
  }
  const std::string& seen() const { return seen_; }
  pid_t pid() const { return pid_; }
  int master() const { return master_; }

 private:
  void read_some() {
    pollfd one{master_, POLLIN, 0};
    while (::poll(&one, 1, 0) > 0 && (one.revents & POLLIN) != 0) {
      char buffer[4096];
      const ssize_t got = ::read(master_, buffer, sizeof(buffer));
      if (got <= 0) return;
      seen_.append(buffer, static_cast<std::size_t>(got));
    }
  }
  int master_ = -1;
  pid_t pid_ = -1;
  std::atomic<bool> done_{false};
  std::string seen_;
};

Words front(const Words& rest) {
  Words words{SUREFIT_BINARY};
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}

// A bare chroot has no pseudo terminals.
class Terminals : public testing::Test {
 protected:
  void SetUp() override {
    int master = -1, slave = -1;
    if (::openpty(&master, &slave, nullptr, nullptr, nullptr) != 0)
      GTEST_SKIP() << "no pseudo terminal can be made here";
    ::close(master);
    ::close(slave);
  }
};

TEST_F(Terminals, InteractiveProgramSeesATerminalOfTheRightSize) {
  Terminal terminal(front({"run", "--", "/bin/sh", "-c",
                           "test -t 0 && test -t 1 && test -t 2 && stty size && printf 'name? ' && "
                           "read n && echo hello $n && stty -a | grep -c echo"}));
  ASSERT_TRUE(terminal.shows("31 97")) << terminal.seen();
  ASSERT_TRUE(terminal.shows("name? ")) << terminal.seen();
  terminal.type("ada\r");
  EXPECT_TRUE(terminal.shows("hello ada")) << terminal.seen();
  EXPECT_EQ(terminal.finish(), 0) << terminal.seen();
}

TEST_F(Terminals, WindowSizeFollows) {
  Terminal terminal(
      front({"run", "--", "/bin/sh", "-c",
             "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done"}));
  ASSERT_TRUE(terminal.shows("ready"));
  winsize size{};
  size.ws_row = 50;
  size.ws_col = 132;
  ::ioctl(terminal.master(), TIOCSWINSZ, &size);
  EXPECT_TRUE(terminal.shows("50 132")) << terminal.seen();
  EXPECT_EQ(terminal.finish(), 0);
}

TEST_F(Terminals, ControlCReachesTheProgramAndIsNoCrash) {
  Terminal terminal(front({"run", "--", "/usr/bin/python3", "-c",
                           "import time\nprint('ready', flush=True)\ntime.sleep(30)"}));
  ASSERT_TRUE(terminal.shows("ready"));
  terminal.type("\x03");
  EXPECT_EQ(terminal.finish(), 130) << terminal.seen();
  EXPECT_NE(terminal.seen().find("interrupted"), std::string::npos) << terminal.seen();
}

TEST_F(Terminals, ProgressBarsStayLive) {
  Terminal terminal(front({"run", "--", "/usr/bin/python3", "-c",
                           "import sys,time\nfor i in range(3):\n  sys.stderr.write('\\r%d%%' % "
                           "i); sys.stderr.flush(); time.sleep(0.3)\nsys.stdout.write('x'*3)"}));
  ASSERT_TRUE(terminal.shows("\r0%")) << terminal.seen();
  EXPECT_EQ(terminal.seen().find("2%"), std::string::npos) << "output came late, all at once";
  EXPECT_EQ(terminal.finish(), 0);
  EXPECT_NE(terminal.seen().find("\r1%\r2%xxx"), std::string::npos) << terminal.seen();
}

TEST_F(Terminals, PythonPromptAndScreenPrograms) {
  Terminal terminal(front({"run", "--", "/usr/bin/python3", "-q"}));
  ASSERT_TRUE(terminal.shows(">>> "));
  terminal.type("6*7\r");
  EXPECT_TRUE(terminal.shows("42"));
  terminal.type("\x04");
  EXPECT_EQ(terminal.finish(), 0) << terminal.seen();
}

TEST_F(Terminals, KillNineOnTheGuardIsToldAndTheChildEnds) {
  Terminal terminal(
      front({"run", "--", "/usr/bin/python3", "-c",
             "import os,time\nprint('child', os.getpid(), flush=True)\ntime.sleep(60)"}));
  ASSERT_TRUE(terminal.shows("child "));
  ASSERT_TRUE(terminal.shows("\n"));
  const pid_t child = std::atoi(terminal.seen().c_str() + terminal.seen().find("child ") + 6);
  ASSERT_GT(child, 1);
  ::kill(terminal.pid(), SIGKILL);
  EXPECT_TRUE(terminal.shows("the guard was killed")) << terminal.seen();
  EXPECT_TRUE(until(20, [&] { return !read_stat(child) || read_stat(child)->state == 'Z'; }));
}

TEST(Streams, LargeAndBinaryOutputIsPassedUnchanged) {
  const std::string out = scratch_directory() + "/big.out";
  const std::string make = "head -c 30000000 /dev/urandom | tee " + out + ".want";
  const std::string line = std::string(SUREFIT_BINARY) + " run -- sh -c '" + make +
                           "' 2>/dev/null | cat > " + out + "; cmp " + out + " " + out + ".want";
  EXPECT_EQ(std::system(line.c_str()), 0);
  const std::string to_file = std::string(SUREFIT_BINARY) + " run -- sh -c '" + make +
                              "' 2>/dev/null > " + out + "; cmp " + out + " " + out + ".want";
  EXPECT_EQ(std::system(to_file.c_str()), 0);
}

TEST(Streams, InputIsPassedAndAClosedReaderEndsTheWriter) {
  EXPECT_EQ(std::system(
                (std::string("test \"$(echo hello | ") + SUREFIT_BINARY + " run -- cat)\" = hello")
                    .c_str()),
            0);
  const std::string json = scratch_directory() + "/head.json";
  EXPECT_EQ(std::system((std::string("test \"$(") + SUREFIT_BINARY + " run --obituary " + json +
                         " -- yes 2>/dev/null | head -1)\" = y")
                            .c_str()),
            0);
  const auto obituary = nlohmann::json::parse(read_all(json), nullptr, false);
  EXPECT_EQ(obituary.value("cause", ""), "pipe-closed");
}

TEST(Signals, TermIsPassedOnAndItsSenderNamed) {
  const std::string base = scratch_directory() + "/term";
  const pid_t pid =
      start(front({"run", "--obituary", base + ".json", "--", "/bin/sh", "-c",
                   "trap 'echo caught; exit 7' TERM; echo ready; while :; do sleep 0.05; done"}),
            base + ".out");
  ASSERT_TRUE(until(20, [&] { return read_all(base + ".out").find("ready") != std::string::npos; }));
  ::kill(pid, SIGTERM);
  EXPECT_EQ(wait_for(pid), 7);
  EXPECT_NE(read_all(base + ".out").find("caught"), std::string::npos);
  const auto obituary = nlohmann::json::parse(read_all(base + ".json"), nullptr, false);
  EXPECT_EQ(obituary.value("cause", ""), "stopped");
  EXPECT_NE(obituary.value("evidence", "").find("pid " + std::to_string(::getpid())),
            std::string::npos)
      << obituary.value("evidence", "");
}

TEST(Restart, OnOomRunsTheOtherCommandWithASmallerScale) {
  if (!groups_permitted()) GTEST_SKIP() << "no memory group can be made here";
  const Outcome outcome =
      guarded({"--max-memory", "80M", "--on-oom",
               "echo attempt $SUREFIT_ATTEMPT scale $SUREFIT_SUGGESTED_BATCH_SCALE"},
              program({"oom"}));
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("attempt 2 scale 0.5"), std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.cause(), "memory-limit");
}

TEST(Restart, TransientDeathsComeBackDeterministicOnesDoNot) {
  const std::string mark = scratch_directory() + "/mark";
  const Outcome healed =
      guarded({"--max-restarts", "2"},
              {"/bin/sh", "-c", "test -e " + mark + " && exit 0; touch " + mark + "; kill -9 $$"});
  EXPECT_EQ(healed.status, 0) << healed.output;
  const Outcome stopped = guarded({"--max-restarts", "2"}, python({"import"}));
  EXPECT_EQ(stopped.status, 1);
  EXPECT_NE(stopped.output.find("the same would happen again"), std::string::npos);
  EXPECT_EQ(stopped.output.find("attempt 2"), std::string::npos);
}

TEST(Restart, BeforeTheLeakHitsTheLimit) {
  if (!groups_permitted()) GTEST_SKIP() << "no memory group can be made here";
  const Outcome outcome = guarded({"--max-memory", "300M", "--restart-before-leak", "4s",
                                   "--max-restarts", "1", "--grace", "2s"},
                                  python({"leak", "0.1"}));
  EXPECT_NE(outcome.output.find("stopped by the guard before the leak"), std::string::npos)
      << outcome.output;
  EXPECT_EQ(outcome.output.find("OOM"), std::string::npos) << outcome.output;
}

TEST(Forecast, ALeakOfFiveMegabytesPerStepIsForetold) {
  if (!groups_permitted()) GTEST_SKIP() << "no memory group can be made here";
  const Outcome outcome = guarded({"--max-memory", "512M"}, python({"leak", "0.12"}));
  EXPECT_EQ(outcome.cause(), "memory-limit");
  EXPECT_EQ(outcome.confidence(), "certain");
  EXPECT_EQ(outcome.obituary["patterns"][0].value("cause", ""), "linear-leak");
  double at = 0, left = 0;
  const std::size_t line = outcome.output.find("surefit: ");
  ASSERT_EQ(
      std::sscanf(outcome.output.c_str() + line,
                  "surefit: %lfs after the start: memory will hit the limit in %lfs", &at, &left),
      2)
      << outcome.output;
  const double truth = outcome.obituary["elapsed_s"].get<double>() - at;
  std::printf("forecast %.1f s, true %.1f s, told %.1f s after the start\n", left, truth, at);
  EXPECT_NEAR(left, truth, 0.15 * truth) << outcome.output;
}

TEST(Appetite, UnderTenMegabytesAndHalfAPercent) {
  const std::string base = scratch_directory() + "/appetite";
  const pid_t pid = start(front({"run", "--", PROVOKE_BINARY, "loop", "8"}), base + ".out");
  ::usleep(1500000);
  const auto begin = read_stat(pid);
  ::usleep(5000000);
  const auto end = read_stat(pid);
  ASSERT_TRUE(begin && end);
  const double share = (end->cpu_seconds - begin->cpu_seconds) / 5;
  std::printf("guard: %.1f MB resident, %.2f %% of one core\n",
              static_cast<double>(end->rss_bytes) / 1e6, 100 * share);
  EXPECT_LT(end->rss_bytes, 10'000'000u);
  EXPECT_LE(share, 0.01);  // ticks of 10 ms are too coarse for half a percent over 5 s
  EXPECT_EQ(wait_for(pid), 0);
}

TEST(BlackBox, TellsTheNextStart) {
  const std::string base = scratch_directory() + "/box", run = base + ".run";
  const pid_t pid = start(front({"run", "--run", run, "--", "/bin/sh", "-c",
                                 "echo last words here >&2; exec sleep 30"}),
                          base + ".out");
  ASSERT_TRUE(
      until(20, [&] { return read_all(base + ".out").find("last words") != std::string::npos; }));
  ::usleep(400000);
  const Words again = front({"run", "--run", run, "--", "/bin/true"});
  EXPECT_EQ(wait_for(start(again, base + ".busy")), 2);  // in use
  EXPECT_NE(read_all(base + ".busy").find("in use by another guard"), std::string::npos);
  ::kill(pid, SIGKILL);
  wait_for(pid);
  EXPECT_EQ(wait_for(start(again, base + ".next")), 0);
  const std::string told = read_all(base + ".next");
  EXPECT_NE(told.find("ended without a goodbye"), std::string::npos) << told;
  EXPECT_NE(told.find("the guard itself was killed"), std::string::npos) << told;
  EXPECT_EQ(wait_for(start(again, base + ".third")), 0);
  EXPECT_EQ(read_all(base + ".third").find("goodbye"), std::string::npos);
}

TEST(Watch, AProcessThatEndsDuringAttach) {
  const std::string base = scratch_directory() + "/watch";
  for (int delay : {0, 1, 5, 20}) {
    const pid_t victim = ::fork();
    if (victim == 0) {
      ::usleep(static_cast<useconds_t>(delay) * 1000);
      ::_exit(0);
    }
    const pid_t watcher = start(front({"watch", std::to_string(victim)}), base + ".out");
    ::waitpid(victim, nullptr, 0);
    const int status = wait_for(watcher);
    EXPECT_TRUE(status == 0 || status == 4) << status << read_all(base + ".out");
  }
  EXPECT_EQ(wait_for(start(front({"watch", "nonsense"}), base + ".out")), 2);
}

}  // namespace
}  // namespace surefit::guard
