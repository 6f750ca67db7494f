// SPDX-License-Identifier: Apache-2.0
// What is worth telling while the command lives: each thing once, or again only when it became more
// urgent.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "guard/sampler.hpp"
#include "guard/store.hpp"
#include "guard/streams.hpp"
#include "guard/supervisor.hpp"

namespace surefit::guard {

class Notices {
 public:
  Notices(const SupervisorOptions& options, Streams& streams, Store& store)
      : options_(options), streams_(streams), store_(store) {}

  void look(Sampler& sampler);  // at every tick
  void look_at_output(std::string_view bytes, Evidence& evidence);
  void look_at_tail(Evidence& evidence);
  void tell(const std::string& text, bool remember = true);
  const std::vector<std::string>& told() const { return told_; }

 private:
  void once(const std::string& key, const std::string& text);
  void look_at_memory(const Sampler& sampler);

  const SupervisorOptions& options_;
  Streams& streams_;
  Store& store_;
  std::set<std::string> said_;
  std::vector<std::string> told_;
  std::string line_;  // unfinished line of output
  double next_look_ = 0;
  SteadyForecast steady_;
  double told_seconds_ = 1e18;  // last forecast told
  std::uint64_t oom_kills_ = 0;
};

}  // namespace surefit::guard
