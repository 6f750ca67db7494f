// SPDX-License-Identifier: Apache-2.0
// A temporary folder and pictures to put in it.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdlib.h>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "data/images/decode.hpp"

namespace surefit::data {

class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_((std::filesystem::temp_directory_path() / "surefit-data-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string write(const std::string& name, const std::string& contents) const {
    const std::filesystem::path file = std::filesystem::path(path_) / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << contents;
    return file.string();
  }

 private:
  std::string path_;
};

// A smooth picture that JPEG keeps nearly unchanged; `number` changes every pixel.
inline std::vector<std::uint8_t> gradient(int height, int width, int channels, int number = 0) {
  std::vector<std::uint8_t> pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        pixels.push_back(static_cast<std::uint8_t>(
            (y * 100 / height + x * 100 / width + 20 * c + 3 * number) % 256));
      }
    }
  }
  return pixels;
}
inline std::string jpeg(int height, int width, int number = 0) {
  return encode_jpeg(gradient(height, width, 3, number), height, width, 3, 95);
}
inline std::string png(int height, int width, int number = 0, int channels = 3) {
  return encode_png(gradient(height, width, channels, number), height, width, channels);
}

// `count` pictures over two classes, JPEG and PNG, of different sizes.
inline void fill_folder(const TemporaryFolder& folder, int count) {
  for (int i = 0; i < count; ++i) {
    const int height = 20 + i % 7 * 5, width = 24 + i % 5 * 9;
    const std::string name = (i % 2 == 0 ? "cats/" : "dogs/") + std::to_string(1000 + i);
    if (i % 3 == 0) {
      folder.write(name + ".png", png(height, width, i));
    } else {
      folder.write(name + ".jpg", jpeg(height, width, i));
    }
  }
}

}  // namespace surefit::data
