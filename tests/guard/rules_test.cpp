// SPDX-License-Identifier: Apache-2.0
// Rules on evidence written down by hand: deaths no test machine can provoke, and what must not be
// concluded.
#include <set>
#include <signal.h>

#include <gtest/gtest.h>

#include "guard/diagnosis.hpp"
#include "guard/heal.hpp"
#include "guard/kernel_log.hpp"
#include "guard/words.hpp"

namespace surefit::guard {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

// A process killed by SIGKILL in a group of the guard's own, limit 1,024 MiB, half used, counters
// still.
Evidence killed_evidence() {
  Evidence e;
  e.command = "python3 train.py";
  e.program = "python3";
  e.exit = {.signaled = true, .number = SIGKILL};
  e.elapsed_s = 100;
  e.limit = 1024 * kMiB;
  e.used_last = e.rss_peak = e.rss_last = 500 * kMiB;
  e.mem_total = 16384 * kMiB;
  e.mem_available = 8000 * kMiB;
  MemoryChange group;
  group.own = true;
  group.begin.path = group.end.path = "/sys/fs/cgroup/memory/surefit-1-1";
  group.begin.limit = group.end.limit = 1024 * kMiB;
  group.begin.oom_kill = group.end.oom_kill = 0;
  group.begin.failures = group.end.failures = 0;
  group.end.peak = 510 * kMiB;
  e.groups = {group};
  e.host_oom_kills = 0;
  e.kernel_log_readable = true;
  return e;
}

Verdict verdict(const Evidence& e) {
  return diagnose(e).verdict;
}

TEST(Rules, CgroupOomIsCertainByCounter) {
  Evidence e = killed_evidence();
  e.groups[0].end.oom_kill = 1;
  e.groups[0].end.failures = 40;
  e.groups[0].end.peak = 1024 * kMiB;
  e.used_last = e.rss_peak = 1020 * kMiB;
  e.curve = {.shape = Shape::kLinear,
             .bytes_per_second = 3.1 * kMiB,
             .grown_bytes = 900.0 * kMiB,
             .seconds = 300};
  const Verdict v = verdict(e);
  EXPECT_EQ(v.cause, "memory-limit");
  EXPECT_EQ(v.confidence, Confidence::kCertain);
  EXPECT_NE(v.evidence.find("peak 1,024 of 1,024 MiB, growing 3.1 MiB/s"), std::string::npos)
      << v.evidence;
  EXPECT_NE(v.advice.find("leak"), std::string::npos);
  ASSERT_FALSE(diagnose(e).patterns.empty());
  EXPECT_EQ(diagnose(e).patterns[0].cause, "linear-leak");
}

TEST(Rules, OomIsNeverCertainWithHiddenCounters) {
  Evidence e = killed_evidence();
  e.groups[0].own = false;
  e.groups[0].begin.oom_kill.reset();
  e.groups[0].end.oom_kill.reset();
  e.kernel_log_readable = false;
  e.used_last = 1020 * kMiB;
  EXPECT_EQ(verdict(e).cause, "memory-limit");
  EXPECT_EQ(verdict(e).confidence, Confidence::kProbable);
  e.used_last = 300 * kMiB;
  EXPECT_EQ(verdict(e).cause, "killed");
  EXPECT_EQ(verdict(e).confidence, Confidence::kPossible);
  e.groups.clear();
  e.limit = kNoLimit;
  EXPECT_EQ(verdict(e).cause, "killed");
  EXPECT_EQ(verdict(e).confidence, Confidence::kPossible);
}

TEST(Rules, FullGroupWithStillCountersIsNotOom) {
  Evidence e = killed_evidence();
  e.used_last = 1023 * kMiB;
  e.groups[0].end.peak = 1024 * kMiB;
  EXPECT_EQ(verdict(e).cause, "killed");
  EXPECT_NE(verdict(e).evidence.find("not memory"), std::string::npos);
}

TEST(Rules, NeverOomOn137Alone) {
  Evidence e;
  for (const bool signaled : {true, false}) {
    e.exit = {.signaled = signaled, .number = signaled ? SIGKILL : 137};
    const Verdict v = verdict(e);
    EXPECT_EQ(v.cause, "killed");
    EXPECT_EQ(v.confidence, Confidence::kPossible);
    EXPECT_EQ(v.title.find("memory"), std::string::npos);
  }
}

TEST(Rules, HostOom) {
  Evidence e = killed_evidence();
  e.mem_available = 100 * kMiB;
  e.groups[0].end.oom_kill = 1;  // our member, but no limit of ours was hit
  e.host_oom_kills = 1;
  EXPECT_EQ(verdict(e).cause, "host-memory");
  EXPECT_EQ(verdict(e).confidence, Confidence::kCertain);

  e.groups[0].end.oom_kill = 0;
  auto record =
      parse_kernel_record("Out of memory: Killed process 7 (python3) total-vm:1kB, anon-rss:2kB");
  ASSERT_TRUE(record.has_value());
  e.kernel = {*record};
  EXPECT_EQ(verdict(e).cause, "host-memory");
  EXPECT_EQ(verdict(e).confidence, Confidence::kCertain);

  // Without a group or a log: the machine's counter and no memory left make it probable, not
  // certain.
  e.kernel.clear();
  e.groups.clear();
  EXPECT_EQ(verdict(e).cause, "host-memory");
  EXPECT_EQ(verdict(e).confidence, Confidence::kProbable);
  // Somebody else's OOM kill while memory is plentiful is not ours.
  e.mem_available = 9000 * kMiB;
  EXPECT_EQ(verdict(e).cause, "killed");
}

TEST(Rules, V2LimitOfAnAncestor) {
  Evidence e = killed_evidence();
  e.groups[0].end.v2 = true;
  e.groups[0].begin.limit = e.groups[0].end.limit = kNoLimit;
  e.groups[0].begin.oom = e.groups[0].end.oom = 0;
  e.groups[0].end.oom_kill = 1;
  MemoryChange parent = e.groups[0];
  parent.own = false;
  parent.end.path = "/sys/fs/cgroup/kubepods/pod7";
  parent.begin.limit = parent.end.limit = 2048 * kMiB;
  parent.end.oom = 1;
  parent.end.peak = 2048 * kMiB;
  e.groups.push_back(parent);
  const Verdict v = verdict(e);
  EXPECT_EQ(v.cause, "memory-limit");
  EXPECT_EQ(v.confidence, Confidence::kCertain);
  EXPECT_NE(v.evidence.find("/pod7"), std::string::npos) << v.evidence;
}

TEST(Rules, OomDaemonUnderPressure) {
  Evidence e = killed_evidence();
  e.memory_full_peak = 35;
  e.mem_available = 300 * kMiB;
  EXPECT_EQ(verdict(e).cause, "oom-daemon");
  EXPECT_EQ(verdict(e).confidence, Confidence::kProbable);
}

TEST(Rules, StackOverflowNeedsTheAddress) {
  Evidence e;
  e.exit = {.signaled = true, .number = SIGSEGV};
  EXPECT_EQ(verdict(e).cause, "segfault");  // no log: not even probable without a sign of recursion
  for (int i = 0; i < 60; ++i) e.stderr_tail += "  File \"a.py\", line 3 in f\n";
  EXPECT_EQ(verdict(e).cause, "stack-overflow");
  EXPECT_EQ(verdict(e).confidence, Confidence::kProbable);
  e.kernel = {
      *parse_kernel_record("python3[9]: segfault at 7ffd3d2f1c9c ip 000055bfa7083134 sp "
                           "00007ffd3d2f1c90 error 6 in libfoo.so[1134,55b+1000]")};
  EXPECT_EQ(verdict(e).confidence, Confidence::kCertain);
  e.kernel = {
      *parse_kernel_record("python3[9]: segfault at 10 ip 000055bfa7083134 sp 00007ffd3d2f1c90 "
                           "error 6 in libfoo.so[1134,55b+1000]")};
  EXPECT_EQ(verdict(e).cause, "segfault");
  EXPECT_NE(verdict(e).advice.find("libfoo.so"), std::string::npos);
}

TEST(Rules, SessionLimits) {
  Evidence e = killed_evidence();
  e.environment["KAGGLE_KERNEL_RUN_TYPE"] = "Batch";
  e.elapsed_s = 12 * 3600 - 20;
  EXPECT_EQ(verdict(e).cause, "session-limit");
  e.elapsed_s = 3 * 3600;
  EXPECT_EQ(verdict(e).cause, "killed");
}

TEST(Rules, TextOfTheCatalogue) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "gpu-memory"},
      {"tensorflow.python.framework.errors_impl.UnknownError: Could not create cudnn handle: "
       "CUDNN_STATUS_INTERNAL_ERROR",
       "gpu"},
      {"numpy.core._exceptions._ArrayMemoryError: Unable to allocate 7.5 GiB for an array with "
       "shape (1, 2) and data type float64",
       "array-too-large"},
      {"OSError: [Errno 24] Too many open files: 'x.jpg'", "fd-limit"},
      {"RuntimeError: received 0 items of ancdata", "fd-limit"},
      {"OSError: [Errno 28] No space left on device", "disk-full"},
      {"RuntimeError: [enforce fail at inline_container.cc:300] . PytorchStreamWriter failed "
       "writing file data/2",
       "disk-full"},
      {"RuntimeError: DataLoader worker (pid 4242) is killed by signal: Bus error. It is possible "
       "that dataloader's workers are out of shared memory",
       "worker-killed"},
      {"OSError: image file is truncated (3 bytes not processed)", "bad-sample"},
      {"RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central "
       "directory",
       "corrupt-file"},
      {"EOFError: Ran out of input", "corrupt-file"},
      {"BlockingIOError: [Errno 11] Unable to open file (unable to lock file, errno = 11)",
       "io-error"},
      {"FileExistsError: [Errno 17] File exists: '/000010_locals'", "stale-shm"},
      {"FileExistsError: [Errno 17] File exists: '/data/run/x'", "python-exception"},
      {"ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory",
       "import-error"},
      {"RuntimeError: can't start new thread", "thread-limit"},
      {"OSError: [Errno 12] Cannot allocate memory", "fork-memory"},
      {"ConnectionResetError: [Errno 104] Connection reset by peer", "network"},
      {"FloatingPointError: loss is nan, stopping training", "nan-loss"},
      {"ValueError: name 'nancy' is not known", "python-exception"},
      {"KeyError: 'loss'", "python-exception"},
      {"ValueError: Input contains NaN", "python-exception"},
      {"ValueError: gradients are not finite", "nan-loss"},
      {"PermissionError: [Errno 13] Permission denied: '/root/x'", "permission"},
  };
  for (const auto& [line, cause] : cases) {
    Evidence e;
    e.exit.number = 1;
    e.stderr_tail =
        "Traceback (most recent call last):\n  File \"t.py\", line 3, in <module>\n    main()\n" +
        line + "\n";
    EXPECT_EQ(verdict(e).cause, cause) << line;
  }
}

TEST(Rules, NativeTexts) {
  Evidence e;
  e.exit = {.signaled = true, .number = SIGABRT};
  e.stderr_tail =
      "OMP: Error #15: Initializing libiomp5.so, but found libgomp.so.1 already initialized.\n";
  EXPECT_EQ(verdict(e).cause, "duplicate-openmp");
  e.stderr_tail = "2026-01-01 F tensorflow/core/framework/tensor.cc:681] Check failed: 1 == 2\n";
  EXPECT_EQ(verdict(e).cause, "framework-check");
  e.exit = {.signaled = true, .number = SIGBUS};
  e.kernel = {
      *parse_kernel_record("Memory failure: 0x12345: recovery action for dirty page: Failed")};
  EXPECT_EQ(verdict(e).cause, "bad-ram");
}

TEST(Rules, EarlierTroubleIsNotTheCause) {
  Evidence e;
  e.exit.number = 1;
  e.stderr_tail =
      "Traceback (most recent call last):\n  File \"t.py\", line 3, in f\nMemoryError: handled and "
      "logged\n";
  for (int i = 0; i < 30; ++i) e.stderr_tail += "step " + std::to_string(i) + "\n";
  e.stderr_tail += "error: target accuracy not reached\n";
  EXPECT_EQ(verdict(e).cause, "exited");
}

TEST(Rules, OwnTrainerStatuses) {
  Evidence e;
  e.own_trainer = true;
  for (const int status : {2, 3, 5, 6, 70, 75}) {
    e.exit.number = status;
    EXPECT_EQ(verdict(e).cause, "trainer");
    EXPECT_EQ(verdict(e).retry, Retry::kNever);
  }
}

TEST(Rules, EveryDeathGetsAVerdictAndCausesAreNamedOnce) {
  for (int number = 1; number < 256; ++number) {
    Evidence e;
    e.exit.number = number;
    EXPECT_FALSE(verdict(e).cause.empty());
    if (number < 65) {
      e.exit.signaled = true;
      EXPECT_FALSE(verdict(e).cause.empty());
      EXPECT_FALSE(verdict(e).advice.empty());
    }
  }
  std::set<std::string> seen;
  for (const Rule& rule : death_rules())
    EXPECT_TRUE(seen.insert(std::string(rule.title)).second) << rule.title;
}

TEST(Words, NanLosses) {
  for (const char* line : {"loss: nan", "step 3 loss=nan acc 0.1", "val_loss: inf",
                           "{\"loss\": NaN}", "train loss: -inf", "Loss is nan"})
    EXPECT_TRUE(tells_nan_loss(line)) << line;
  for (const char* line : {"loss: 0.31", "lossless nan", "no loss of information", "loss: info",
                           "nan values: 0, loss 0.2", "loss: nano"})
    EXPECT_FALSE(tells_nan_loss(line)) << line;
}

TEST(Words, ProgressBarsAndEscapesAreCleaned) {
  const auto lines = last_lines("\x1b[31mred\x1b[0m\n 10%\r 20%\r100%\n\x1b]0;title\aend\n", 10);
  EXPECT_EQ(lines, (std::vector<std::string>{"red", " 10%", " 20%", "100%", "end"}));
}

Verdict of(const char* cause, Retry retry) {
  return {cause, cause, Confidence::kCertain, "", "", retry};
}

TEST(Heal, Policy) {
  const HealPolicy policy{.max_restarts = 5};
  std::vector<Attempt> attempts{{"import-error", 0, false, 1}};
  EXPECT_FALSE(decide(policy, attempts, of("import-error", Retry::kNever)).restart);
  attempts = {{"killed", 0, false, 10}};
  EXPECT_TRUE(decide(policy, attempts, of("killed", Retry::kTransient)).restart);
  EXPECT_EQ(decide(policy, attempts, of("killed", Retry::kTransient)).wait_s, 1);
  attempts.push_back({"killed", 0, false, 50});
  EXPECT_EQ(decide(policy, attempts, of("killed", Retry::kTransient)).wait_s, 2);
  EXPECT_FALSE(decide({}, attempts, of("killed", Retry::kTransient)).restart);
  EXPECT_TRUE(decide(policy, attempts, of("memory-limit", Retry::kLessMemory)).after_oom);
}

TEST(Heal, PoisonAtTheSameStep) {
  const HealPolicy policy{.max_restarts = 9};
  std::vector<Attempt> attempts{
      {"segfault", 40, true, 10}, {"segfault", 40, true, 3}, {"segfault", 40, true, 3}};
  const Decision decision = decide(policy, attempts, of("segfault", Retry::kTransient));
  EXPECT_FALSE(decision.restart);
  EXPECT_NE(decision.reason.find("step 40"), std::string::npos);
  attempts.back().step = 41;
  EXPECT_TRUE(decide(policy, attempts, of("segfault", Retry::kTransient)).restart);
}

TEST(Heal, BudgetOnlyGoesDown) {
  EXPECT_LT(lower_budget(1000 * kMiB, 2000 * kMiB), 900 * kMiB);
  EXPECT_LT(lower_budget(1000 * kMiB, 500 * kMiB), 500 * kMiB);
  EXPECT_GE(lower_budget(1, 1), kMiB);
}

}  // namespace
}  // namespace surefit::guard
