// SPDX-License-Identifier: Apache-2.0
// Deaths by the program's own fault at the level of the machine: faults, aborts, refused resources.
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <signal.h>

#include "base/units.hpp"
#include "guard/diagnosis.hpp"
#include "guard/words.hpp"

namespace surefit::guard {
namespace {

using enum Confidence;
using Kind = KernelRecord::Kind;

// Through a shell or multiprocessing the signal arrives as a status, but the kernel's record still
// names it.
bool fault(const Evidence& e, int signal) {
  return died_of_or_wrapped(e, signal);
}

std::optional<Finding> bad_ram(const Evidence& e) {
  const KernelRecord* record = e.kernel_record(Kind::kMemoryFailure);
  if (record == nullptr || !fault(e, SIGBUS)) return std::nullopt;
  return Finding{kCertain, "kernel log: " + record->text,
                 "a memory module is failing: run memtest, replace it; results of this run are not "
                 "to be trusted"};
}

std::optional<Finding> thread_limit(const Evidence& e) {
  // EAGAIN of fork or pthread_create in its many dresses.
  const auto text = line_with_any(
      e.stderr_tail,
      {"pthread_create failed", "can't start new thread", "Thread creation failed",
       "fork: retry: Resource temporarily", "Cannot fork", "thread constructor failed",
       "BlockingIOError: [Errno 11] Resource temporarily unavailable",
       "fork: Resource temporarily unavailable", "libgomp: Thread creation failed",
       "OMP: Error #34", "System.OutOfMemoryException: Insufficient memory to create thread"});
  const bool eagain = line_with(e.stderr_tail, "Resource temporarily unavailable").has_value();
  const bool refused = e.pids && e.pids->refused > 0;
  const bool cxx = eagain && line_with(e.stderr_tail, "std::system_error").has_value();
  if (!text && !cxx && !(eagain && refused)) return std::nullopt;
  const std::string quote =
      text ? *text : *line_with(e.stderr_tail, "Resource temporarily unavailable");
  if (quote.find("Operation not permitted") != std::string::npos) {
    return Finding{
        kProbable, quote,
        "an old container runtime blocks clone3: update docker/containerd or its seccomp profile"};
  }
  std::string evidence = quote;
  Confidence confidence = kProbable;
  const bool near_user_limit = e.limits.processes != kNoLimit &&
                               static_cast<std::uint64_t>(e.threads_peak) + 8 >= e.limits.processes;
  if (refused) {
    evidence += fmt::format("; pids.events max +{} at pids.max {}", e.pids->refused, e.pids->limit);
    confidence = kCertain;
  } else if (e.limits.processes != kNoLimit) {
    evidence +=
        fmt::format("; {} threads seen, `ulimit -u` {}", e.threads_peak, e.limits.processes);
    if (near_user_limit || e.limits.processes < 4096) confidence = kCertain;
  }
  if (confidence != kCertain && e.limits.address_space != kNoLimit &&
      e.virtual_peak > e.limits.address_space / 2) {
    evidence += fmt::format("; address space {} of {} MiB: no room for a thread's stack",
                            mebibytes(static_cast<double>(e.virtual_peak)),
                            mebibytes(static_cast<double>(e.limits.address_space)));
  }
  return Finding{confidence, evidence,
                 "fewer threads: set OMP_NUM_THREADS and OPENBLAS_NUM_THREADS (surefit run --tame "
                 "does), fewer workers, or raise `ulimit -u` / pids.max"};
}

std::optional<Finding> fork_memory(const Evidence& e) {
  const auto text = line_with_any(e.stderr_tail, {"OSError: [Errno 12] Cannot allocate memory",
                                                  "fork: Cannot allocate memory"});
  if (!text) return std::nullopt;
  const bool commit =
      e.overcommit == 2 && e.commit_limit > 0 && e.committed > e.commit_limit / 10 * 9;
  return Finding{commit ? kCertain : kProbable, fmt::format("{}; {}", *text, memory_story(e)),
                 "the kernel refused a copy of a large process: fewer workers, the spawn start "
                 "method, or vm.overcommit_memory=1"};
}

std::optional<Finding> duplicate_openmp(const Evidence& e) {
  const auto text = line_with(e.stderr_tail, "OMP: Error #15");
  if (!text) return std::nullopt;
  return Finding{kCertain, *text,
                 "two OpenMP runtimes in one process: `conda install nomkl`, or install both "
                 "packages from one channel; KMP_DUPLICATE_LIB_OK may silently give wrong results"};
}

std::string address_space_line(const Evidence& e) {
  if (e.limits.address_space == kNoLimit && e.limits.data == kNoLimit)
    return "no address-space limit";
  const std::uint64_t limit = std::min(e.limits.address_space, e.limits.data);
  return fmt::format("address space {} of {} MiB (ulimit -v)",
                     mebibytes(static_cast<double>(e.virtual_peak)),
                     mebibytes(static_cast<double>(limit)));
}

std::optional<Finding> bad_alloc(const Evidence& e) {
  const auto text = line_with_any(
      e.stderr_tail,
      {"std::bad_alloc", "std::bad_array_new_length", "DefaultCPUAllocator: can't allocate memory",
       "DefaultCPUAllocator: not enough memory", "tcmalloc: large alloc", "memory allocation of",
       "OpenBLAS error: Memory allocation still failed", "heap out of memory",
       "java.lang.OutOfMemoryError", "Cannot allocate memory"},
      // A program that goes on after a refusal and fails later of something else said more since.
      fault(e, SIGABRT) ? 25 : 4);
  if (!text || (!fault(e, SIGABRT) && e.exit.number == 0)) return std::nullopt;
  if (!e.exit.signaled && last_python_error(e.stderr_tail) &&
      text->find("DefaultCPUAllocator") == std::string::npos)
    return std::nullopt;
  const bool limited = e.limits.address_space != kNoLimit || e.limits.data != kNoLimit;
  const bool commit =
      e.overcommit == 2 && e.commit_limit > 0 && e.committed > e.commit_limit / 10 * 9;
  const OomCount count = count_ooms(e);
  std::string evidence =
      *text + "; " +
      (commit ? "the commit limit was reached (vm.overcommit_memory=2)" : address_space_line(e));
  if (count.known && count.kills == 0) evidence += "; no OOM kill";
  return Finding{limited || commit ? kCertain : kProbable, evidence,
                 limited ? "an allocation was refused, nobody was killed: raise `ulimit -v`, or "
                           "ask for less (smaller batch)"
                         : "an allocation was refused: the size asked for is larger than the "
                           "machine, often a wrong shape or a negative number"};
}

std::optional<Finding> heap_corruption(const Evidence& e) {
  if (!fault(e, SIGABRT)) return std::nullopt;
  const auto text = line_with_any(
      e.stderr_tail, {"double free or corruption", "free(): ", "malloc(): ", "corrupted size",
                      "corrupted double-linked", "munmap_chunk(): ", "malloc_consolidate(): ",
                      "realloc(): invalid", "stack smashing detected", "buffer overflow detected",
                      "heap-buffer-overflow", "AddressSanitizer"});
  if (!text) return std::nullopt;
  return Finding{kCertain, "SIGABRT; " + *text,
                 "native code overwrote memory: update the C/C++ library in use, run once under "
                 "valgrind or with MALLOC_CHECK_=3 to find it"};
}

std::optional<Finding> framework_check(const Evidence& e) {
  if (!fault(e, SIGABRT)) return std::nullopt;
  const auto text = line_with_any(e.stderr_tail, {"Check failed: ", "Check failure stack trace",
                                                  "INTERNAL ASSERT FAILED", "F tensorflow/"});
  if (!text) return std::nullopt;
  return Finding{
      kCertain, *text,
      "the framework found a broken invariant in itself: search this line in its issue tracker"};
}

std::optional<Finding> cxx_terminate(const Evidence& e) {
  if (!fault(e, SIGABRT)) return std::nullopt;
  const auto text = line_with_any(e.stderr_tail, {"terminate called", "libc++abi: terminating"});
  if (!text) return std::nullopt;
  const auto what = line_with(e.stderr_tail, "what():");
  return Finding{kCertain, *text + (what ? "; " + *what : std::string()),
                 "an uncaught C++ exception (or one thrown from a destructor or thread): catch it, "
                 "or fix what it says"};
}

std::optional<Finding> assertion(const Evidence& e) {
  if (!fault(e, SIGABRT)) return std::nullopt;
  const auto text = line_with_any(
      e.stderr_tail,
      {"Assertion `", "assertion failed", "Assertion failed", "panicked at", "Fatal Python error"});
  if (!text) return std::nullopt;
  return Finding{kCertain, *text,
                 "an assertion of the program failed: a bug, or input it does not expect"};
}

std::optional<Finding> plain_abort(const Evidence& e) {
  if (!fault(e, SIGABRT)) return std::nullopt;
  const auto lines = last_lines(e.stderr_tail, 1);
  return Finding{e.exit.signaled ? kCertain : kProbable,
                 "SIGABRT" + (lines.empty() ? std::string("; it said nothing")
                                            : "; last line: " + lines.back()),
                 "the program called abort(); a core dump (ulimit -c unlimited) or gdb -ex run -ex "
                 "bt shows where"};
}

std::optional<Finding> shm_full(const Evidence& e) {
  const DiskState* shm = e.disk("/dev/shm");
  const bool full = shm != nullptr && shm->full();
  const auto text = line_with_any(
      e.stderr_tail, {"insufficient shared memory", "unable to open shared memory object",
                      "unable to allocate shared memory", "unable to write to file </torch_"});
  if (fault(e, SIGBUS) && full) {
    return Finding{kCertain,
                   fmt::format("SIGBUS; /dev/shm had {} of {} free", format_bytes(shm->least_free),
                               format_bytes(shm->total)),
                   fmt::format("enlarge it (docker run --shm-size=2g, or mount -o remount,size=2g "
                               "/dev/shm), or num_workers=0; now {}",
                               format_bytes(shm->total))};
  }
  const bool filling = shm != nullptr && shm->least_free < shm->total * 4 / 10 &&
                       shm->least_free + (shm->total / 10) < shm->first_free;
  if (fault(e, SIGBUS) && filling) {
    return Finding{
        kProbable,
        fmt::format("SIGBUS; /dev/shm went from {} to {} free of {}", format_bytes(shm->first_free),
                    format_bytes(shm->least_free), format_bytes(shm->total)),
        "it was being filled: enlarge it (docker run --shm-size=2g, or mount -o remount,size=2g "
        "/dev/shm), or num_workers=0"};
  }
  if (text && e.exit.number != 0) {
    return Finding{full ? kCertain : kProbable,
                   *text + (shm == nullptr ? std::string()
                                           : fmt::format("; /dev/shm: least free {} of {}",
                                                         format_bytes(shm->least_free),
                                                         format_bytes(shm->total))),
                   "enlarge /dev/shm (docker run --shm-size=2g), use fewer workers, or "
                   "set_sharing_strategy('file_system')"};
  }
  return std::nullopt;
}

std::optional<Finding> truncated_map(const Evidence& e) {
  if (!fault(e, SIGBUS)) return std::nullopt;
  const auto disk =
      std::find_if(e.disks.begin(), e.disks.end(), [](const DiskState& d) { return d.full(); });
  if (disk != e.disks.end()) {
    return Finding{kProbable,
                   fmt::format("SIGBUS while the {} ({}) had {} free", disk->role, disk->path,
                               format_bytes(disk->least_free)),
                   "a mapped file could not get its block: free space there"};
  }
  return Finding{kProbable,
                 "SIGBUS; /dev/shm and disks had room and the kernel log tells no memory failure",
                 "a mapped file became shorter while it was read (a checkpoint or memmap rewritten "
                 "in place?): copy it first, or write new files and rename"};
}

std::optional<Finding> illegal_instruction(const Evidence& e) {
  if (!fault(e, SIGILL)) return std::nullopt;
  const KernelRecord* record = e.kernel_record(Kind::kTrap);
  std::string evidence = record != nullptr ? "kernel log: " + record->text : std::string("SIGILL");
  std::string missing;
  for (const char* flag : {" avx ", " avx2 ", " fma ", " avx512f "}) {
    if (!e.cpu_flags.empty() && e.cpu_flags.find(flag) == std::string::npos) missing += flag;
  }
  if (!missing.empty()) evidence += "; this CPU lacks" + missing;
  return Finding{
      e.exit.signaled ? kCertain : kProbable, evidence,
      fmt::format("{} was built for another CPU (or __builtin_trap was hit): install a build for "
                  "this one, e.g. without AVX{}",
                  record != nullptr && !record->object.empty() ? record->object : "the program",
                  missing.find("avx512f") != std::string::npos ? "-512" : "")};
}

std::optional<Finding> stack_overflow(const Evidence& e) {
  if (!fault(e, SIGSEGV)) return std::nullopt;
  const std::string limit = e.limits.stack == kNoLimit ? "unlimited" : format_bytes(e.limits.stack);
  const std::string advice = fmt::format(
      "deep recursion or a large local array: raise `ulimit -s` (now {}), OMP_STACKSIZE for "
      "threads, or lower Python's recursion limit",
      limit);
  if (const KernelRecord* record = e.kernel_record(Kind::kSegfault)) {
    // The guard page is hit a little below the stack pointer, or above it by a frame being filled.
    const std::uint64_t distance = record->address > record->stack_pointer
                                       ? record->address - record->stack_pointer
                                       : record->stack_pointer - record->address;
    if (distance < (64u << 10)) {
      return Finding{kCertain,
                     fmt::format("kernel log: fault at {:x}, {} bytes from the stack pointer{}",
                                 record->address, distance,
                                 record->object.empty() ? std::string() : ", in " + record->object),
                     advice};
    }
    return std::nullopt;
  }
  // faulthandler's stack of one function, again and again
  const auto lines = last_lines(e.stderr_tail, 120);
  int same = 0;
  for (std::size_t i = 1; i < lines.size(); ++i)
    same += lines[i] == lines[i - 1] && lines[i].starts_with("  File") ? 1 : 0;
  if (same > 20)
    return Finding{
        kProbable,
        fmt::format("SIGSEGV; the same frame {} times: {}", same, lines[lines.size() / 2]), advice};
  return std::nullopt;
}

std::optional<Finding> segfault(const Evidence& e) {
  if (!fault(e, SIGSEGV)) return std::nullopt;
  const KernelRecord* record = e.kernel_record(Kind::kSegfault);
  if (record == nullptr) record = e.kernel_record(Kind::kTrap);
  if (record != nullptr) {
    const bool null = record->kind == Kind::kSegfault && record->address < 4096;
    return Finding{kCertain, "kernel log: " + record->text,
                   fmt::format("a crash in {}{}: update it; PYTHONFAULTHANDLER=1 or gdb -ex run "
                               "-ex bt shows the caller",
                               record->object.empty() ? "native code" : record->object,
                               null ? " (null pointer)" : "")};
  }
  // faulthandler catches the signal first, so the kernel does not log it; but it tells the Python
  // line.
  if (const auto fatal = line_with(e.stderr_tail, "Fatal Python error: ", 60)) {
    const auto frame = line_with(e.stderr_tail, "  File \"", 60);
    return Finding{kCertain, *fatal + (frame ? "; outermost frame:" + *frame : std::string()),
                   "a crash in a native library called from there: update it"};
  }
  return Finding{
      e.exit.signaled ? kCertain : kProbable,
      fmt::format("{}{}", e.exit.signaled ? "SIGSEGV" : "exit status 139: a child died of SIGSEGV",
                  e.kernel_log_readable
                      ? ""
                      : "; the kernel log cannot be read, so stack overflow is not excluded"),
      "a crash in native code: update native libraries; PYTHONFAULTHANDLER=1 or gdb -ex run -ex bt "
      "shows where"};
}

std::optional<Finding> arithmetic(const Evidence& e) {
  if (!fault(e, SIGFPE)) return std::nullopt;
  const KernelRecord* record = e.kernel_record(Kind::kTrap);
  return Finding{e.exit.signaled ? kCertain : kProbable,
                 record != nullptr ? "kernel log: " + record->text : std::string("SIGFPE"),
                 "an integer was divided by zero: an empty batch or data set, or a size of 0"};
}

std::optional<Finding> seccomp(const Evidence& e) {
  if (!fault(e, SIGSYS)) return std::nullopt;
  return Finding{e.exit.signaled ? kCertain : kProbable, "SIGSYS: a system call was forbidden",
                 "the sandbox or container (seccomp) blocks a call: update the container runtime "
                 "or its profile"};
}

std::optional<Finding> trace_trap(const Evidence& e) {
  if (!died_of(e, SIGTRAP)) return std::nullopt;
  return Finding{kCertain, "SIGTRAP",
                 "the program stopped itself (a debug trap or a failed check of Chrome or Go "
                 "code); its last words tell more"};
}

std::optional<Finding> other_signal(const Evidence& e) {
  if (!e.exit.signaled) return std::nullopt;
  return Finding{kCertain,
                 fmt::format("ended by signal {} ({})", e.exit.number, signal_name(e.exit.number)),
                 "nobody handled this signal; see who sends it"};
}

constexpr std::array kRules{
    Rule{"bad-ram", "faulty memory module", Retry::kNever, bad_ram},
    Rule{"thread-limit", "no more threads or processes allowed", Retry::kNever, thread_limit},
    Rule{"fork-memory", "no memory to fork", Retry::kLessMemory, fork_memory},
    Rule{"duplicate-openmp", "two OpenMP runtimes", Retry::kNever, duplicate_openmp},
    Rule{"allocation-refused", "an allocation was refused", Retry::kLessMemory, bad_alloc},
    Rule{"heap-corruption", "memory corruption (heap or stack)", Retry::kTransient,
         heap_corruption},
    Rule{"framework-check", "fatal check inside the framework", Retry::kTransient, framework_check},
    Rule{"uncaught-exception", "uncaught C++ exception (std::terminate)", Retry::kNever,
         cxx_terminate},
    Rule{"assertion", "failed assertion", Retry::kNever, assertion},
    Rule{"abort", "aborted (SIGABRT)", Retry::kTransient, plain_abort},
    Rule{"shm-full", "/dev/shm is full", Retry::kNever, shm_full},
    Rule{"truncated-map", "a mapped file lost its pages (SIGBUS)", Retry::kTransient,
         truncated_map},
    Rule{"illegal-instruction", "the CPU does not know an instruction (SIGILL)", Retry::kNever,
         illegal_instruction},
    Rule{"stack-overflow", "stack overflow", Retry::kNever, stack_overflow},
    Rule{"segfault", "crash in native code (SIGSEGV)", Retry::kTransient, segfault},
    Rule{"arithmetic", "integer division by zero (SIGFPE)", Retry::kNever, arithmetic},
    Rule{"forbidden-call", "a forbidden system call (SIGSYS)", Retry::kNever, seccomp},
    Rule{"trap", "a debug trap (SIGTRAP)", Retry::kNever, trace_trap},
    Rule{"signal", "ended by a signal", Retry::kNever, other_signal},
};

}  // namespace

std::span<const Rule> crash_rules() {
  return kRules;
}

}  // namespace surefit::guard
