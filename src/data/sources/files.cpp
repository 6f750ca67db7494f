// SPDX-License-Identifier: Apache-2.0
#include "data/sources/files.hpp"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <fmt/format.h>
#include <limits>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/check.hpp"

namespace surefit::data {

void FileTable::add(std::string_view relative_path, std::int32_t label) {
  if (names_.size() + relative_path.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw DataError(fmt::format("[{}] the names of its files take more than 4 GiB", root_), root_);
  }
  entries_.push_back({static_cast<std::uint32_t>(names_.size()),
                      static_cast<std::uint32_t>(relative_path.size()), label});
  names_.append(relative_path);
}

void FileTable::sort() {
  const std::string_view names = names_;
  std::sort(entries_.begin(), entries_.end(), [names](const Entry& a, const Entry& b) {
    return names.substr(a.offset, a.length) < names.substr(b.offset, b.length);
  });
}

void FileTable::shrink() {
  names_.shrink_to_fit();
  entries_.shrink_to_fit();
}

void FileTable::path(std::size_t index, std::string& out) const {
  out.assign(root_);
  if (!root_.empty() && root_.back() != '/') out += '/';
  out.append(relative(index));
}

namespace {

class Files final : public Node {
 public:
  Files(FileTable table, bool labelled, std::string name)
      : Node({}), table_(std::move(table)), labelled_(labelled), name_(std::move(name)) {
    table_.shrink();
  }

  std::string describe() const override {
    return fmt::format("{}({} files)", name_, table_.size());
  }
  std::vector<ComponentSpec> spec() const override {
    std::vector<ComponentSpec> spec{{DType::kUInt8, {-1}}};
    if (labelled_) spec.push_back({DType::kInt32, {}});
    return spec;
  }
  std::optional<std::uint64_t> size() const override { return table_.size(); }

  void read(Position at, Sample& out, Worker& worker) const override {
    out.resize(labelled_ ? 2 : 1);
    out.place(at.index, at.pass);
    std::string& path = worker.text();
    table_.path(at.index, path);
    out.set_path(path);
    out[0].assign(path);
    if (labelled_) out[1].assign_scalar(table_.label(at.index));
  }

  void will_need(Position at, Worker& worker) const override {
    if (&worker.env() != &Env::posix()) return;
    table_.path(at.index, worker.text());
    const int file = ::open(worker.text().c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return;  // only a hint: the reading itself will say what is wrong
    ::posix_fadvise(file, 0, 0, POSIX_FADV_WILLNEED);
    ::close(file);
  }

  // Names and sizes, not times: a copied data set is the same data set.
  std::uint64_t fingerprint() const override {
    std::uint64_t hash = table_.size();
    std::string path;
    for (std::size_t i = 0; i < table_.size(); ++i) {
      table_.path(i, path);
      struct stat status {};
      const std::int64_t bytes = ::stat(path.c_str(), &status) == 0 ? status.st_size : -1;
      const std::string_view name = table_.relative(i);
      hash = XXH3_64bits_withSeed(name.data(), name.size(),
                                  hash ^ static_cast<std::uint64_t>(bytes) * 0x9E3779B97F4A7C15u ^
                                      static_cast<std::uint64_t>(labelled_ ? table_.label(i) : 0));
    }
    return hash;
  }

  std::vector<LedgerEntry> buffers() const override {
    return {{describe(), table_.bytes(), Residence::kSource}};
  }

  // The largest files hold the largest pictures, nearly always; JPEG and PNG each by themselves,
  // because they pack differently.
  std::vector<std::uint64_t> heaviest(std::uint64_t count) const override {
    std::array<std::vector<std::pair<std::int64_t, std::uint64_t>>, 2> sizes;
    std::string path;
    for (std::size_t i = 0; i < table_.size(); ++i) {
      table_.path(i, path);
      struct stat status {};
      if (::stat(path.c_str(), &status) != 0) continue;
      sizes[path.ends_with(".png") ? 1 : 0].emplace_back(-status.st_size, i);
    }
    std::vector<std::uint64_t> indices;
    for (auto& kind : sizes) {
      const auto kept = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(count, kind.size()));
      std::partial_sort(kind.begin(), kind.begin() + kept, kind.end());
      for (std::ptrdiff_t i = 0; i < kept; ++i)
        indices.push_back(kind[static_cast<std::size_t>(i)].second);
    }
    return indices;
  }

 private:
  FileTable table_;
  bool labelled_;
  std::string name_;
};

}  // namespace

NodePtr make_files(FileTable table, bool labelled, std::string name) {
  return std::make_shared<Files>(std::move(table), labelled, std::move(name));
}

}  // namespace surefit::data
