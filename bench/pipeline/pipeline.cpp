// SPDX-License-Identifier: Apache-2.0
// JPEG 500x375 -> 224x224x3: the pipeline against a bare loop over the same files, and against
// torch's DataLoader when /usr/bin/python3 has torch and PIL. Prints ratios from one run.
//   bench_pipeline [files=400] [rounds=3]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <stdlib.h>
#include <sys/resource.h>
#include <vector>

#include <jpeglib.h>

#include "surefit/image.hpp"

#include "base/clock.hpp"
#include "base/thread_pool.hpp"
#include "data/images/decode.hpp"
#include "data/reader.hpp"
#include "pictures.hpp"

namespace surefit {
namespace {

constexpr int kHeight = 375, kWidth = 500, kSize = 224;

void make_files(const std::string& directory, int count) {
  for (int i = 0; i < count; ++i) {
    const std::string folder = fmt::format("{}/class{}", directory, i % 2);
    std::filesystem::create_directories(folder);
    const std::vector<std::uint8_t> pixels =
        draw_picture(static_cast<std::uint64_t>(i % 64), kHeight, kWidth);
    std::ofstream(fmt::format("{}/{:05}.jpg", folder, i), std::ios::binary)
        << data::encode_jpeg(pixels, kHeight, kWidth, 3);
  }
}

// What anybody would write first: read, decode whole, resize whole, convert. Plain libjpeg-turbo
// defaults.
class BareLoop {
 public:
  void run(const std::string& path, float* out, bool resize) {
    std::FILE* file = std::fopen(path.c_str(), "rb");
    std::fseek(file, 0, SEEK_END);
    bytes_.resize(static_cast<std::size_t>(std::ftell(file)));
    std::rewind(file);
    if (std::fread(bytes_.data(), 1, bytes_.size(), file) != bytes_.size()) std::abort();
    std::fclose(file);
    jpeg_decompress_struct info;
    jpeg_error_mgr error;
    info.err = jpeg_std_error(&error);
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, bytes_.data(), bytes_.size());
    jpeg_read_header(&info, TRUE);
    info.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info);
    pixels_.resize(std::size_t{info.output_height} * info.output_width * 3);
    while (info.output_scanline < info.output_height) {
      JSAMPROW rows[1] = {pixels_.data() +
                          std::size_t{info.output_scanline} * info.output_width * 3};
      jpeg_read_scanlines(&info, rows, 1);
    }
    const int height = static_cast<int>(info.output_height),
              width = static_cast<int>(info.output_width);
    jpeg_finish_decompress(&info);
    jpeg_destroy_decompress(&info);
    if (resize) bilinear(height, width, out);
  }

 private:
  void bilinear(int height, int width, float* out) {
    if (left_.empty()) {
      for (int x = 0; x < kSize; ++x) {
        const float at = std::max(
            0.0f, (static_cast<float>(x) + 0.5f) * static_cast<float>(width) / kSize - 0.5f);
        left_.push_back(std::min(static_cast<int>(at), width - 1));
        right_.push_back(std::min(left_.back() + 1, width - 1));
        share_.push_back(at - static_cast<float>(left_.back()));
      }
    }
    for (int y = 0; y < kSize; ++y) {
      const float at = std::max(
          0.0f, (static_cast<float>(y) + 0.5f) * static_cast<float>(height) / kSize - 0.5f);
      const int top = std::min(static_cast<int>(at), height - 1),
                bottom = std::min(top + 1, height - 1);
      const float down = at - static_cast<float>(top);
      const std::uint8_t* upper = pixels_.data() + static_cast<std::size_t>(top) * width * 3;
      const std::uint8_t* lower = pixels_.data() + static_cast<std::size_t>(bottom) * width * 3;
      for (int x = 0; x < kSize; ++x) {
        for (int c = 0; c < 3; ++c) {
          const float a = upper[left_[x] * 3 + c], b = upper[right_[x] * 3 + c];
          const float d = lower[left_[x] * 3 + c], e = lower[right_[x] * 3 + c];
          const float above = a + (b - a) * share_[x], below = d + (e - d) * share_[x];
          *out++ = above + (below - above) * down;
        }
      }
    }
  }
  std::vector<std::uint8_t> bytes_, pixels_;
  std::vector<int> left_, right_;
  std::vector<float> share_;
};

// Samples per second of the clock, and per second of processor time: the second holds on a busy
// machine too.
struct Rate {
  double wall = 0, cpu = 0;
  void keep_best(const Rate& other) {
    wall = std::max(wall, other.wall);
    cpu = std::max(cpu, other.cpu);
  }
};

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

class Timer {
 public:
  Rate rate(double samples) const {
    return {samples / (monotonic_seconds() - wall_),
            samples / std::max(cpu_seconds() - cpu_, 1e-6)};
  }

 private:
  double wall_ = monotonic_seconds(), cpu_ = cpu_seconds();
};

Rate bare_rate(const std::vector<std::string>& paths, bool resize) {
  BareLoop loop;
  std::vector<float> batch(32 * kSize * kSize * 3);
  const Timer timer;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    loop.run(paths[i], batch.data() + i % 32 * kSize * kSize * 3, resize);
  }
  return timer.rate(static_cast<double>(paths.size()));
}

// Stands in for training: `milliseconds` of arithmetic a sample, on all threads.
void train(ThreadPool& pool, std::uint64_t samples, double milliseconds) {
  pool.parallel_for(samples, [&](std::size_t, int) {
    volatile float value = 1;
    for (long i = 0; i < static_cast<long>(milliseconds * 250'000); ++i) value = value * 1.0000001f;
  });
}

Rate pipeline_rate(const std::string& directory, int threads, double train_ms = 0) {
  const Dataset dataset =
      image_dataset_from_directory(directory, {.height = kSize, .width = kSize, .seed = 1});
  ThreadPool pool(threads);
  data::BatchReader reader(dataset, {.seed = 1, .threads = threads});
  std::vector<float> pictures(32 * kSize * kSize * 3);
  std::vector<std::int32_t> labels(32);
  const std::vector<data::Slot> slots{
      {DType::kFloat32, {kSize, kSize, 3}, std::as_writable_bytes(std::span(pictures))},
      {DType::kInt32, {}, std::as_writable_bytes(std::span(labels))}};
  std::uint64_t samples = 0;
  reader.fill(slots, {}, pool);  // the first batch also prepares the workers' buffers
  reader.seek(0, 0);
  const Timer timer;
  while (const std::uint64_t count = reader.fill(slots, {}, pool)) {
    samples += count;
    if (train_ms > 0) train(pool, count, train_ms);
  }
  return timer.rate(static_cast<double>(samples));
}

Rate train_rate(std::uint64_t samples, double train_ms) {
  ThreadPool pool(2);
  const Timer timer;
  for (std::uint64_t done = 0; done < samples; done += 32) train(pool, 32, train_ms);
  return timer.rate(static_cast<double>(samples));
}

// Pictures as small as MNIST's, shuffled, from memory: what the pipeline itself costs.
Rate array_rate() {
  constexpr std::int64_t kCount = 60'000;
  Tensor x(Shape{kCount, 28, 28, 1}, DType::kUInt8), y(Shape{kCount}, DType::kUInt8);
  const Dataset dataset =
      Dataset::from_tensor_slices(std::move(x), std::move(y)).shuffle(kCount).batch(32);
  ThreadPool pool(2);
  data::BatchReader reader(dataset, {.threads = 2});
  std::vector<float> pictures(32 * 28 * 28);
  std::vector<std::int32_t> labels(32);
  const std::vector<data::Slot> slots{
      {DType::kFloat32, {28, 28, 1}, std::as_writable_bytes(std::span(pictures))},
      {DType::kInt32, {}, std::as_writable_bytes(std::span(labels))}};
  const Timer timer;
  while (reader.fill(slots, {}, pool) > 0) {
  }
  return timer.rate(kCount);
}

double torch_rate(const std::string& directory) {
  const std::string command =
      fmt::format("/usr/bin/python3 {} {} 2>/dev/null", SUREFIT_TORCH_LOADER, directory);
  std::FILE* pipe = ::popen(command.c_str(), "r");
  double rate = 0;
  if (pipe != nullptr) {
    if (std::fscanf(pipe, "%lf", &rate) != 1) rate = 0;
    ::pclose(pipe);
  }
  return rate;
}

int run(int files, int rounds) {
  std::string directory =
      (std::filesystem::temp_directory_path() / "surefit-pipeline-XXXXXX").string();
  if (::mkdtemp(directory.data()) == nullptr) return 4;
  make_files(directory, files);
  std::vector<std::string> paths;
  std::uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    paths.push_back(entry.path().string());
    bytes += entry.file_size();
  }
  std::sort(paths.begin(), paths.end());
  fmt::print("{} JPEGs of {}x{}, {:.1f} KB each on average, to {}x{}x3 float32\n", files, kWidth,
             kHeight, static_cast<double>(bytes) / files / 1000, kSize, kSize);
  bare_rate(paths, false);  // warms the page cache
  // Best of the rounds for each side: what disturbs a run only ever slows it.
  constexpr double kTrainMs = 4;
  Rate decode, bare, one, two, training, both, arrays;
  double torch = 0;
  for (int round = 0; round < rounds; ++round) {
    decode.keep_best(bare_rate(paths, false));
    bare.keep_best(bare_rate(paths, true));
    one.keep_best(pipeline_rate(directory, 1));
    two.keep_best(pipeline_rate(directory, 2));
    training.keep_best(train_rate(static_cast<std::uint64_t>(files), kTrainMs));
    both.keep_best(pipeline_rate(directory, 2, kTrainMs));
    arrays.keep_best(array_rate());
    if (round < 2) torch = std::max(torch, torch_rate(directory));
  }
  const auto line = [&](const char* name, const Rate& rate, const std::string& note) {
    fmt::print("{:<34} {:8.0f} img/s  {:5.2f}   {:8.0f} img per cpu-s  {:5.2f}   {}\n", name,
               rate.wall, rate.wall / bare.wall, rate.cpu, rate.cpu / bare.cpu, note);
  };
  line("bare decode, 1 thread", decode, "");
  line("bare decode + resize, 1 thread", bare, "");
  line("pipeline, 1 thread", one, "(at least 0.95)");
  line("pipeline, 2 threads", two, "(at least 1.8 by the clock)");
  // Seconds a picture of both kinds of work add up; the pool must not waste any.
  const double limit = 1 / (1 / two.wall + 1 / training.wall);
  fmt::print(
      "training {:.0f}/s and input {:.0f}/s together: {:.0f} img/s, {:.2f} of the sum-of-work "
      "limit (at least 0.85)\n",
      training.wall, two.wall, both.wall, both.wall / limit);
  fmt::print(
      "28x28 arrays, shuffled, 2 threads: {:.0f} samples/s, {:.2f} us of processor time each\n",
      arrays.wall, 1e6 / arrays.cpu);
  if (torch > 0) {
    fmt::print("torch DataLoader, 2 workers: {:.0f} img/s; the pipeline is {:.1f} x (at least 3)\n",
               torch, two.wall / torch);
  } else {
    fmt::print("torch DataLoader: /usr/bin/python3 has no torch or PIL\n");
  }
  std::filesystem::remove_all(directory);
  return 0;
}

}  // namespace
}  // namespace surefit

int main(int argc, char** argv) {
  const int files = argc > 1 ? std::atoi(argv[1]) : 400, rounds = argc > 2 ? std::atoi(argv[2]) : 3;
  return surefit::run(std::max(files, 32), std::max(rounds, 1));
}
