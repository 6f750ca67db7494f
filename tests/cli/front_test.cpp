// SPDX-License-Identifier: Apache-2.0
// The front with a worker of straw: what it hands over, how it brings a trainer back.
#include <filesystem>
#include <sys/stat.h>

#include "guard/harness.hpp"
#include "run/heartbeat.hpp"

namespace surefit::guard {
namespace {

namespace fs = std::filesystem;

class Front : public testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        scratch_directory() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::create_directories(directory_);
    worker_ = directory_ + "/worker";
    ::setenv("SUREFIT_WORKER", worker_.c_str(), 1);
    fs::current_path(directory_);
  }
  void TearDown() override {
    fs::current_path("/");
    ::unsetenv("SUREFIT_WORKER");
  }
  void worker(const std::string& body) {
    std::ofstream(worker_) << "#!/bin/sh\n" << body << "\n";
    ::chmod(worker_.c_str(), 0755);
  }
  int run(const Words& words) {
    Words all{SUREFIT_BINARY};
    all.insert(all.end(), words.begin(), words.end());
    const int status = wait_for(start(all, directory_ + "/out"));
    output_ = read_all(directory_ + "/out");
    return status;
  }
  bool said(const std::string& text) const { return output_.find(text) != std::string::npos; }
  std::string directory_, worker_, output_;
};

TEST_F(Front, HelpVersionAndMistakes) {
  EXPECT_EQ(run({"--help"}), 0);
  EXPECT_TRUE(said("surefit run -- python3 train.py"));
  EXPECT_EQ(run({"--version"}), 0);
  EXPECT_EQ(run({}), 0);
  for (const char* verb : {"run", "watch", "doctor", "runs"}) {
    EXPECT_EQ(run({verb, "--help"}), 0) << verb;
    EXPECT_TRUE(said("example")) << verb;
  }
  EXPECT_EQ(run({"--nonsense"}), 2);
  EXPECT_EQ(run({"run"}), 2);
  EXPECT_EQ(run({"run", "--nonsense", "x"}), 2);
  EXPECT_TRUE(said("--nonsense")) << output_;
  EXPECT_EQ(run({"run", "--max-memory", "lots", "--", "true"}), 2);
  EXPECT_EQ(run({"runs", "show", "/nowhere"}), 2);
}

TEST_F(Front, MissingWorkerIsAClearError) {
  ::unsetenv("SUREFIT_WORKER");
  if (run({"plan"}) == 0) GTEST_SKIP() << "the worker is built";
  EXPECT_TRUE(said("surefit-train") || !output_.empty()) << output_;
}

TEST_F(Front, OtherVerbsAreHandedOverAsTheyAre) {
  worker("echo \"[$*]\"; exit 3");
  EXPECT_EQ(run({"plan", "--memory", "1G", "a b"}), 3);
  EXPECT_TRUE(said("[plan --memory 1G a b]")) << output_;
  EXPECT_FALSE(said("obituary"));
  EXPECT_EQ(run({"train", "--no-guard", "--epochs", "1"}), 3);
  EXPECT_TRUE(said("[train --epochs 1]")) << output_;
  EXPECT_EQ(run({"train", "--help"}), 3);
  EXPECT_TRUE(said("[train --help]")) << output_;
}

TEST_F(Front, TrainGetsARunDirectory) {
  worker("echo \"[$*]\"");
  EXPECT_EQ(run({"train", "--model", "seed_cnn:classes=10"}), 0);
  EXPECT_TRUE(said("--run runs/seed_cnn-")) << output_;
  EXPECT_EQ(run({"train", "--run=here"}), 0);
  EXPECT_TRUE(said("[train --run=here]")) << output_;
  EXPECT_TRUE(fs::exists("here/blackbox"));
}

TEST_F(Front, ResumeTakesTheNewestRun) {
  fs::create_directories("runs/old-1");
  fs::create_directories("runs/new-2");
  std::ofstream("runs/old-1/config.json") << "{}";
  std::ofstream("runs/new-2/config.json") << "{}";
  fs::last_write_time("runs/old-1/config.json",
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  worker("echo \"[$*]\"");
  EXPECT_EQ(run({"train", "--resume"}), 0);
  EXPECT_TRUE(said("[train --resume --run runs/new-2]")) << output_;
}

TEST_F(Front, DeliberateStopsAreNotRestartedAndBrief) {
  for (const int status : {2, 3, 5, 6, 75}) {
    worker("echo 'trainer: my reason' >&2; exit " + std::to_string(status));
    EXPECT_EQ(run({"train", "--run", std::string("r").append(std::to_string(status))}), status);
    EXPECT_FALSE(said("obituary")) << output_;
    EXPECT_FALSE(said("restarting")) << output_;
  }
  EXPECT_FALSE(fs::exists("r2")) << "a refused command line leaves nothing behind";
  EXPECT_TRUE(fs::exists("r75/obituary.json"));
}

TEST_F(Front, KilledTrainerIsResumed) {
  worker("echo \"[$*]\"; test -e mark && exit 0; touch mark; kill -9 $$");
  EXPECT_EQ(run({"train", "--run", "r", "--memory", "1G"}), 0);
  EXPECT_TRUE(said("[train --run r --memory 1G --resume]")) << output_;
}

TEST_F(Front, OomKilledTrainerGetsALowerBudget) {
  const std::string group = "/sys/fs/cgroup/memory/surefit-cli-" + std::to_string(::getpid());
  if (::mkdir(group.c_str(), 0755) != 0) GTEST_SKIP() << "no memory group can be made here";
  std::ofstream(group + "/memory.limit_in_bytes") << "120M";
  worker(
      "echo \"[$*]\"; case \"$*\" in *--resume*) exit 0;; esac; exec /usr/bin/python3 -c 'b = "
      "bytearray(1 << 30)'");
  const std::string line = "sh -c 'echo $$ > " + group + "/cgroup.procs; exec " + SUREFIT_BINARY +
                           " train --memory 1G --run r' > out 2>&1";
  EXPECT_EQ(std::system(line.c_str()), 0);
  ::rmdir(group.c_str());
  output_ = read_all("out");
  unsigned long long budget = 0;
  const std::size_t at = output_.find("--resume --memory ");
  ASSERT_NE(at, std::string::npos) << output_;
  ASSERT_EQ(std::sscanf(output_.c_str() + at, "--resume --memory %llu", &budget), 1);
  EXPECT_LT(budget, 120u << 20);
  EXPECT_GT(budget, 40u << 20);
  EXPECT_EQ(output_.find("--memory 1G", at), std::string::npos) << output_;
}

TEST_F(Front, RunsAreListedAndShown) {
  worker("exit 75");
  EXPECT_EQ(run({"train", "--run", "runs/mine"}), 75);
  HeartbeatWriter("runs/mine/heartbeat").beat({.pid = 1, .step = 77});
  EXPECT_EQ(run({"runs"}), 0);
  EXPECT_TRUE(said("runs/mine")) << output_;
  EXPECT_TRUE(said("step 77")) << output_;
  EXPECT_EQ(run({"runs", "show", "runs/mine", "--json"}), 0);
  EXPECT_EQ(nlohmann::json::parse(output_, nullptr, false).value("step", 0), 77);
}

}  // namespace
}  // namespace surefit::guard
