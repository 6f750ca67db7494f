// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "data/node.hpp"

namespace surefit::data {

// Bad samples met so far. Each is recorded once; above the allowed share of the data set the run
// stops. Thread-safe.
class Quarantine {
 public:
  Quarantine(const InputOptions& options, std::optional<std::uint64_t> samples)
      : max_share_(options.max_bad_share), report_(options.report_bad), samples_(samples) {}

  // Called from a catch block: records the sample when the exception is about data, rethrows
  // everything else.
  void admit(const Sample& sample);
  std::vector<BadSample> list() const;  // by sample number

 private:
  double max_share_;
  std::function<void(const BadSample&)> report_;
  std::optional<std::uint64_t> samples_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, BadSample> bad_;
};

// Reads the element at `at`. Under a quarantine a bad one is replaced by another, drawn by a fixed
// rule from the seed and its number, so that every run and every thread count takes the same
// substitute.
void read_or_substitute(const Node& node, Position at, Sample& out, Worker& worker);

}  // namespace surefit::data
