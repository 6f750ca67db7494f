// SPDX-License-Identifier: Apache-2.0
// Replays a corpus without libFuzzer: every file (good_* must be accepted, bad_* refused), every
// truncation and byte flip of the small ones, and mutations that are the same on every machine. The
// clock only bounds how many are tried.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "base/env.hpp"
#include "base/philox.hpp"
#include "target.hpp"

namespace surefit::fuzz {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kSmallBytes = 1024;
constexpr std::uint64_t kMutations = 20'000;
constexpr std::chrono::seconds kPatience{5};

struct Seed {
  std::string name;
  Bytes bytes;
};

// Hands every input to the target and keeps it, so that a failure can be reported with its history.
class Replay {
 public:
  bool run(const Bytes& bytes, const std::string& origin) {
    ++tried_;
    try {
      // A copy of the exact size, so that address sanitizer sees the first byte read too many.
      const Bytes exact(bytes.begin(), bytes.end());
      const bool good = accepts(exact);
      accepted_ += good ? 1 : 0;
      return good;
    } catch (const std::exception& error) {
      fail(origin, fmt::format("something other than DataError escaped: {}", error.what()));
    } catch (...) {
      fail(origin, "something unknown escaped");
    }
    return false;
  }

  void fail(const std::string& origin, const std::string& text) {
    ++failures_;
    fmt::print(stderr, "FAILED {}: {}\n", origin, text);
  }

  bool out_of_time() const { return std::chrono::steady_clock::now() - start_ > kPatience; }
  std::uint64_t tried() const { return tried_; }
  std::uint64_t accepted() const { return accepted_; }
  int failures() const { return failures_; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::uint64_t tried_ = 0;
  std::uint64_t accepted_ = 0;
  int failures_ = 0;
};

// The words of one mutation's random stream, in order.
class Dice {
 public:
  explicit Dice(std::uint64_t mutation) : random_(0, Purpose::kTest, 0, mutation, 0) {}
  std::uint32_t word() { return random_.word(next_++); }
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : word() % limit; }

 private:
  Philox random_;
  std::uint64_t next_ = 0;
};

void overwrite_number(Bytes& bytes, Dice& dice) {
  constexpr std::array<std::uint64_t, 12> kNumbers = {0,
                                                      1,
                                                      0x7F,
                                                      0x80,
                                                      0xFF,
                                                      0xFFFF,
                                                      0x7FFFFFFF,
                                                      0x80000000,
                                                      0xFFFFFFFF,
                                                      std::uint64_t{1} << 56,
                                                      0x7FFFFFFFFFFFFFFF,
                                                      0xFFFFFFFFFFFFFFFF};
  constexpr std::array<std::size_t, 4> kWidths = {1, 2, 4, 8};
  const std::uint64_t number = kNumbers[dice.below(kNumbers.size())];
  const std::size_t width = std::min(kWidths[dice.below(kWidths.size())], bytes.size());
  const std::size_t at = dice.below(bytes.size() - width + 1);
  const bool big_endian = dice.below(2) == 1;
  for (std::size_t i = 0; i < width; ++i) {
    bytes[at + (big_endian ? width - 1 - i : i)] = static_cast<std::byte>(number >> (8 * i));
  }
}

// Digits of a number in text grow or change: that is where sizes and offsets of headers stand.
void change_digit(Bytes& bytes, Dice& dice) {
  const std::size_t start = dice.below(bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::byte& b = bytes[(start + i) % bytes.size()];
    if (b < std::byte{'0'} || b > std::byte{'9'}) continue;
    b = static_cast<std::byte>('0' + dice.below(10));
    return;
  }
}

void mutate_once(Bytes& bytes, const Seed& other, Dice& dice) {
  using Offset = std::ptrdiff_t;
  const std::size_t kind = dice.below(7);
  if (bytes.empty()) {
    bytes.push_back(static_cast<std::byte>(dice.word() & 0xFF));
    return;
  }
  const std::size_t at = dice.below(bytes.size());
  const std::size_t length = 1 + dice.below(std::min<std::size_t>(bytes.size() - at, 64));
  const auto first = bytes.begin() + static_cast<Offset>(at);
  switch (kind) {
    case 0:
      bytes[at] ^= static_cast<std::byte>(1u << dice.below(8));
      break;
    case 1:
      overwrite_number(bytes, dice);
      break;
    case 2:
      change_digit(bytes, dice);
      break;
    case 3:
      bytes.erase(first, first + static_cast<Offset>(length));
      break;
    case 4: {
      const Bytes piece(first, first + static_cast<Offset>(length));
      bytes.insert(bytes.begin() + static_cast<Offset>(dice.below(bytes.size())), piece.begin(),
                   piece.end());
      break;
    }
    case 5:
      bytes.resize(at);
      break;
    default: {
      // The head of one file on the tail of another.
      const std::size_t from = dice.below(other.bytes.size() + 1);
      bytes.resize(at);
      bytes.insert(bytes.end(), other.bytes.begin() + static_cast<Offset>(from), other.bytes.end());
    }
  }
}

void replay_seed(Replay& replay, const Seed& seed) {
  const bool good = replay.run(seed.bytes, seed.name);
  if (good && seed.name.starts_with("bad_")) replay.fail(seed.name, "accepted, must be refused");
  if (!good && seed.name.starts_with("good_")) replay.fail(seed.name, "refused, must be accepted");
  if (seed.bytes.size() > kSmallBytes) return;
  for (std::size_t length = 0; length < seed.bytes.size(); ++length) {
    replay.run(Bytes(seed.bytes.begin(), seed.bytes.begin() + static_cast<std::ptrdiff_t>(length)),
               fmt::format("{} cut to {}", seed.name, length));
  }
  for (std::size_t at = 0; at < seed.bytes.size(); ++at) {
    for (const int flip : {0x01, 0x80, 0xFF}) {
      Bytes bytes = seed.bytes;
      bytes[at] ^= static_cast<std::byte>(flip);
      replay.run(bytes, fmt::format("{} byte {} ^ {:#x}", seed.name, at, flip));
    }
  }
}

int replay_corpus(const std::string& directory) {
  Env& env = Env::posix();
  std::vector<Seed> seeds;
  for (const std::string& name : env.list(directory)) {
    const std::string text = read_file(env, directory + "/" + name);
    const auto bytes = std::as_bytes(std::span(text));
    seeds.push_back({name, Bytes(bytes.begin(), bytes.end())});
  }
  Replay replay;
  if (seeds.empty()) replay.fail(directory, "the corpus is empty");
  for (const Seed& seed : seeds) replay_seed(replay, seed);
  std::uint64_t mutation = 0;
  for (; !seeds.empty() && mutation < kMutations && !replay.out_of_time(); ++mutation) {
    Dice dice(mutation);
    Bytes bytes = seeds[dice.below(seeds.size())].bytes;
    const std::size_t steps = 1 + dice.below(4);
    for (std::size_t i = 0; i < steps; ++i) {
      mutate_once(bytes, seeds[dice.below(seeds.size())], dice);
    }
    replay.run(bytes, fmt::format("mutation {}", mutation));
  }
  fmt::print("{} files, {} mutations, {} inputs: {} accepted, {} failures\n", seeds.size(),
             mutation, replay.tried(), replay.accepted(), replay.failures());
  return replay.failures() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace surefit::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: {} CORPUS_DIRECTORY\n", argv[0]);
    return 2;
  }
  try {
    return surefit::fuzz::replay_corpus(argv[1]);
  } catch (const surefit::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.exit_code());
  }
}
