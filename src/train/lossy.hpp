// SPDX-License-Identifier: Apache-2.0
// What a training computes otherwise than in plain float32: by the dtype policy, or by rungs that
// the user has consented to. Fixed for a run and part of its identity; every plan of one such
// choice gives the same bits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "surefit/model.hpp"

#include "graph/op.hpp"

namespace surefit {

struct Lossy {
  Half storage = Half::kNo;      // of activations that wait for the backward pass
  bool by_policy = false;        // the dtype policy asked for it, not a lack of memory
  std::int64_t ghost_batch = 0;  // samples whose statistics batch normalization takes; 0: the batch
  bool factored_optimizer = false;

  bool operator==(const Lossy&) const = default;
  // The rungs: "f16-activations", "ghost-batch-norm:8", "factored-optimizer".
  std::vector<std::string> rungs() const;
  std::vector<std::string> names() const;  // rungs, and the policy where it is a mixed one
  std::string numbers() const;             // "float32", or with what is stored in 16 bits
};

// The user's consents. Throws ConfigError on one that is not known.
struct Consents {
  bool half = false, ghost = false, factored = false;
  explicit Consents(const std::vector<std::string>& names);
  bool cover(const Lossy& lossy) const;
};
inline constexpr const char* kConsents = "f16-activations, ghost-batch-norm, factored-optimizer";

// What the policy asks for, whatever the memory.
Lossy lossy_by_policy(const FitOptions& options);
// The choices in the order in which they are tried: what the policy asks for alone, then one rung,
// then two, then three; of ghost batches the largest first.
std::vector<Lossy> lossy_ladder(const FitOptions& options, std::int64_t batch);
// The rungs as a run has recorded them.
Lossy parse_rungs(const std::string& joined, const FitOptions& options);

}  // namespace surefit
