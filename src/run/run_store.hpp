// SPDX-License-Identifier: Apache-2.0
// run.sqlite of a run directory: metrics, memory samples and events. Trainer and guard may write at
// the same time (WAL, short transactions); readers never block them.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct sqlite3;

namespace surefit {

struct ScalarRow {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::string name;
  double value = 0;  // NaN is stored as NULL and comes back as NaN
  double time = 0;   // Unix time
};

struct MemoryRow {
  double time = 0;
  std::string source;  // "trainer" or "guard"
  std::uint64_t rss = 0;
  std::uint64_t pss = 0;
  std::uint64_t cgroup = 0;
  std::uint64_t limit = 0;  // 0 = none
};

struct EventRow {
  double time = 0;
  std::string kind;
  std::string detail_json;
};

class RunStore {
 public:
  // Opens or creates. Throws SystemError where the file cannot be opened or written, DataError
  // where it is no run store.
  explicit RunStore(const std::string& path);
  ~RunStore();
  RunStore(const RunStore&) = delete;
  RunStore& operator=(const RunStore&) = delete;

  void set(std::string_view key, std::string_view value);
  // Each call is one transaction: gather rows and pass them together.
  void add(std::span<const ScalarRow> rows);
  void add(std::span<const MemoryRow> rows);
  void add(const EventRow& row);
  // Removes scalars of `epoch` and later ones: a run resumed from a checkpoint in it writes them anew.
  void forget_from(std::int64_t epoch);

 private:
  sqlite3* db_ = nullptr;
};

class RunReader {
 public:
  explicit RunReader(
      const std::string& path);  // read-only, also in a directory without write permission
  ~RunReader();
  RunReader(const RunReader&) = delete;
  RunReader& operator=(const RunReader&) = delete;

  std::map<std::string, std::string> values() const;
  std::vector<std::string> scalar_names() const;
  std::vector<ScalarRow> scalars(std::string_view name) const;  // by step
  std::vector<ScalarRow> last_scalars() const;                  // the newest of every name
  std::vector<MemoryRow> memory() const;                        // by time
  std::vector<EventRow> events() const;                         // by time

 private:
  sqlite3* db_ = nullptr;
};

}  // namespace surefit
