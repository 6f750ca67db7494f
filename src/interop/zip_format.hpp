// SPDX-License-Identifier: Apache-2.0
// Constants of the ZIP format (PKWARE APPNOTE 6.3), shared by reader and writer of .npz.
#pragma once

#include <cstddef>
#include <cstdint>

namespace surefit::zip {

constexpr std::uint32_t kLocalSignature = 0x04034b50;
constexpr std::uint32_t kCentralSignature = 0x02014b50;
constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::uint32_t kEnd64Signature = 0x06064b50;
constexpr std::uint32_t kLocator64Signature = 0x07064b50;

constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kCentralBytes = 46;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kEnd64Bytes = 56;
constexpr std::size_t kLocator64Bytes = 20;

constexpr std::uint32_t kUse64 = 0xFFFFFFFF;  // the true value stands in the zip64 extra field
constexpr std::uint16_t kExtra64Id = 1;
constexpr std::uint16_t kStoredMethod = 0;
constexpr std::uint16_t kDeflated = 8;

}  // namespace surefit::zip
