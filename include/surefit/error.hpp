// SPDX-License-Identifier: Apache-2.0
// The errors Surefit throws. Every text reads "[where] what; expected ...; got ...; what next".
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace surefit {

// Exit codes shared by every program of the project.
enum class ExitCode : int {
  kDone = 0,
  kUsage = 2,
  kData = 3,
  kSystem = 4,
  kRefused = 5,
  kNumerics = 6,
  kInternal = 70,
  kStopped = 75,
};

// Base of everything the library throws on purpose; anything else that escapes is a bug of ours.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& text) : std::runtime_error(text), code_(code) {}
  ExitCode exit_code() const { return code_; }

 private:
  ExitCode code_;
};

// The user asked for something that cannot be: a bad argument, model or combination.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& text) : Error(ExitCode::kUsage, text) {}
};

// A file, sample or checkpoint is not what it should be. Carries where it was found.
class DataError : public Error {
 public:
  explicit DataError(const std::string& text, std::string path = {}, std::int64_t offset = -1)
      : Error(ExitCode::kData, text), path_(std::move(path)), offset_(offset) {}
  const std::string& path() const { return path_; }
  std::int64_t offset() const { return offset_; }

 private:
  std::string path_;
  std::int64_t offset_;
};

// The operating system said no: I/O, permissions, limits. Carries errno, 0 where there is none.
class SystemError : public Error {
 public:
  explicit SystemError(const std::string& text, int error_number = 0)
      : Error(ExitCode::kSystem, text), error_number_(error_number) {}
  int error_number() const { return error_number_; }

 private:
  int error_number_;
};

// No plan fits into the memory there is. Nothing was allocated, nothing has run.
class MemoryRefused : public Error {
 public:
  MemoryRefused(const std::string& text, std::uint64_t need, std::uint64_t budget,
                std::uint64_t floor)
      : Error(ExitCode::kRefused, text), need_(need), budget_(budget), floor_(floor) {}
  std::uint64_t need() const { return need_; }  // bytes of the process at full speed
  std::uint64_t budget() const { return budget_; }
  std::uint64_t floor() const { return floor_; }  // the least that gives the same bits

 private:
  std::uint64_t need_, budget_, floor_;
};

// NaN or Inf where a finite number must be.
class NumericsError : public Error {
 public:
  explicit NumericsError(const std::string& text) : Error(ExitCode::kNumerics, text) {}
};

// A broken promise inside Surefit itself; never reachable from user input.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& text) : Error(ExitCode::kInternal, text) {}
};

}  // namespace surefit
