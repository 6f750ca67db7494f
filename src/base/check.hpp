// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include "surefit/error.hpp"

// An invariant of ours: always on, also in release builds. User input must never reach it.
#define SUREFIT_CHECK(condition, ...)                                                       \
  do {                                                                                      \
    if (!(condition)) [[unlikely]]                                                          \
      throw ::surefit::InternalError(::fmt::format("[{}:{}] {}; broken: {}", __FILE_NAME__, \
                                                   __LINE__, ::fmt::format(__VA_ARGS__),    \
                                                   #condition));                            \
  } while (false)
