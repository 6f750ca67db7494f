// SPDX-License-Identifier: Apache-2.0
// Programs that ended by themselves with a status: what they said, checked against the state of the
// machine.
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

std::optional<PythonError> python(const Evidence& e) {
  auto error = last_python_error(e.stderr_tail);
  if (!error) error = last_python_error(e.stdout_tail);
  return error && error->final ? error : std::nullopt;
}

bool type_is(const PythonError& error, std::initializer_list<std::string_view> types) {
  const std::string_view full = error.type;
  const std::string_view last =
      full.substr(full.rfind('.') == std::string_view::npos ? 0 : full.rfind('.') + 1);
  return std::find(types.begin(), types.end(), last) != types.end();
}

std::string placed(const PythonError& error) {
  return error.where.empty() ? error.line : error.line + " (" + error.where + ")";
}

// A text of the machine's about itself: in the final exception where there is one, else in the last
// lines.
std::optional<std::string> said(const Evidence& e,
                                std::initializer_list<std::string_view> needles) {
  if (const auto error = python(e)) {
    for (const std::string_view needle : needles) {
      if (error->line.find(needle) != std::string::npos) return placed(*error);
    }
    // A chained error may hide the first one just above.
    return line_with_any(e.stderr_tail, needles, 12);
  }
  return line_with_any(e.stderr_tail, needles, 8);
}

std::optional<Finding> own_status(const Evidence& e) {
  if (!e.own_trainer) return std::nullopt;
  const auto lines = last_lines(e.stderr_tail, 1);
  const std::string word = lines.empty() ? std::string("no message") : lines.back();
  const auto finding = [&](const char* advice) {
    return Finding{kCertain, fmt::format("exit status {}: {}", e.exit.number, word), advice};
  };
  switch (e.exit.number) {
    case 2:
      return finding("correct the command line or configuration");
    case 3:
      return finding("look at the file it names; surefit inspect FILE tells what it holds");
    case 5:
      return finding("the plan does not fit: take one of the ways out it printed");
    case 6:
      return finding(
          "lower the learning rate, check the data for NaN; the last finite checkpoint is kept");
    case 70:
      return finding("a bug in Surefit: please report it with obituary.json");
    case 75:
      return finding("continue with the same command and --resume");
    default:
      return std::nullopt;
  }
}

std::optional<Finding> cuda_oom(const Evidence& e) {
  const auto text =
      said(e, {"CUDA out of memory", "CUDA_ERROR_OUT_OF_MEMORY", "OutOfMemoryError: CUDA",
               "ResourceExhaustedError", "OOM when allocating tensor"});
  if (!text) return std::nullopt;
  return Finding{
      kCertain, *text,
      "the GPU's memory is full, not the machine's: smaller batch, gradient accumulation, "
      "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True if reserved is far above allocated"};
}

std::optional<Finding> gpu(const Evidence& e) {
  const auto text = said(
      e, {"CUDNN_STATUS_", "CUDA driver version is insufficient", "no kernel image is available",
          "Found no NVIDIA driver", "CUDA error:", "CUDA initialization"});
  const KernelRecord* xid = e.kernel_record(KernelRecord::Kind::kXid);
  if (!text && (xid == nullptr || e.exit.number == 0)) return std::nullopt;
  return Finding{
      xid != nullptr ? kCertain : kProbable, xid != nullptr ? "kernel log: " + xid->text : *text,
      xid != nullptr
          ? "the GPU driver reported a fault: look the Xid number up in NVIDIA's catalogue"
          : "driver, toolkit and framework must match, and nobody else may hold the GPU: "
            "nvidia-smi"};
}

std::optional<Finding> array_too_large(const Evidence& e) {
  const auto error = python(e);
  if (!error || error->message.find("Unable to allocate") == std::string::npos) return std::nullopt;
  return Finding{kCertain, placed(*error),
                 fmt::format("one array is larger than what is left ({}): keep uint8 or float32 "
                             "instead of float64, load in parts, use numpy.memmap",
                             memory_story(e))};
}

std::optional<Finding> python_memory(const Evidence& e) {
  const auto error = python(e);
  // Python 3.13 has no memory left to print the exception either, and describes the object.
  const auto described = line_with_any(e.stderr_tail, {"object type name: MemoryError"}, 8);
  if (!described && (!error || !type_is(*error, {"MemoryError"}))) return std::nullopt;
  const bool limited = e.limits.address_space != kNoLimit || e.limits.data != kNoLimit;
  std::string evidence = described ? *described : placed(*error);
  if (limited) {
    evidence += fmt::format("; address-space limit {} (ulimit -v)",
                            format_bytes(std::min(e.limits.address_space, e.limits.data)));
  } else {
    evidence += "; no address-space limit: the request itself was larger than the machine";
  }
  return Finding{kCertain, evidence,
                 fmt::format("Python was refused memory, nobody killed it: {} ({})",
                             limited ? "raise `ulimit -v`, or load less at once"
                                     : "load less at once, keep small dtypes",
                             memory_story(e))};
}

std::optional<Finding> fd_limit(const Evidence& e) {
  const auto text = said(e, {"Too many open files", "received 0 items of ancdata", "EMFILE"});
  if (!text) return std::nullopt;
  const bool at_limit =
      e.limits.files != kNoLimit &&
      static_cast<std::uint64_t>(std::max(e.fds_peak, 0)) + 16 >= e.limits.files * 8 / 10;
  std::string evidence = *text + fmt::format("; {} files open at the last look", e.fds_peak);
  if (e.limits.files != kNoLimit) evidence += fmt::format(", `ulimit -n` {}", e.limits.files);
  // errno 24 printed by the program is the kernel's word, even where our last look came too early.
  const bool errno_told = text->find("Too many open files") != std::string::npos;
  return Finding{at_limit || errno_told ? kCertain : kProbable, evidence,
                 "close files, raise `ulimit -n` (surefit run raises the soft limit with --tame), "
                 "or torch.multiprocessing.set_sharing_strategy('file_system')"};
}

std::optional<Finding> disk_full(const Evidence& e) {
  const auto text = said(
      e, {"No space left on device", "Disk quota exceeded", "PytorchStreamWriter failed writing",
          "ENOSPC", "database or disk is full", "not enough free disk space"});
  if (!text) return std::nullopt;
  const auto quota = text->find("quota") != std::string::npos;
  const auto full = std::find_if(e.disks.begin(), e.disks.end(),
                                 [](const DiskState& d) { return d.full() || d.out_of_inodes(); });
  std::string evidence = *text;
  if (full != e.disks.end()) {
    evidence +=
        full->out_of_inodes()
            ? fmt::format("; {} ({}): no inodes left of {}", full->role, full->path, full->inodes)
            : fmt::format("; {} ({}): least free {} of {}", full->role, full->path,
                          format_bytes(full->least_free), format_bytes(full->total));
    return Finding{kCertain, evidence,
                   full->out_of_inodes()
                       ? "too many small files: delete some there"
                       : "free space there, or write checkpoints elsewhere and keep fewer of them"};
  }
  const bool told = text->find("No space left") != std::string::npos || quota;
  return Finding{told ? kProbable : kPossible, evidence + "; the watched directories had room",
                 quota ? "your disk quota is used up: `quota -s`"
                       : "look at the file system it writes to with df -h and df -i"};
}

std::optional<Finding> read_only(const Evidence& e) {
  const auto text = said(e, {"Read-only file system", "Permission denied", "PermissionError"});
  if (!text) return std::nullopt;
  return Finding{kCertain, *text,
                 "the program may not write or read there: choose another directory, or change its "
                 "permissions"};
}

std::optional<Finding> io_error(const Evidence& e) {
  const auto text =
      said(e, {"Input/output error", "Stale file handle", "Transport endpoint is not connected",
               "unable to lock file", "Unable to synchronously open file (unable to lock"});
  if (!text) return std::nullopt;
  return Finding{
      kCertain, *text,
      text->find("lock") != std::string::npos
          ? "another process has the HDF5 file open, or NFS has no locks: "
            "HDF5_USE_FILE_LOCKING=FALSE, or a local copy"
          : "a disk or network file system fails: see the kernel log, copy data to a local disk"};
}

std::optional<Finding> corrupt_file(const Evidence& e) {
  const auto text =
      said(e, {"truncated file: eof", "PytorchStreamReader failed", "archive is corrupted",
               "Ran out of input", "invalid load key", "unexpected EOF",
               "Unable to open file (file signature", "File is not a zip file", "BadZipFile",
               "SafetensorError", "UnpicklingError"});
  if (!text) return std::nullopt;
  return Finding{kProbable, *text,
                 "a checkpoint or archive was only half written, usually by an earlier death: use "
                 "the previous one, and write to a new name before renaming"};
}

std::optional<Finding> bad_sample(const Evidence& e) {
  const auto text =
      said(e, {"image file is truncated", "cannot identify image file", "DataLossError",
               "Corrupt JPEG data", "broken data stream", "UnidentifiedImageError"});
  if (!text) return std::nullopt;
  return Finding{kCertain, *text,
                 "one file of the data set is damaged: the message names it; remove or replace it"};
}

std::optional<Finding> stale_shm(const Evidence& e) {
  const auto error = python(e);
  if (!error || !type_is(*error, {"FileExistsError"}) ||
      error->message.find("File exists: '/") == std::string::npos)
    return std::nullopt;
  const std::size_t quote = error->message.find("'/");
  if (error->message.find('/', quote + 2) != std::string::npos)
    return std::nullopt;  // an ordinary path
  return Finding{
      kProbable, placed(*error),
      "shared memory of an earlier, killed run was left behind: remove it from /dev/shm"};
}

std::optional<Finding> worker_killed(const Evidence& e) {
  const auto text =
      said(e, {"is killed by signal", "code -9", "exitcode -9", "exitcode=-9", "exitcode: -9",
               "exited unexpectedly", "BrokenProcessPool", "terminated abruptly",
               "died unexpectedly", "Worker exited prematurely", "WorkerLostError"});
  if (!text) return std::nullopt;
  const OomCount count = count_ooms(e);
  return Finding{text->find("signal") != std::string::npos ? kCertain : kProbable,
                 *text + (count.known && count.kills == 0 ? "; no OOM counter rose, so not memory"
                                                          : "; OOM counters cannot be read"),
                 "a worker process died and took the run along: run with num_workers=0 to see its "
                 "own message"};
}

std::optional<Finding> nan_loss(const Evidence& e) {
  const auto advice =
      "the loss left the finite numbers: lower the learning rate, clip gradients, check labels and "
      "data for NaN, avoid log(0); restart from the last finite checkpoint";
  if (const auto error = python(e)) {
    std::string lower = error->line;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const bool nan = lower.find("nan") != std::string::npos ||
                     lower.find("non-finite") != std::string::npos ||
                     lower.find("not finite") != std::string::npos;
    const bool about = lower.find("loss") != std::string::npos ||
                       lower.find("grad") != std::string::npos ||
                       type_is(*error, {"FloatingPointError"});
    const bool word = lower.find("nan ") != std::string::npos || lower.ends_with("nan") ||
                      lower.find("non-finite") != std::string::npos ||
                      lower.find("not finite") != std::string::npos ||
                      lower.find("nan,") != std::string::npos;
    if (nan && about && word) return Finding{kCertain, placed(*error), advice};
    return std::nullopt;  // another exception killed it, NaN or not
  }
  if (e.nan_seen && e.exit.number != 0) return Finding{kProbable, "printed: " + e.nan_line, advice};
  return std::nullopt;
}

std::optional<Finding> python_import(const Evidence& e) {
  const auto error = python(e);
  if (!error || !type_is(*error, {"ImportError", "ModuleNotFoundError"})) return std::nullopt;
  const bool library = error->message.find("cannot open shared object") != std::string::npos ||
                       error->message.find("undefined symbol") != std::string::npos ||
                       error->message.find("GLIBC") != std::string::npos;
  return Finding{kCertain, placed(*error),
                 library ? "a native library is missing or of another version: reinstall the "
                           "package for this system"
                         : "install the module in the environment this Python uses (python3 -m pip "
                           "install ...), or activate the right one"};
}

std::optional<Finding> python_syntax(const Evidence& e) {
  const auto error = python(e);
  if (!error || !type_is(*error, {"SyntaxError", "IndentationError", "TabError"}))
    return std::nullopt;
  return Finding{kCertain, placed(*error), "the script does not parse with this version of Python"};
}

std::optional<Finding> python_recursion(const Evidence& e) {
  const auto error = python(e);
  if (!error || !type_is(*error, {"RecursionError"})) return std::nullopt;
  return Finding{kCertain, placed(*error),
                 "a function calls itself without end, or deeper than sys.getrecursionlimit()"};
}

std::optional<Finding> python_interrupt(const Evidence& e) {
  const auto error = python(e);
  if (!error || !type_is(*error, {"KeyboardInterrupt"})) return std::nullopt;
  return Finding{kCertain, placed(*error), "nothing to fix"};
}

std::optional<Finding> python_exception(const Evidence& e) {
  const auto error = python(e);
  if (!error) return std::nullopt;
  return Finding{kCertain, placed(*error),
                 "an uncaught Python exception: the traceback above names the line"};
}

// Network and peers: worth another try.
std::optional<Finding> network(const Evidence& e) {
  const auto text = said(e, {"ConnectionError", "ConnectionResetError", "Connection refused",
                             "Connection reset by peer", "Connection timed out",
                             "Temporary failure in name resolution", "TimeoutError", "ReadTimeout",
                             "SSLError", "HTTPError: HTTP Error 5"});
  if (!text) return std::nullopt;
  return Finding{kProbable, *text,
                 "the network or a server failed: try again later, or work from local files"};
}

std::optional<Finding> wrapped_signal(const Evidence& e) {
  const int signal = e.exit.number - 128;
  if (e.exit.signaled || signal < 1 || signal > 31) return std::nullopt;
  return Finding{e.processes_peak > 1 ? kProbable : kPossible,
                 fmt::format("exit status {} = 128 + {}: as a shell reports a child ended by {}",
                             e.exit.number, signal, signal_name(signal)),
                 signal == SIGTERM || signal == SIGINT || signal == SIGHUP
                     ? "somebody stopped the program inside the wrapper"
                     : "run the inner command directly under surefit run to learn more"};
}

// timeout(1) says 124.
std::optional<Finding> timeout_tool(const Evidence& e) {
  if (e.exit.number != 124 || e.program != "timeout") return std::nullopt;
  return Finding{kCertain,
                 fmt::format("timeout(1) ended its command after {}", format_duration(e.elapsed_s)),
                 "give timeout more time; surefit run --max-time does the same and tells more"};
}

// The dynamic loader's last words.
std::optional<Finding> loader(const Evidence& e) {
  const auto text = line_with_any(
      e.stderr_tail,
      {"error while loading shared libraries", "version `GLIBC", "symbol lookup error"}, 5);
  if (!text || e.exit.number == 0) return std::nullopt;
  return Finding{kCertain, *text,
                 "a shared library is missing or of another version: install its package or a "
                 "build for this system, or set LD_LIBRARY_PATH"};
}

std::optional<Finding> shell_not_found(const Evidence& e) {
  if (e.exit.number != 127 && e.exit.number != 126) return std::nullopt;
  const auto text = line_with_any(
      e.stderr_tail, {"not found", "No such file", "cannot execute", "ermission denied"}, 5);
  if (!text) return std::nullopt;
  const bool library = text->find("shared libraries") != std::string::npos;
  return Finding{kCertain, *text,
                 library
                     ? "a shared library is missing: install its package, or set LD_LIBRARY_PATH"
                     : "a command inside the script does not exist or cannot be executed: check "
                       "its name and PATH"};
}

std::optional<Finding> missing_file(const Evidence& e) {
  const auto text = said(e, {"FileNotFoundError", "No such file or directory"});
  if (!text || e.exit.number == 0) return std::nullopt;
  return Finding{kCertain, *text,
                 "a file it needs is not there: check the path and the working directory"};
}

std::optional<Finding> usage(const Evidence& e) {
  const auto text = line_with_any(
      e.stderr_tail,
      {"usage:", "Usage:", "unrecognized arguments", "invalid option", "unrecognized option"}, 12);
  if (e.exit.number == 0 || e.elapsed_s > 60 || !text) return std::nullopt;
  const auto lines = last_lines(e.stderr_tail, 1);
  return Finding{
      e.exit.number == 2 || e.exit.number == 64 ? kCertain : kProbable,
      fmt::format("exit status {}: {}", e.exit.number, lines.empty() ? *text : lines.back()),
      "the command line was refused: see its --help"};
}

std::optional<Finding> exited(const Evidence& e) {
  auto lines = last_lines(e.stderr_tail, 1);
  if (lines.empty()) lines = last_lines(e.stdout_tail, 1);
  return Finding{kCertain,
                 lines.empty()
                     ? fmt::format("exit status {} without a word", e.exit.number)
                     : fmt::format("exit status {}; last words: {}", e.exit.number, lines.back()),
                 "the program ended by itself: its own message tells why"};
}

constexpr std::array kRules{
    Rule{"trainer", "the trainer stopped with a reason", Retry::kNever, own_status},
    Rule{"gpu-memory", "GPU out of memory", Retry::kLessMemory, cuda_oom},
    Rule{"gpu", "GPU or driver trouble", Retry::kNever, gpu},
    Rule{"array-too-large", "one array did not fit", Retry::kLessMemory, array_too_large},
    Rule{"python-memory", "Python MemoryError", Retry::kLessMemory, python_memory},
    Rule{"fd-limit", "too many open files", Retry::kNever, fd_limit},
    Rule{"disk-full", "disk full", Retry::kNever, disk_full},
    Rule{"import-error", "a Python module is missing or broken", Retry::kNever, python_import},
    Rule{"worker-killed", "a worker process died under a living parent", Retry::kTransient,
         worker_killed},
    Rule{"nan-loss", "the loss became NaN or infinite", Retry::kNever, nan_loss},
    Rule{"corrupt-file", "a damaged checkpoint or archive", Retry::kNever, corrupt_file},
    Rule{"bad-sample", "a damaged file in the data", Retry::kNever, bad_sample},
    Rule{"stale-shm", "shared memory of a dead run is in the way", Retry::kNever, stale_shm},
    Rule{"io-error", "input/output error", Retry::kTransient, io_error},
    Rule{"syntax-error", "Python syntax error", Retry::kNever, python_syntax},
    Rule{"recursion", "Python recursion too deep", Retry::kNever, python_recursion},
    Rule{"interrupted", "interrupted (KeyboardInterrupt)", Retry::kNever, python_interrupt},
    Rule{"network", "network failure", Retry::kTransient, network},
    Rule{"timeout-tool", "stopped by timeout(1)", Retry::kNever, timeout_tool},
    Rule{"missing-library", "a shared library is missing", Retry::kNever, loader},
    Rule{"shell-not-found", "a command was not found or could not run", Retry::kNever,
         shell_not_found},
    Rule{"missing-file", "a file is missing", Retry::kNever, missing_file},
    Rule{"permission", "permission denied", Retry::kNever, read_only},
    Rule{"python-exception", "uncaught Python exception", Retry::kNever, python_exception},
    Rule{"usage", "the command line was refused", Retry::kNever, usage},
    Rule{"wrapped-signal", "a program inside the command died of a signal", Retry::kTransient,
         wrapped_signal},
    Rule{"exited", "ended by itself with an error status", Retry::kNever, exited},
};

}  // namespace

std::span<const Rule> program_rules() {
  return kRules;
}

}  // namespace surefit::guard
