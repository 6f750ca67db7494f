// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace surefit::data {

class Node;

// Where a pipeline stands: all that a checkpoint must keep of it.
struct State {
  struct Source {
    std::string name;  // "arrays(60000)", "folder(photos, 1200 files)"
    std::uint64_t fingerprint = 0;
    bool operator==(const Source&) const = default;
  };

  std::uint64_t epoch = 0;
  std::uint64_t position = 0;  // batches already delivered in this epoch
  std::uint64_t seed = 0;
  std::string pipeline;  // the verbs that decide what comes, possibly shortened
  std::uint64_t pipeline_hash = 0;
  std::vector<Source> sources;

  static constexpr std::size_t kMaxBytes = 4096;
  std::string serialise() const;              // JSON, at most kMaxBytes
  static State parse(std::string_view text);  // throws DataError
  bool operator==(const State&) const = default;
};

// Everything but epoch, position and seed.
State describe_state(const Node& node);
// Throws when `now` cannot continue where `then` stopped: DataError for changed sources,
// ConfigError for changed verbs.
void check_resumable(const State& then, const State& now);

}  // namespace surefit::data
