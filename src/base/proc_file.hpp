// SPDX-License-Identifier: Apache-2.0
// Small files of /proc and of control groups: short, and gone at any moment.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace surefit {

inline constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

using ProcBuffer = std::array<char, 65536>;
// At most 64 KiB of a file; empty where it cannot be read. Without streams and with one buffer: the
// guard reads a dozen of these files several times a second.
std::string_view slurp_into(const char* path, ProcBuffer& buffer);
std::string slurp(const std::string& path);
// "max" and v1's huge value are kNoLimit.
std::optional<std::uint64_t> slurp_number(const std::string& path);
// The file `name` of a directory, in a buffer of the thread until its next read. Allocates nothing:
// the training loop looks at memory between its steps.
std::string_view peek(std::string_view directory, const char* name);
std::optional<std::uint64_t> peek_number(std::string_view directory, const char* name);
// The number behind `key` at the start of a line: "VmRSS:\t  120 kB" -> 120.
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view key);

}  // namespace surefit
