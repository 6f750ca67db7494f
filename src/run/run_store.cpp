// SPDX-License-Identifier: Apache-2.0
#include "run/run_store.hpp"

#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <unistd.h>

#include <sqlite3.h>

#include "surefit/error.hpp"

namespace surefit {
namespace {

[[noreturn]] void fail(sqlite3* db, std::string_view what) {
  const int code = db == nullptr ? SQLITE_NOMEM : sqlite3_errcode(db);
  const std::string text = fmt::format("[run store] cannot {}: {}", what,
                                       db == nullptr ? "out of memory" : sqlite3_errmsg(db));
  if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT || code == SQLITE_ERROR)
    throw DataError(text);
  throw SystemError(text, db == nullptr ? 0 : sqlite3_system_errno(db));
}

void execute(sqlite3* db, const char* sql, std::string_view what) {
  if (sqlite3_exec(db, sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail(db, what);
}

class Statement {
 public:
  Statement(sqlite3* db, const char* sql, std::string_view what) : db_(db), what_(what) {
    if (sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr) != SQLITE_OK) fail(db, what);
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(int at, std::string_view text) {
    sqlite3_bind_text(statement_, at, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
    return *this;
  }
  Statement& bind(int at, double value) {
    sqlite3_bind_double(statement_, at, value);
    return *this;
  }
  Statement& bind(int at, std::int64_t value) {
    sqlite3_bind_int64(statement_, at, value);
    return *this;
  }
  bool step() {
    const int code = sqlite3_step(statement_);
    if (code != SQLITE_ROW && code != SQLITE_DONE) fail(db_, what_);
    return code == SQLITE_ROW;
  }
  void run() {
    step();
    sqlite3_reset(statement_);
  }
  std::string text(int column) const {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return bytes == nullptr
               ? std::string()
               : std::string(bytes,
                             static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
  }
  double real(int column) const {
    return sqlite3_column_type(statement_, column) == SQLITE_NULL
               ? std::numeric_limits<double>::quiet_NaN()
               : sqlite3_column_double(statement_, column);
  }
  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }

 private:
  sqlite3* db_;
  std::string_view what_;
  sqlite3_stmt* statement_ = nullptr;
};

// One transaction; rolled back where it does not reach commit().
class Transaction {
 public:
  explicit Transaction(sqlite3* db) : db_(db) {
    execute(db, "BEGIN IMMEDIATE", "begin a transaction");
  }
  ~Transaction() {
    if (db_ != nullptr) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit() {
    execute(db_, "COMMIT", "commit");
    db_ = nullptr;
  }

 private:
  sqlite3* db_;
};

constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS run(key TEXT PRIMARY KEY, value TEXT);"
    "CREATE TABLE IF NOT EXISTS scalar(step INTEGER, epoch INTEGER, name TEXT, value REAL, time "
    "REAL);"
    "CREATE INDEX IF NOT EXISTS scalar_by_name ON scalar(name, step);"
    "CREATE TABLE IF NOT EXISTS memory(time REAL, source TEXT, rss INTEGER, pss INTEGER, cgroup "
    "INTEGER,"
    " \"limit\" INTEGER);"
    "CREATE TABLE IF NOT EXISTS event(time REAL, kind TEXT, detail_json TEXT);";

ScalarRow scalar_of(const Statement& row) {
  return {row.integer(0), row.integer(1), row.text(2), row.real(3), row.real(4)};
}

}  // namespace

RunStore::RunStore(const std::string& path) {
  if (sqlite3_open_v2(path.c_str(), &db_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr) !=
      SQLITE_OK) {
    sqlite3* broken = db_;
    db_ = nullptr;
    try {
      fail(broken, "open " + path);
    } catch (...) {
      sqlite3_close(broken);
      throw;
    }
  }
  try {
    sqlite3_busy_timeout(db_, 3000);
    // A quarter of a megabyte of page cache: the guard must stay small. NORMAL in WAL: a crash of
    // the process loses nothing, a power cut at most the last transactions, and the database stays
    // whole.
    execute(db_, "PRAGMA cache_size=-256; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            "set up " + path);
    execute(db_, kSchema, "create the tables of " + path);
  } catch (...) {
    sqlite3_close(db_);
    throw;
  }
}

RunStore::~RunStore() {
  sqlite3_close(db_);
}

void RunStore::set(std::string_view key, std::string_view value) {
  Statement(db_,
            "INSERT INTO run(key, value) VALUES(?1, ?2) ON CONFLICT(key) DO UPDATE SET value = ?2",
            "set a value")
      .bind(1, key)
      .bind(2, value)
      .run();
}

void RunStore::add(std::span<const ScalarRow> rows) {
  Transaction transaction(db_);
  Statement insert(db_, "INSERT INTO scalar VALUES(?1, ?2, ?3, ?4, ?5)", "add scalars");
  for (const ScalarRow& row : rows) {
    insert.bind(1, row.step)
        .bind(2, row.epoch)
        .bind(3, row.name)
        .bind(4, row.value)
        .bind(5, row.time)
        .run();
  }
  transaction.commit();
}

void RunStore::add(std::span<const MemoryRow> rows) {
  Transaction transaction(db_);
  Statement insert(db_, "INSERT INTO memory VALUES(?1, ?2, ?3, ?4, ?5, ?6)", "add memory samples");
  for (const MemoryRow& row : rows) {
    insert.bind(1, row.time)
        .bind(2, row.source)
        .bind(3, static_cast<std::int64_t>(row.rss))
        .bind(4, static_cast<std::int64_t>(row.pss))
        .bind(5, static_cast<std::int64_t>(row.cgroup))
        .bind(6, static_cast<std::int64_t>(row.limit))
        .run();
  }
  transaction.commit();
}

void RunStore::add(const EventRow& row) {
  Statement(db_, "INSERT INTO event VALUES(?1, ?2, ?3)", "add an event")
      .bind(1, row.time)
      .bind(2, row.kind)
      .bind(3, row.detail_json)
      .run();
}

void RunStore::forget_from(std::int64_t epoch) {
  Statement(db_, "DELETE FROM scalar WHERE epoch >= ?1", "remove replayed scalars")
      .bind(1, epoch)
      .run();
}

RunReader::RunReader(const std::string& path) {
  // Without write permission WAL's shared memory cannot be made; a file nobody can write is read as
  // it stands.
  const bool writable = ::access(path.c_str(), W_OK) == 0;
  std::string uri = "file:";
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      uri += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    } else {
      uri += c;
    }
  }
  uri += writable ? "?mode=ro" : "?mode=ro&immutable=1";
  const int code =
      sqlite3_open_v2(uri.c_str(), &db_, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr);
  try {
    if (code != SQLITE_OK) fail(db_, "read " + path);
    sqlite3_busy_timeout(db_, 3000);
    Statement(db_, "SELECT count(*) FROM run", "read " + path).step();
  } catch (...) {
    sqlite3_close(db_);
    throw;
  }
}

RunReader::~RunReader() {
  sqlite3_close(db_);
}

std::map<std::string, std::string> RunReader::values() const {
  std::map<std::string, std::string> result;
  Statement query(db_, "SELECT key, value FROM run", "read values");
  while (query.step()) result[query.text(0)] = query.text(1);
  return result;
}

std::vector<std::string> RunReader::scalar_names() const {
  std::vector<std::string> result;
  Statement query(db_, "SELECT DISTINCT name FROM scalar ORDER BY name", "read scalar names");
  while (query.step()) result.push_back(query.text(0));
  return result;
}

std::vector<ScalarRow> RunReader::scalars(std::string_view name) const {
  std::vector<ScalarRow> result;
  Statement query(
      db_, "SELECT step, epoch, name, value, time FROM scalar WHERE name = ?1 ORDER BY step, rowid",
      "read scalars");
  query.bind(1, name);
  while (query.step()) result.push_back(scalar_of(query));
  return result;
}

std::vector<ScalarRow> RunReader::last_scalars() const {
  std::vector<ScalarRow> result;
  Statement query(db_,
                  "SELECT step, epoch, name, value, time FROM scalar WHERE rowid IN"
                  " (SELECT max(rowid) FROM scalar GROUP BY name) ORDER BY name",
                  "read the last scalars");
  while (query.step()) result.push_back(scalar_of(query));
  return result;
}

std::vector<MemoryRow> RunReader::memory() const {
  std::vector<MemoryRow> result;
  Statement query(db_, "SELECT time, source, rss, pss, cgroup, \"limit\" FROM memory ORDER BY time",
                  "read memory");
  while (query.step()) {
    const auto bytes = [&](int column) {
      return static_cast<std::uint64_t>(query.integer(column));
    };
    result.push_back({query.real(0), query.text(1), bytes(2), bytes(3), bytes(4), bytes(5)});
  }
  return result;
}

std::vector<EventRow> RunReader::events() const {
  std::vector<EventRow> result;
  Statement query(db_, "SELECT time, kind, detail_json FROM event ORDER BY time, rowid",
                  "read events");
  while (query.step()) result.push_back({query.real(0), query.text(1), query.text(2)});
  return result;
}

}  // namespace surefit
