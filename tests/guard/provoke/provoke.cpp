// SPDX-License-Identifier: Apache-2.0
// Dies in the way its first argument names.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <map>
#include <signal.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

volatile int zero = 0;

int recurse(int depth) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(depth);
  return recurse(depth + 1) + frame[0];
}

void touch(std::size_t bytes) {
  auto* memory = static_cast<volatile char*>(std::malloc(bytes));
  for (std::size_t i = 0; i < bytes; i += 4096) memory[i] = 1;
}

void limit(int resource, rlim_t value) {
  const rlimit both{value, value};
  ::setrlimit(resource, &both);
}

void truncated_map(const char* directory, std::size_t bytes, bool truncate, bool keep = false) {
  const std::string path =
      std::string(directory) + "/surefit-provoke-" + std::to_string(::getpid());
  const int fd = ::open(path.c_str(), O_CREAT | O_RDWR, 0600);
  if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0) std::exit(9);
  auto* map = static_cast<volatile char*>(
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  if (!keep) ::unlink(path.c_str());
  if (truncate && ::ftruncate(fd, 4096) != 0) std::exit(9);
  for (std::size_t i = 0; i < bytes; i += 4096) {
    map[i] = 1;
    if (!truncate && i % (64 << 10) == 0) ::usleep(10000);
  }
}

void exhaust_threads() {
  limit(RLIMIT_AS, rlim_t{1} << 40);
  std::vector<std::thread> threads;
  for (int i = 0; i < 100000; ++i) threads.emplace_back([] { ::pause(); });
}

void out_of_memory_worker() {
  const pid_t worker = ::fork();
  if (worker == 0) {
    touch(std::size_t{1} << 30);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(worker, &status, 0);
  std::fprintf(stderr, "worker %d died, status %d\n", worker, status);
  std::exit(1);
}

void heap_corruption() {
  auto* memory = static_cast<char*>(std::malloc(40));
  std::free(memory);
  static char* volatile again = memory;
  std::free(again);
}

void staircase() {
  for (int step = 0; step < 40; ++step) {
    touch(std::size_t{12} << 20);
    ::usleep(1000000);
  }
}

const std::map<std::string, std::function<void(char**)>> kWays{
    {"segv", [](char**) { *static_cast<volatile int*>(nullptr) = 1; }},
    {"stack", [](char**) { std::exit(recurse(0)); }},
    {"ill", [](char**) { __asm__ volatile("ud2"); }},
    {"fpe", [](char**) { std::exit(7 / zero); }},
    {"heap", [](char**) { heap_corruption(); }},
    {"bad_alloc",
     [](char**) {
       limit(RLIMIT_AS, rlim_t{256} << 20);
       for (;;) new char[1 << 20]();
     }},
    {"terminate", [](char**) { throw std::runtime_error("weights are missing"); }},
    {"abort", [](char**) { std::abort(); }},
    {"threads", [](char**) { exhaust_threads(); }},
    {"map", [](char** a) { truncated_map(a[2], 1 << 20, true); }},
    {"fill_map", [](char** a) { truncated_map(a[2], std::size_t{64} << 20, false, true); }},
    {"fill_unlinked_map", [](char** a) { truncated_map(a[2], std::size_t{64} << 20, false); }},
    {"oom", [](char**) { touch(std::size_t{1} << 30); }},
    {"worker_oom", [](char**) { out_of_memory_worker(); }},
    {"staircase", [](char**) { staircase(); }},
    {"sleep", [](char** a) { ::sleep(static_cast<unsigned>(std::atoi(a[2]))); }},
    {"futex",
     [](char**) {
       for (;;) ::pause();
     }},
    {"xfsz",
     [](char**) {
       limit(RLIMIT_FSIZE, 4096);
       const int fd = ::open("/tmp", O_TMPFILE | O_RDWR, 0600);
       for (;;)
         if (::write(fd, "0123456789abcdef", 16) < 0) ::_exit(3);
     }},
    {"xcpu",
     [](char**) {
       limit(RLIMIT_CPU, 1);
       for (;;) zero = zero + 1;
     }},
    {"pipe",
     [](char**) {
       int ends[2];
       if (::pipe(ends) == 0) ::close(ends[0]);
       if (::write(ends[1], "x", 1) < 0) std::exit(3);
     }},
    {"assert",
     [](char**) {
       std::fprintf(stderr, "provoke: provoke.cpp:1: main: Assertion `1 == 2' failed.\n");
       std::abort();
     }},
    {"sys", [](char**) { ::raise(SIGSYS); }},
    {"kill",
     [](char** a) {
       ::usleep(300000);
       ::kill(::getpid(), std::atoi(a[2]));
       ::pause();
     }},
    {"orphan",
     [](char**) {
       if (::fork() == 0) {
         ::setsid();
         ::sleep(60);
         ::_exit(0);
       }
       std::exit(0);
     }},
    {"loop",
     [](char** a) {
       const auto end = ::time(nullptr) + std::atoi(a[2]);
       while (::time(nullptr) < end) zero = 0;
     }},
    {"fragment",
     [](char**) {
       std::vector<std::thread> threads;
       for (int t = 0; t < 24; ++t) {
         threads.emplace_back([] {
           for (int i = 0; i < 400; ++i) std::memset(std::malloc(40000), 1, 40000);
           ::sleep(60);
         });
       }
       ::sleep(5);
       ::raise(SIGKILL);
     }},
};

}  // namespace

int main(int count, char** words) {
  const auto way = count > 1 ? kWays.find(words[1]) : kWays.end();
  if (way == kWays.end()) return 99;
  way->second(words);
  return 0;
}
