// SPDX-License-Identifier: Apache-2.0
// From evidence to cause. A rule is a function from Evidence to a Finding or nothing; the table in
// rules.cpp holds them in order, most specific first, and the first that applies is the verdict.
// Patterns (leak, staircase, ...) are told beside it.
//
// certain  = the kernel's own word: a counter, a wait status, a log record, an errno the program
// printed and the state
//            of the machine confirms
// probable = status plus a state of the machine that fits, but somebody else may have done it
// possible = a pattern alone
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "guard/evidence.hpp"

namespace surefit::guard {

enum class Confidence { kPossible, kProbable, kCertain };
std::string_view confidence_name(Confidence confidence);

// What a restart can hope for.
enum class Retry {
  kNever,       // deterministic: the same would happen again
  kTransient,   // may pass: with backoff
  kLessMemory,  // only with a smaller appetite
};

struct Finding {
  Confidence confidence = Confidence::kPossible;
  std::string evidence;
  std::string advice;
};

struct Rule {
  std::string_view cause;  // stable name, for scripts
  std::string_view title;  // for people
  Retry retry = Retry::kNever;
  std::optional<Finding> (*look)(const Evidence&) = nullptr;
};

struct Verdict {
  std::string cause, title;
  Confidence confidence = Confidence::kPossible;
  std::string evidence, advice;
  Retry retry = Retry::kNever;
};

struct Diagnosis {
  Verdict verdict;
  std::vector<Verdict> patterns;
};

std::span<const Rule> death_rules();
std::span<const Rule> pattern_rules();

bool is_death(const Evidence& evidence);  // anything but a clean exit 0
Diagnosis diagnose(const Evidence& evidence);
std::vector<Verdict> find_patterns(const Evidence& evidence);

std::string signal_name(int number);

// Shared by the rules.
std::string mebibytes(double bytes);  // "1,020"
bool died_of(const Evidence& evidence, int signal);
// A shell reports its child's signal n as exit 128 + n.
bool died_of_or_wrapped(const Evidence& evidence, int signal);
std::string memory_story(const Evidence& evidence);  // "peak 1,020 of 1,024 MiB, growing 3.1 MiB/s"
struct OomCount {
  bool known = false;                   // counters could be read
  std::uint64_t kills = 0;              // of members of our groups
  const MemoryChange* limit = nullptr;  // the group whose limit was hit, where it can be told
};
OomCount count_ooms(const Evidence& evidence);

// One list per file of rules.
std::span<const Rule> killed_rules();
std::span<const Rule> crash_rules();
std::span<const Rule> program_rules();

}  // namespace surefit::guard
