// SPDX-License-Identifier: Apache-2.0
#include "guard/doctor.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cgroup.hpp"
#include "base/clock.hpp"
#include "base/cores.hpp"
#include "base/units.hpp"
#include "guard/kernel_log.hpp"
#include "guard/machine.hpp"
#include "guard/own_cgroup.hpp"

namespace surefit::guard {
namespace {

using enum Health;

Check memory_check() {
  const MachineMemory m = read_machine_memory();
  const auto levels = CgroupChain(roots_of(::getpid())).memory();
  std::uint64_t limit = kNoLimit;
  std::string where;
  for (const MemoryLevel& level : levels) {
    if (level.limit < limit) {
      limit = level.limit;
      where = level.path;
    }
  }
  const std::uint64_t left = std::min(headroom(levels), m.available);
  Check check{"memory", kOk,
              fmt::format("{} available of {}", format_bytes(m.available), format_bytes(m.total)),
              ""};
  check.found += limit == kNoLimit ? "; no cgroup limit"
                                   : fmt::format("; cgroup limit {} ({}), {} left",
                                                 format_bytes(limit), where, format_bytes(left));
  if (left < (512u << 20)) {
    check.health = kWarn;
    check.advice = "little is left: stop other programs, or train with a small --memory";
  }
  return check;
}

Check memory_pattern(const DoctorOptions& options) {
  const MachineMemory m = read_machine_memory();
  const std::uint64_t left =
      std::min(headroom(CgroupChain(roots_of(::getpid())).memory()), m.available);
  const std::uint64_t want = std::min<std::uint64_t>(
      static_cast<std::uint64_t>(static_cast<double>(left) * options.memory_share),
      std::uint64_t{2} << 30);
  const std::uint64_t bytes = want / 4096 * 4096;
  Check check{"RAM pattern test", kOk, "", ""};
  void* map = bytes == 0 ? MAP_FAILED
                         : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED)
    return {"RAM pattern test", kWarn, "no memory could be had for it", "free some memory first"};
  auto* words = static_cast<volatile std::uint64_t*>(map);
  const std::size_t count = bytes / 8;
  const double until = monotonic_seconds() + options.memory_seconds;
  std::uint64_t bad = 0;
  int rounds = 0;
  // Every bit once as 0 and once as 1, and an address pattern that finds lines tied together.
  for (const std::uint64_t pattern : {0xAAAAAAAAAAAAAAAAull, 0x5555555555555555ull, 0ull}) {
    if (rounds > 0 && monotonic_seconds() > until) break;
    for (std::size_t i = 0; i < count; ++i)
      words[i] = pattern == 0 ? i * 0x9E3779B97F4A7C15ull : pattern;
    for (std::size_t i = 0; i < count; ++i)
      bad += words[i] != (pattern == 0 ? i * 0x9E3779B97F4A7C15ull : pattern) ? 1 : 0;
    ++rounds;
  }
  ::munmap(map, bytes);
  check.found =
      fmt::format("{} ({:.1f} % of RAM), {} of 3 patterns, {} wrong words", format_bytes(bytes),
                  100.0 * static_cast<double>(bytes) / static_cast<double>(m.total), rounds, bad);
  if (bad > 0) {
    check.health = kFail;
    check.advice = "the memory is faulty: run memtest86+, replace the module; do not train on it";
  }
  return check;
}

Check swap_check() {
  const MachineMemory m = read_machine_memory();
  if (m.swap_total == 0)
    return {"swap", kOk, "none: a process above the memory is killed, not slowed", ""};
  const bool used = m.swap_total - m.swap_free > m.swap_total / 2;
  return {"swap", used ? kWarn : kOk,
          fmt::format("{} of {} used", format_bytes(m.swap_total - m.swap_free),
                      format_bytes(m.swap_total)),
          used ? "the machine already swaps: training would crawl" : ""};
}

Check overcommit_check() {
  const std::string text = slurp("/proc/sys/vm/overcommit_memory");
  const int mode = std::atoi(text.c_str());
  const char* meaning = mode == 0   ? "heuristic (default)"
                        : mode == 1 ? "always"
                                    : "strict: allocations are refused at the commit limit";
  return {"overcommit", mode == 2 ? kWarn : kOk, fmt::format("{} = {}", mode, meaning),
          mode == 2 ? "fork of a large process will fail; use the spawn start method" : ""};
}

Check disk_check(const std::string& role, const std::string& path, std::uint64_t least) {
  DiskState disk{.role = role, .path = path};
  if (!read_disk(disk))
    return {role, kWarn, fmt::format("{}: not there", path), "create it, or choose another"};
  Check check{role, kOk,
              fmt::format("{}: {} free of {}, {} inodes free", path, format_bytes(disk.free),
                          format_bytes(disk.total), disk.free_inodes),
              ""};
  if (disk.free < least) {
    check.health = disk.free < least / 8 ? kFail : kWarn;
    check.advice = role == "shared memory" ? "PyTorch workers need more: docker run --shm-size=2g"
                                           : "checkpoints may not fit: free some space";
  }
  if (disk.inodes > 0 && disk.free_inodes < 1000) {
    check.health = kWarn;
    check.advice = "few inodes left: delete small files";
  }
  return check;
}

Check disk_write(const DoctorOptions& options) {
  const std::string path = fmt::format("{}/.surefit-doctor-{}", options.directory, ::getpid());
  Check check{"disk write", kFail, "", "choose a directory that can be written, with --directory"};
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) {
    check.found =
        fmt::format("cannot create a file in {}: {}", options.directory, std::strerror(errno));
    return check;
  }
  ::unlink(path.c_str());
  std::string block(1 << 20, '\0');
  const auto fill = [&](std::uint64_t number) {
    for (std::size_t i = 0; i < block.size(); i += 8) {
      const std::uint64_t word = (number << 20 | i) * 0x9E3779B97F4A7C15ull;
      std::memcpy(block.data() + i, &word, 8);
    }
  };
  const double start = monotonic_seconds();
  std::uint64_t written = 0;
  for (; written < options.disk_bytes && monotonic_seconds() - start < 6; written += block.size()) {
    fill(written);
    if (::pwrite(fd, block.data(), block.size(), static_cast<off_t>(written)) !=
        static_cast<ssize_t>(block.size()))
      break;
  }
  const bool synced = ::fsync(fd) == 0;
  const int error = errno;
  const double seconds = monotonic_seconds() - start;
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  std::uint64_t wrong = 0;
  std::string back(block.size(), '\0');
  for (std::uint64_t at = 0; at < written; at += block.size()) {
    fill(at);
    const bool read = ::pread(fd, back.data(), back.size(), static_cast<off_t>(at)) ==
                      static_cast<ssize_t>(back.size());
    wrong += read && back == block ? 0 : 1;
  }
  ::close(fd);
  const double speed = static_cast<double>(written) / 0x1p20 / std::max(seconds, 1e-6);
  check.found = fmt::format("{} written, synced and read back in {}: {:.0f} MiB/s",
                            format_bytes(written), options.directory, speed);
  if (!synced || written == 0) {
    check.found = fmt::format("write or sync failed: {}", std::strerror(error));
  } else if (wrong > 0) {
    check.found += fmt::format(", {} MiB came back WRONG", wrong);
    check.advice = "this disk loses data: do not keep checkpoints on it";
  } else if (speed < 20) {
    check.health = kWarn;
    check.advice = "slow: checkpoint less often, or on another disk";
  } else {
    check.health = kOk;
    check.advice.clear();
  }
  return check;
}

Check limit_check() {
  const auto value = [](int resource) {
    rlimit limit{};
    ::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
    return limit;
  };
  const auto text = [](rlim_t v) {
    return v == RLIM_INFINITY ? std::string("unlimited") : fmt::format("{}", v);
  };
  const rlimit files = value(RLIMIT_NOFILE), processes = value(RLIMIT_NPROC),
               space = value(RLIMIT_AS), size = value(RLIMIT_FSIZE), cpu = value(RLIMIT_CPU);
  Check check{"ulimits", kOk,
              fmt::format("files {}, processes {}, address space {}, file size {}, CPU time {}",
                          text(files.rlim_cur), text(processes.rlim_cur), text(space.rlim_cur),
                          text(size.rlim_cur), text(cpu.rlim_cur)),
              ""};
  if (files.rlim_cur < 1024) check.advice = "few open files: ulimit -n 4096";
  if (space.rlim_cur != RLIM_INFINITY)
    check.advice = "ulimit -v makes allocations fail early: ulimit -v unlimited";
  if (size.rlim_cur != RLIM_INFINITY)
    check.advice = "ulimit -f kills writers of large files: ulimit -f unlimited";
  if (cpu.rlim_cur != RLIM_INFINITY)
    check.advice = "ulimit -t kills long runs: ulimit -t unlimited";
  if (!check.advice.empty()) check.health = kWarn;
  return check;
}

Check cpu_check() {
  const int usable = usable_cores();
  const double quota = core_quota();
  Check check{"CPU", kOk,
              fmt::format("{}; {} cores usable, {}", cpu_model(), usable,
                          quota > 0 ? fmt::format("quota {:.1f}", quota) : std::string("no quota")),
              ""};
  if (quota > 0 && quota + 0.01 < usable) {
    check.health = kWarn;
    check.advice = fmt::format(
        "programs that count cores start too many threads: surefit run --tame, or "
        "OMP_NUM_THREADS={}",
        std::max(1, static_cast<int>(std::ceil(quota))));
  }
  return check;
}

Check feature_check() {
  const std::string flags = cpu_flags();
  std::string found, missing;
  for (const char* name : {"avx", "avx2", "fma", "avx512f", "avx512_bf16", "amx_tile"}) {
    (flags.find(fmt::format(" {} ", name)) != std::string::npos ? found : missing) +=
        fmt::format(" {}", name);
  }
  const bool old = flags.find(" avx2 ") == std::string::npos;
  return {"CPU features", old ? kWarn : kOk,
          fmt::format("has{}; lacks{}", found.empty() ? " none" : found,
                      missing.empty() ? " none" : missing),
          old ? "slow here; TensorFlow wheels need AVX" : ""};
}

Check clock_check() {
  timespec a{}, b{};
  ::clock_gettime(CLOCK_MONOTONIC, &a);
  const double wall = wall_seconds();
  ::usleep(200000);
  ::clock_gettime(CLOCK_MONOTONIC, &b);
  const double monotonic =
      static_cast<double>(b.tv_sec - a.tv_sec) + 1e-9 * static_cast<double>(b.tv_nsec - a.tv_nsec);
  const double drift = std::abs(wall_seconds() - wall - monotonic);
  std::string source = slurp("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  while (!source.empty() && source.back() == '\n') source.pop_back();
  const bool wrong = wall < 1.7e9 || drift > 0.05;
  return {"clock", wrong ? kWarn : kOk,
          fmt::format("source {}, wall and monotonic differ by {:.1f} ms in 200 ms",
                      source.empty() ? "unknown" : source, 1000 * drift),
          wrong ? "set the clock (timedatectl set-ntp true): deadlines and file times depend on it"
                : ""};
}

Check heat_check() {
  const auto heat = read_heat();
  if (!heat) return {"temperature", kNoSensor, "no sensor: nothing can be said about heat", ""};
  const double limit = heat->trip > 0 ? heat->trip : 95;
  const bool hot = heat->hottest > limit - 10;
  return {
      "temperature", hot ? kWarn : kOk,
      fmt::format("{:.0f} C ({}), trip point {}", heat->hottest, heat->sensor,
                  heat->trip > 0 ? fmt::format("{:.0f} C", heat->trip) : std::string("unknown")),
      hot ? "hot before it begins: clean the cooler, use fewer threads" : ""};
}

Check evidence_check() {
  const bool log = KernelLog().readable();
  OwnCgroup group;
  const bool own = group.create(CgroupChain(roots_of(::getpid())),
                                fmt::format("surefit-doctor-{}", ::getpid()), kNoLimit);
  Check check{
      "evidence", kOk,
      fmt::format("kernel log {}, memory group of its own {}", log ? "readable" : "not readable",
                  own ? "possible" : "not possible (" + group.why() + ")"),
      ""};
  if (!log || !own) {
    check.health = kWarn;
    check.advice =
        "after a kill the guard can only say 'probable': run as root, or with a delegated cgroup "
        "(systemd-run --user --scope -p Delegate=yes)";
  }
  return check;
}

Check pressure_check() {
  const auto memory = read_pressure("memory"), io = read_pressure("io");
  if (!memory) return {"pressure", kNoSensor, "the kernel does not tell (no PSI)", ""};
  const bool busy = memory->full10 > 5 || (io && io->full10 > 20);
  return {"pressure", busy ? kWarn : kOk,
          fmt::format("stalled on memory {:.1f} %, on I/O {:.1f} % of the last ten seconds",
                      memory->full10, io ? io->full10 : 0),
          busy ? "the machine is already short: see top and iotop" : ""};
}

}  // namespace

std::string_view health_name(Health health) {
  constexpr std::array<std::string_view, 4> kNames{"ok", "warn", "fail", "no sensor"};
  return kNames[static_cast<std::size_t>(health)];
}

Health examine(const DoctorOptions& options, const std::function<void(const Check&)>& report) {
  Health worst = kOk;
  const auto add = [&](const Check& check) {
    if (check.health == kFail || (check.health == kWarn && worst == kOk)) worst = check.health;
    report(check);
  };
  const char* temporary = std::getenv("TMPDIR");
  add(cpu_check());
  add(feature_check());
  add(memory_check());
  add(swap_check());
  add(overcommit_check());
  add(pressure_check());
  add(disk_check("working directory", options.directory, std::uint64_t{2} << 30));
  add(disk_check("temporary files", temporary == nullptr ? "/tmp" : temporary,
                 std::uint64_t{1} << 30));
  add(disk_check("shared memory", "/dev/shm", std::uint64_t{256} << 20));
  add(disk_write(options));
  add(limit_check());
  add(clock_check());
  add(heat_check());
  add(evidence_check());
  add(memory_pattern(options));
  return worst;
}

}  // namespace surefit::guard
