// SPDX-License-Identifier: Apache-2.0
// CSV of paths and labels: quotes as in RFC 4180, either line ending.
#include "data/sources/csv.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <map>

#include "surefit/image.hpp"

#include "base/env.hpp"

namespace surefit {
namespace {

class CsvReader {
 public:
  CsvReader(std::string text, std::string path, char separator)
      : text_(std::move(text)), path_(std::move(path)), separator_(separator) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // a byte order mark, as spreadsheets write
  }

  // The next line with anything on it; false at the end.
  bool next(std::vector<std::string>& fields) {
    do {
      if (at_ >= text_.size()) return false;
      fields.clear();
      line_ = next_line_;
      while (read_field(fields)) {
      }
    } while (fields.size() == 1 && fields[0].empty());
    return true;
  }
  std::size_t line() const { return line_; }

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(fmt::format("[{}:{}] {}", path_, line_, what), path_,
                    static_cast<std::int64_t>(at_));
  }

 private:
  // Reads one field; true when another follows on the same line.
  bool read_field(std::vector<std::string>& fields) {
    std::string& field = fields.emplace_back();
    if (at_ < text_.size() && text_[at_] == '"') {
      read_quoted(field);
    } else {
      while (at_ < text_.size() && text_[at_] != separator_ && text_[at_] != '\n')
        field += text_[at_++];
      if (!field.empty() && field.back() == '\r') field.pop_back();
    }
    if (at_ < text_.size() && text_[at_] == '\r') ++at_;
    if (at_ >= text_.size()) return false;
    const char end = text_[at_++];
    if (end == '\n') {
      ++next_line_;
      return false;
    }
    if (end != separator_) fail("text after a closing quote; expected the end of the field");
    return true;
  }

  void read_quoted(std::string& field) {
    ++at_;
    for (;; ++at_) {
      if (at_ >= text_.size()) fail("a quote is never closed");
      if (text_[at_] == '\n') ++next_line_;
      if (text_[at_] == '"') {
        if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
          ++at_;
        } else {
          break;
        }
      }
      field += text_[at_];
    }
    ++at_;
  }

  std::string text_, path_;
  char separator_;
  std::size_t at_ = 0, line_ = 1, next_line_ = 1;
};

std::size_t find_column(const std::vector<std::string>& header, const std::string& name,
                        std::size_t otherwise, const CsvReader& reader) {
  if (name.empty()) return otherwise;
  const auto found = std::find(header.begin(), header.end(), name);
  if (found == header.end()) {
    reader.fail(fmt::format("no column named {}; got {}", name, fmt::join(header, ", ")));
  }
  return static_cast<std::size_t>(found - header.begin());
}

std::optional<std::int32_t> whole_number(const std::string& text) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

struct Row {
  std::string path, label;
};

void add_rows(data::FileTable& table, const std::vector<Row>& rows, bool labelled) {
  const bool numbers = std::all_of(
      rows.begin(), rows.end(), [](const Row& row) { return whole_number(row.label).has_value(); });
  std::map<std::string, std::int32_t> classes;
  if (labelled && !numbers) {
    for (const Row& row : rows) classes.emplace(row.label, 0);
    std::int32_t next = 0;
    for (auto& [name, number] : classes) number = next++;
  }
  for (const Row& row : rows) {
    table.add(row.path,
              !labelled ? 0 : (numbers ? *whole_number(row.label) : classes.at(row.label)));
  }
}

}  // namespace

namespace data {

FileTable parse_csv_paths(std::string text, const std::string& file, const CsvOptions& options,
                          bool& labelled) {
  if (!options.header && (!options.path_column.empty() || !options.label_column.empty())) {
    throw ConfigError(
        fmt::format("[{}] columns are named but the file is said to have no header", file));
  }
  CsvReader reader(std::move(text), file, options.separator);
  std::vector<std::string> fields;
  std::size_t path_column = 0, label_column = 1;
  labelled = true;
  if (options.header) {
    if (!reader.next(fields)) reader.fail("the file is empty; expected a header");
    path_column = find_column(fields, options.path_column, 0, reader);
    label_column = find_column(fields, options.label_column, 1, reader);
    labelled = fields.size() > 1;
  }
  std::vector<Row> rows;
  while (reader.next(fields)) {
    if (rows.empty() && !options.header) labelled = fields.size() > 1;
    const std::size_t needed = std::max(path_column, labelled ? label_column : 0) + 1;
    if (fields.size() < needed) {
      reader.fail(
          fmt::format("too few columns; expected at least {}; got {}", needed, fields.size()));
    }
    if (fields[path_column].empty()) reader.fail("the path is empty");
    rows.push_back({fields[path_column], labelled ? fields[label_column] : ""});
  }
  if (rows.empty()) reader.fail("no rows; expected at least one path");
  const bool absolute =
      std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.path[0] == '/'; });
  if (absolute) {
    for (Row& row : rows) {
      if (row.path[0] != '/') row.path = directory_of(file) + "/" + row.path;
    }
  }
  FileTable table(absolute ? std::string() : directory_of(file));
  add_rows(table, rows, labelled);
  return table;
}

}  // namespace data

Dataset csv_paths(const std::string& file, CsvOptions options) {
  bool labelled = false;
  data::FileTable table = data::parse_csv_paths(
      read_file(Env::posix(), file, std::uint64_t{1} << 32), file, options, labelled);
  return Dataset(data::make_files(std::move(table), labelled, "csv"));
}

}  // namespace surefit
