// SPDX-License-Identifier: Apache-2.0
#include "ckpt/model_env.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>

#include "surefit/error.hpp"

namespace surefit {
namespace {

constexpr std::size_t kSector = 512;

class ModelReadable final : public ReadableFile {
 public:
  explicit ModelReadable(std::string bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size() const override { return bytes_.size(); }
  std::size_t read_at(std::uint64_t offset, std::span<std::byte> buffer) const override {
    if (offset >= bytes_.size()) return 0;
    const std::size_t count =
        std::min(buffer.size(), bytes_.size() - static_cast<std::size_t>(offset));
    std::memcpy(buffer.data(), bytes_.data() + offset, count);
    return count;
  }

 private:
  std::string bytes_;
};

}  // namespace

template <typename Apply>
void ModelEnv::operate(const std::string& name, const std::string& path, const Apply& apply) {
  if (crashed_) throw Crash{};
  const int number = operation_++;
  log_.push_back(name + " " + path);
  if (fault_.at >= 0 && (number == fault_.at || (fault_.sticky && number > fault_.at))) {
    if (fault_.half_write && name == "write") apply(true);
    throw SystemError("[" + path + "] cannot " + name + ": " + std::strerror(fault_.error),
                      fault_.error);
  }
  apply(false);
  if (number == crash_at_) {
    crashed_ = true;
    throw Crash{};
  }
}

class ModelFile final : public WritableFile {
 public:
  ModelFile(ModelEnv& env, std::string path, std::shared_ptr<ModelEnv::Inode> inode)
      : env_(env), path_(std::move(path)), inode_(std::move(inode)) {}
  void preallocate(std::uint64_t) override {
    env_.operate("reserve", path_, [](bool) {});
  }
  void append(std::span<const std::byte> bytes) override {
    env_.operate("write", path_, [&](bool half) {
      const std::size_t count = half ? bytes.size() / 2 : bytes.size();
      const std::string text(reinterpret_cast<const char*>(bytes.data()), count);
      inode_->pending.push_back({inode_->now.size(), text});
      inode_->now += text;
    });
  }
  void sync() override {
    try {
      env_.operate("sync", path_, [&](bool) {
        if (env_.ignore_sync) return;
        if (!lost_) inode_->durable = inode_->now;
        inode_->pending.clear();
      });
    } catch (const SystemError&) {
      // As Linux does: the pages count as clean now, though they never reached the disk; a second
      // sync succeeds and means nothing.
      lost_ = true;
      inode_->pending.clear();
      throw;
    }
  }
  void close() override {
    env_.operate("close", path_, [](bool) {});
  }

 private:
  ModelEnv& env_;
  std::string path_;
  std::shared_ptr<ModelEnv::Inode> inode_;
  bool lost_ = false;
};

ModelEnv::ModelEnv(const Files& files) {
  for (const auto& [path, bytes] : files) {
    now_[path] = std::make_shared<Inode>(Inode{bytes, bytes, {}});
  }
  durable_ = now_;
}

ModelEnv::Files ModelEnv::files() const {
  Files files;
  for (const auto& [path, inode] : now_) files[path] = inode->now;
  return files;
}

void ModelEnv::play(Directory& directory, const Change& change) {
  if (!change.from.empty()) directory.erase(change.from);
  if (!change.to.empty()) directory[change.to] = change.inode;
}

std::unique_ptr<ReadableFile> ModelEnv::open_read(const std::string& path) {
  std::unique_ptr<ReadableFile> file;
  operate("open", path, [&](bool) {
    const auto found = now_.find(path);
    if (found == now_.end()) throw SystemError("[" + path + "] no such file", ENOENT);
    file = std::make_unique<ModelReadable>(found->second->now);
  });
  return file;
}

std::unique_ptr<WritableFile> ModelEnv::create(const std::string& path) {
  const auto inode = std::make_shared<Inode>();
  operate("create", path, [&](bool) {
    changes_.push_back({"", path, inode});
    play(now_, changes_.back());
  });
  return std::make_unique<ModelFile>(*this, path, inode);
}

void ModelEnv::rename(const std::string& from, const std::string& to) {
  operate("rename", from, [&](bool) {
    changes_.push_back({from, to, now_.at(from)});
    play(now_, changes_.back());
  });
}

void ModelEnv::remove(const std::string& path) {
  operate("remove", path, [&](bool) {
    if (now_.find(path) == now_.end()) throw SystemError("[" + path + "] no such file", ENOENT);
    changes_.push_back({path, "", nullptr});
    play(now_, changes_.back());
  });
}

void ModelEnv::sync_directory(const std::string& path) {
  operate("sync directory", path, [&](bool) {
    if (ignore_directory_sync) return;
    for (const Change& change : changes_) play(durable_, change);
    changes_.clear();
  });
}

void ModelEnv::make_directories(const std::string& path) {
  operate("make directories", path, [](bool) {});
}

bool ModelEnv::exists(const std::string& path) {
  if (crashed_) throw Crash{};
  const auto found = now_.lower_bound(path);
  return found != now_.end() && (found->first == path || found->first.starts_with(path + "/"));
}

std::vector<std::string> ModelEnv::list(const std::string& directory) {
  std::vector<std::string> names;
  operate("list", directory, [&](bool) {
    for (const auto& [path, inode] : now_) {
      if (directory_of(path) == directory) names.push_back(path.substr(directory.size() + 1));
    }
  });
  return names;
}

// The durable bytes with the kept writes over them; of torn ones each sector is there or not.
std::string ModelEnv::survivor(const Inode& inode, const std::vector<bool>& kept, bool torn,
                               std::mt19937& generator) {
  std::string bytes = inode.durable;
  for (std::size_t i = 0; i < inode.pending.size(); ++i) {
    const Write& write = inode.pending[i];
    if (!kept[i]) continue;
    for (std::size_t at = 0; at < write.bytes.size();) {
      const std::size_t sector_end =
          (write.offset + at) / kSector * kSector + kSector - write.offset;
      const std::size_t count = std::min(sector_end, write.bytes.size()) - at;
      if (!torn || generator() % 2 == 0) {
        const std::size_t offset = write.offset + at;
        if (bytes.size() < offset + count) bytes.resize(offset + count, '\0');
        bytes.replace(offset, count, write.bytes, at, count);
      }
      at += count;
    }
  }
  return bytes;
}

std::vector<ModelEnv::Files> ModelEnv::after_crash(std::mt19937& generator, int random,
                                                   int singles) const {
  // Which directory changes made it: all subsets of few, else samples.
  const std::size_t count = changes_.size();
  std::vector<std::vector<bool>> directories;
  const bool all = count <= 4;
  for (std::size_t i = 0; i < (all ? std::size_t{1} << count : 16); ++i) {
    std::vector<bool> kept(count);
    for (std::size_t bit = 0; bit < count; ++bit)
      kept[bit] = all ? (i >> bit & 1) != 0 : generator() % 2 == 0;
    directories.push_back(std::move(kept));
  }
  std::vector<Files> results;
  const auto add = [&](const std::vector<bool>& applied, bool torn,
                       const std::function<bool(std::size_t, std::size_t)>& keeps, bool full_size) {
    Directory directory = durable_;
    for (std::size_t i = 0; i < count; ++i) {
      if (applied[i]) play(directory, changes_[i]);
    }
    Files files;
    for (const auto& [path, inode] : directory) {
      std::vector<bool> kept;
      for (std::size_t i = 0; i < inode->pending.size(); ++i)
        kept.push_back(keeps(i, inode->pending.size()));
      std::string bytes = survivor(*inode, kept, torn, generator);
      // The size may have been written although the data were not.
      if (full_size && bytes.size() < inode->now.size()) bytes.resize(inode->now.size(), '\0');
      files[path] = std::move(bytes);
    }
    results.push_back(std::move(files));
  };
  for (const auto& applied : directories) {
    for (const bool full_size : {false, true}) {
      add(
          applied, false, [](std::size_t, std::size_t) { return false; }, full_size);
      add(
          applied, false, [](std::size_t, std::size_t) { return true; }, full_size);
      add(
          applied, true, [](std::size_t, std::size_t) { return true; }, full_size);
      for (std::size_t one = 0; one < static_cast<std::size_t>(singles); ++one) {
        add(
            applied, false, [&](std::size_t i, std::size_t) { return i == one; }, full_size);
        add(
            applied, false, [&](std::size_t i, std::size_t) { return i != one; }, full_size);
        add(
            applied, false, [&](std::size_t i, std::size_t) { return i < one; }, full_size);
      }
    }
    for (int i = 0; i < random; ++i) {
      add(
          applied, i % 2 == 1, [&](std::size_t, std::size_t) { return generator() % 2 == 0; },
          i % 4 < 2);
    }
  }
  return results;
}

}  // namespace surefit
