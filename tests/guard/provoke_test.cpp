// SPDX-License-Identifier: Apache-2.0
// Real deaths of real programs: cause, confidence and advice of each, as a table.
#include <cstdio>
#include <sys/mount.h>
#include <sys/stat.h>

#include "guard/harness.hpp"

namespace surefit::guard {
namespace {

struct Row {
  std::string name, cause, confidence, advice;
};
std::vector<Row>& table() {
  static std::vector<Row> rows;
  return rows;
}

class PrintTable : public testing::Environment {
 public:
  void TearDown() override {
    std::printf("\n%-22s %-20s %-10s %s\n", "provoked", "cause", "confidence", "advice");
    for (const Row& row : table()) {
      std::printf("%-22s %-20s %-10s %s\n", row.name.c_str(), row.cause.c_str(),
                  row.confidence.c_str(), row.advice.substr(0, 100).c_str());
    }
  }
};
const auto* const kPrint = testing::AddGlobalTestEnvironment(new PrintTable);

struct Case {
  std::string name;
  Words options, command;
  std::string cause, confidence, advice;  // a part of the advice
  int status = 0;
};

void check(const Case& c) {
  const Outcome outcome = guarded(c.options, c.command);
  table().push_back(
      {c.name, outcome.cause(), outcome.confidence(), outcome.obituary.value("advice", "")});
  EXPECT_EQ(outcome.cause(), c.cause) << c.name << "\n" << outcome.output;
  EXPECT_EQ(outcome.confidence(), c.confidence) << c.name << "\n" << outcome.output;
  EXPECT_NE(outcome.obituary.value("advice", "").find(c.advice), std::string::npos)
      << c.name << "\n"
      << outcome.output;
  EXPECT_EQ(outcome.status, c.status) << c.name << "\n" << outcome.output;
}

bool kernel_log() {
  return ::access("/dev/kmsg", R_OK) == 0 && ::geteuid() == 0;
}

TEST(Provoke, Signals) {
  check({"SIGSEGV", {}, program({"segv"}), "segfault", "certain", "null pointer", 139});
  if (kernel_log())
    check(
        {"stack overflow", {}, program({"stack"}), "stack-overflow", "certain", "ulimit -s", 139});
  check({"SIGILL", {}, program({"ill"}), "illegal-instruction", "certain", "another CPU", 132});
  check({"SIGFPE", {}, program({"fpe"}), "arithmetic", "certain", "divided by zero", 136});
  check({"SIGSYS", {}, program({"sys"}), "forbidden-call", "certain", "seccomp", 159});
  check({"SIGXCPU", {}, program({"xcpu"}), "cpu-time-limit", "certain", "ulimit -t", 137});
  check({"SIGXFSZ", {}, program({"xfsz"}), "file-size-limit", "certain", "ulimit -f", 153});
  check({"SIGPIPE", {}, program({"pipe"}), "pipe-closed", "certain", "head, tee", 141});
  check({"SIGTERM", {}, program({"kill", "15"}), "terminated", "certain", "asked it to stop", 143});
  check({"SIGHUP", {}, program({"kill", "1"}), "hangup", "certain", "tmux", 129});
  check({"external SIGKILL",
         {},
         program({"kill", "9"}),
         "killed",
         oom_counters_readable() ? "probable" : "possible",
         "kill -9",
         137});
  check({"python SIGSEGV", {}, python({"segv"}), "segfault", "certain", "crash in", 139});
}

TEST(Provoke, Aborts) {
  check({"heap corruption", {}, program({"heap"}), "heap-corruption", "certain", "valgrind", 134});
  check(
      {"bad_alloc", {}, program({"bad_alloc"}), "allocation-refused", "certain", "ulimit -v", 134});
  check({"std::terminate",
         {},
         program({"terminate"}),
         "uncaught-exception",
         "certain",
         "exception",
         134});
  check({"abort", {}, program({"abort"}), "abort", "certain", "abort()", 134});
  check({"assertion", {}, program({"assert"}), "assertion", "certain", "assertion", 134});
}

TEST(Provoke, Maps) {
  check({"truncated map",
         {},
         program({"map", scratch_directory()}),
         "truncated-map",
         "probable",
         "shorter",
         135});
}

TEST(Provoke, Python) {
  check({"MemoryError", {}, python({"memory_error"}), "python-memory", "certain", "ulimit -v", 1});
  check({"too large an array", {}, python({"array"}), "array-too-large", "certain", "float32", 1});
  check({"ImportError", {}, python({"import"}), "import-error", "certain", "install", 1});
  check({"uncaught exception",
         {},
         python({"exception"}),
         "python-exception",
         "certain",
         "traceback",
         1});
  check({"recursion", {}, python({"recursion"}), "recursion", "certain", "calls itself", 1});
  check({"NaN, raised", {}, python({"nan_exception"}), "nan-loss", "certain", "learning rate", 1});
  check({"NaN, printed", {}, python({"nan_printed"}), "nan-loss", "probable", "learning rate", 1});
  check({"fd limit", {}, python({"fd_limit"}), "fd-limit", "certain", "ulimit -n", 1});
  check({"missing file", {}, python({"missing"}), "missing-file", "certain", "path", 1});
  check({"worker killed", {}, python({"worker_killed"}), "worker-killed", "probable", "worker", 1});
  check({"worker's message",
         {},
         python({"worker_message"}),
         "worker-killed",
         "certain",
         "num_workers=0",
         1});
  check({"KeyboardInterrupt", {}, python({"interrupt"}), "interrupted", "certain", "nothing", 130});
}

TEST(Provoke, Memory) {
  if (!groups_permitted()) GTEST_SKIP() << "no memory group can be made here";
  check({"cgroup OOM",
         {"--max-memory", "100M"},
         program({"oom"}),
         "memory-limit",
         "certain",
         "batch size",
         137});
  check({"OOM in a shell",
         {"--max-memory", "100M"},
         {"/bin/sh", "-c", std::string(PROVOKE_BINARY) + " oom; exit $?"},
         "memory-limit",
         "certain",
         "batch size",
         137});
  check({"worker OOM",
         {"--max-memory", "100M"},
         program({"worker_oom"}),
         "worker-oom",
         "certain",
         "fewer workers",
         1});
}

std::string first_pattern(const Outcome& outcome) {
  const auto patterns = outcome.obituary.value("patterns", nlohmann::json::array());
  return patterns.empty() ? "none" : patterns[0].value("cause", "");
}

TEST(Provoke, Patterns) {
  const Outcome fragmented = guarded({}, program({"fragment"}));
  table().push_back({"fragmentation", first_pattern(fragmented), "probable", "MALLOC_ARENA_MAX"});
  EXPECT_EQ(first_pattern(fragmented), "fragmentation") << fragmented.output;
  if (!groups_permitted()) GTEST_SKIP() << "no memory group can be made here";
  const Outcome stairs = guarded({"--max-memory", "110M"}, program({"staircase"}));
  table().push_back({"staircase", first_pattern(stairs), "probable", "once per call or epoch"});
  EXPECT_EQ(first_pattern(stairs), "staircase") << stairs.output;
  EXPECT_EQ(stairs.cause(), "memory-limit");
}

// The limit of a container around both: the guard must survive and tell whose limit it was.
TEST(Provoke, LimitOfAnAncestor) {
  const std::string group = "/sys/fs/cgroup/memory/surefit-test-" + std::to_string(::getpid());
  if (!groups_permitted() || ::mkdir(group.c_str(), 0755) != 0)
    GTEST_SKIP() << "no memory group can be made here";
  std::ofstream(group + "/memory.limit_in_bytes") << "100M";
  for (const char* user :
       {"", "setpriv --reuid 65534 --regid 65534 --clear-groups env SUREFIT_STATE=/nowhere "}) {
    const std::string json = testing::TempDir() + "surefit-ancestor.json";
    const std::string line = "sh -c 'echo $$ > " + group + "/cgroup.procs && cd /tmp && exec " +
                             user + SUREFIT_BINARY + " run --obituary " + json + " -- " +
                             PROVOKE_BINARY + " oom' >/dev/null 2>&1";
    ::unlink(json.c_str());
    EXPECT_NE(std::system(line.c_str()), 0);
    const auto obituary = nlohmann::json::parse(read_all(json), nullptr, false);
    ASSERT_TRUE(obituary.is_object()) << line;
    table().push_back({*user == 0 ? "ancestor's limit" : "the same, no rights", obituary["cause"],
                       obituary["confidence"], obituary["evidence"]});
    EXPECT_EQ(obituary["cause"], "memory-limit") << obituary.dump(1);
    EXPECT_EQ(obituary["confidence"], "certain") << obituary.dump(1);
    EXPECT_NE(obituary["evidence"].get<std::string>().find("surefit-test-"), std::string::npos)
        << obituary["evidence"];
    ::unlink(json.c_str());
  }
  ::rmdir(group.c_str());
}

TEST(Provoke, Limits) {
  check({"time limit",
         {"--max-time", "1s", "--grace", "1s"},
         program({"sleep", "60"}),
         "time-limit",
         "certain",
         "--max-time",
         143});
  check({"time limit, deaf",
         {"--max-time", "1s", "--grace", "500ms"},
         {"/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"},
         "time-limit",
         "certain",
         "--max-time",
         137});
  check({"hang",
         {"--hang-timeout", "2s", "--grace", "1s"},
         program({"futex"}),
         "hang",
         "probable",
         "deadlock",
         143});
}

TEST(Provoke, Wrappers) {
  check({"exit 137",
         {},
         {"/bin/sh", "-c", "sleep 0.3; exit 137"},
         "killed",
         oom_counters_readable() ? "probable" : "possible",
         "kill -9",
         137});
  check({"exit 139", {}, {"/bin/sh", "-c", "exit 139"}, "segfault", "probable", "native", 139});
  check({"exit 143",
         {},
         {"/bin/sh", "-c", "exit 143"},
         "wrapped-signal",
         "possible",
         "inside the wrapper",
         143});
  check({"not found in a shell",
         {},
         {"/bin/sh", "-c", "no_such_program_here"},
         "shell-not-found",
         "certain",
         "PATH",
         127});
}

TEST(Provoke, CannotExecute) {
  check(
      {"no such command", {}, {"no_such_program_here"}, "cannot-execute", "certain", "PATH", 127});
  check({"a directory", {}, {"/tmp"}, "cannot-execute", "certain", "executable", 126});
  const std::string script = scratch_directory() + "/script";
  std::ofstream(script) << "#!/no/such/interpreter\n";
  ::chmod(script.c_str(), 0755);
  const Outcome outcome = guarded({}, {script});
  EXPECT_NE(outcome.output.find("interpreter does not exist"), std::string::npos) << outcome.output;
  std::ofstream(script) << std::string(
      "\x7f"
      "ELF\0\0 no program",
      16);
  check({"not a program", {}, {script}, "cannot-execute", "certain", "first line", 126});
  ::chmod(script.c_str(), 0644);
  check({"not executable", {}, {script}, "cannot-execute", "certain", "chmod", 126});
}

// A tiny file system to fill.
class Filled : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = scratch_directory() + "/small";
    ::mkdir(directory_.c_str(), 0755);
    if (::mount("tmpfs", directory_.c_str(), "tmpfs", 0, "size=4m") != 0)
      GTEST_SKIP() << "cannot mount a tmpfs here";
  }
  void TearDown() override { ::umount2(directory_.c_str(), MNT_DETACH); }
  std::string directory_;
};

TEST_F(Filled, DiskFull) {
  ::setenv("TMPDIR", directory_.c_str(), 1);
  check({"disk full",
         {},
         python({"disk_full", directory_}),
         "disk-full",
         "certain",
         "free space",
         1});
  ::unsetenv("TMPDIR");
  check({"disk full elsewhere",
         {},
         python({"disk_full", directory_}),
         "disk-full",
         "probable",
         "df -h",
         1});
}

// SIGBUS on a full /dev/shm needs a private one: a mount namespace of its own.
TEST(Provoke, SharedMemoryFull) {
  if (::geteuid() != 0 || std::system("unshare -m true 2>/dev/null") != 0)
    GTEST_SKIP() << "cannot unshare mounts here";
  for (const auto& [way, confidence] :
       {std::pair{"fill_map", "certain"}, std::pair{"fill_unlinked_map", "probable"}}) {
    const std::string json = scratch_directory() + "/shm.json";
    const std::string line = "unshare -m sh -c 'mount -t tmpfs -o size=8m tmpfs /dev/shm && exec " +
                             std::string(SUREFIT_BINARY) + " run --obituary " + json + " -- " +
                             PROVOKE_BINARY + " " + way + " /dev/shm' >/dev/null 2>&1";
    EXPECT_NE(std::system(line.c_str()), 0);
    const auto obituary = nlohmann::json::parse(read_all(json), nullptr, false);
    ASSERT_TRUE(obituary.is_object());
    table().push_back(
        {"/dev/shm full", obituary["cause"], obituary["confidence"], obituary["advice"]});
    EXPECT_EQ(obituary["cause"], "shm-full") << obituary.dump(1);
    EXPECT_EQ(obituary["confidence"], confidence);
  }
}

TEST(Provoke, ThreadLimit) {
  const std::string group = "/sys/fs/cgroup/pids/surefit-test-" + std::to_string(::getpid());
  if (::mkdir(group.c_str(), 0755) != 0) GTEST_SKIP() << "no pids controller to make a group in";
  std::ofstream(group + "/pids.max") << 60;
  const std::string json = scratch_directory() + "/threads.json";
  const std::string line = "sh -c 'echo $$ > " + group + "/cgroup.procs && exec " + SUREFIT_BINARY +
                           " run --obituary " + json + " -- " + PROVOKE_BINARY +
                           " threads' >/dev/null 2>&1";
  EXPECT_NE(std::system(line.c_str()), 0);
  const auto obituary = nlohmann::json::parse(read_all(json), nullptr, false);
  ::rmdir(group.c_str());
  ASSERT_TRUE(obituary.is_object());
  table().push_back(
      {"thread limit", obituary["cause"], obituary["confidence"], obituary["advice"]});
  EXPECT_EQ(obituary["cause"], "thread-limit") << obituary.dump(1);
  EXPECT_EQ(obituary["confidence"], "certain") << obituary.dump(1);
}

TEST(Healthy, NeverMisdiagnosed) {
  for (const Words& command :
       {Words{"/bin/true"}, Words{"/bin/sh", "-c", "echo fine; echo also fine >&2"},
        python({"caught_then_well"}), python({"exit", "0"})}) {
    const Outcome outcome = guarded({}, command);
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_TRUE(outcome.obituary.is_null()) << outcome.output;
    EXPECT_EQ(outcome.output.find("obituary"), std::string::npos) << outcome.output;
  }
  check({"exit 1 with message",
         {},
         {"/bin/sh", "-c", "echo 'error: accuracy below target' >&2; exit 1"},
         "exited",
         "certain",
         "own message",
         1});
  check({"exit 3, silent", {}, {"/bin/sh", "-c", "exit 3"}, "exited", "certain", "own message", 3});
  check({"handled errors, exit 1",
         {},
         python({"caught_then_fails"}),
         "exited",
         "certain",
         "own message",
         1});
}

TEST(Guard, EndsWhatIsLeftOver) {
  const Outcome outcome = guarded({"--grace", "1s"}, program({"orphan"}));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_NE(outcome.output.find("left over: ended"), std::string::npos) << outcome.output;
}

TEST(Guard, StateDirectoryWithoutPermissionCostsOnlyTheTraces) {
  const Outcome outcome = guarded({"--run", "/proc/nothing"}, {"/bin/sh", "-c", "exit 4"});
  EXPECT_EQ(outcome.status, 4);
  EXPECT_NE(outcome.output.find("cannot write to /proc/nothing"), std::string::npos)
      << outcome.output;
  EXPECT_EQ(outcome.cause(), "exited");
}

}  // namespace
}  // namespace surefit::guard
