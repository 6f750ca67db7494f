// SPDX-License-Identifier: Apache-2.0
#include "data/quarantine.hpp"

#include <cerrno>
#include <cmath>
#include <fmt/format.h>

#include "base/philox.hpp"

namespace surefit::data {

void Quarantine::admit(const Sample& sample) {
  std::string cause;
  try {
    throw;
  } catch (const DataError& error) {
    cause = error.what();
  } catch (const SystemError& error) {
    if (error.error_number() == ENOMEM) throw;
    cause = error.what();
  }
  const std::lock_guard lock(mutex_);
  const auto [bad, is_new] =
      bad_.try_emplace(sample.index(), BadSample{sample.index(), sample.path(), cause});
  if (is_new && report_) report_(bad->second);
  if (!samples_ || *samples_ == kInfiniteCardinality) return;
  const double allowed = std::floor(max_share_ * static_cast<double>(*samples_));
  if (static_cast<double>(bad_.size()) > allowed) {
    throw DataError(
        fmt::format(
            "[data] too many bad samples; expected at most {:.3g} % of {}; got {}; the last: {}",
            max_share_ * 100, *samples_, bad_.size(), cause),
        sample.path());
  }
}

std::vector<BadSample> Quarantine::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<BadSample> list;
  for (const auto& [id, bad] : bad_) list.push_back(bad);
  return list;
}

void read_or_substitute(const Node& node, Position at, Sample& out, Worker& worker) {
  if (worker.quarantine() == nullptr) return node.read(at, out, worker);
  constexpr std::uint64_t kAttempts = 1000;
  const std::uint64_t size = node.size().value();
  const Position wanted = at;
  for (std::uint64_t attempt = 0;; ++attempt) {
    try {
      return node.read(at, out, worker);
    } catch (...) {
      // A source that fails before it can name the sample leaves the previous one's name.
      const Position place = node.locate(at, worker.seed());
      out.place(place.index, place.pass);
      worker.quarantine()->admit(out);
      if (attempt == kAttempts) throw;
    }
    const Philox stream(worker.seed(), Purpose::kShuffle, node.op(), wanted.pass, wanted.index);
    const std::uint64_t word =
        (std::uint64_t{stream.block(attempt)[0]} << 32) | stream.block(attempt)[1];
    at.index = size == kInfiniteCardinality ? wanted.index + 1 + word % 65536 : word % size;
  }
}

}  // namespace surefit::data
