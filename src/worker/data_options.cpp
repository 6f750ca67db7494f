// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cstdio>
#include <fmt/format.h>
#include <memory>
#include <set>

#include "surefit/image.hpp"

#include "base/clock.hpp"
#include "base/env.hpp"
#include "base/units.hpp"
#include "data/open.hpp"
#include "interop/json.hpp"
#include "worker/options.hpp"

namespace surefit::worker {
namespace {

bool parse_number(std::string_view text, double& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

// "224x224" or, for pictures in files of other colours, "224x224x1".
data::OpenOptions parse_resize(const std::string& text) {
  data::OpenOptions options;
  if (text.empty()) return options;
  std::array<int, 3> extents{0, 0, 3};
  int used = 0;
  int got =
      std::sscanf(text.c_str(), "%5dx%5dx%1d%n", &extents[0], &extents[1], &extents[2], &used);
  if (got == 2) std::sscanf(text.c_str(), "%5dx%5d%n", &extents[0], &extents[1], &used);
  const bool channels = extents[2] == 1 || extents[2] == 3 || extents[2] == 4;
  if (got < 2 || static_cast<std::size_t>(used) != text.size() || extents[0] < 1 ||
      extents[1] < 1 || !channels) {
    throw ConfigError(
        fmt::format("[--resize] expected HxW or HxWx1 such as 224x224; got '{}'", text));
  }
  options.height = extents[0];
  options.width = extents[1];
  options.channels = extents[2];
  return options;
}

// Appends to `run`/quarantine.tsv and says so. A resumed run meets the same samples again; they
// stay listed once.
class BadSampleReport {
 public:
  BadSampleReport(const std::string& run, bool json)
      : file_(run.empty() ? "" : run + "/quarantine.tsv"), json_(json) {}
  void operator()(const BadSample& bad) {
    constexpr int kShown = 10;
    if (json_) {
      const Json line = {{"event", "warning"}, {"time", wall_seconds()}, {"kind", "bad_sample"},
                         {"sample", bad.id},   {"path", bad.path},       {"cause", bad.cause}};
      fmt::print("{}\n", dump_json(line));
    } else if (++shown_ <= kShown) {
      fmt::print(stderr, "warning: skipped {}\n", bad.cause);
    } else if (shown_ == kShown + 1) {
      fmt::print(stderr, "warning: more bad samples{}\n",
                 file_.empty() ? "" : "; all are listed in " + file_);
    }
    if (!file_.empty()) record(fmt::format("{}\t{}\t{}\n", bad.id, bad.path, bad.cause));
  }

 private:
  void record(const std::string& line) {
    if (!read_) {
      read_ = true;
      if (Env::posix().exists(file_)) {
        const std::string text = read_file(Env::posix(), file_);
        for (std::size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos;
             at = end + 1)
          listed_.insert(text.substr(at, end + 1 - at));
      }
    }
    if (!listed_.insert(line).second) return;
    std::FILE* out = std::fopen(file_.c_str(), "a");
    if (out == nullptr) return;  // the list is a courtesy; the run goes on
    std::fputs(line.c_str(), out);
    std::fclose(out);
  }
  std::string file_;
  bool json_, read_ = false;
  int shown_ = 0;
  std::set<std::string> listed_;
};

// Bytes are brightness; networks want them near one.
Dataset scaled(const Dataset& samples) {
  return samples.element_spec().at(0).dtype == DType::kUInt8
             ? samples.map(transform::rescale(1.0f / 255.0f))
             : samples;
}

}  // namespace

void DataOptions::add_to(CLI::App& app, DataUse use) {
  const std::string schemes(data::kDataSchemes);
  if (use == DataUse::kInspect) {
    app.add_option("data", data, schemes)->required();
  } else {
    app.add_option("--data", data, schemes)->required();
  }
  if (use == DataUse::kTrain)
    app.add_option("--validation", validation, "data to validate on after each epoch");
  app.add_option("--resize", resize, "HxW (HxWx1 for grey) that pictures in files are brought to");
  if (use == DataUse::kTrain || use == DataUse::kInspect) {
    app.add_option("--augment", augment,
                   "random changes in training: flip, crop:PIXELS, translation:SHARE, "
                   "rotation:SHARE, brightness:SHARE, "
                   "contrast:SHARE, comma separated");
    app.add_option("--cache", cache,
                   "where prepared pictures stay between epochs: auto (memory as far as it goes), "
                   "memory (all or refuse), "
                   "file:PATH, none")
        ->capture_default_str();
    app.add_option("--input-memory", input_memory,
                   "bytes for preparing, shuffling and caching samples together, such as 256M "
                   "(default: what it takes, the "
                   "cache up to half of what is free)");
  }
  app.add_option("--workers", workers,
                 "threads that prepare samples: auto or a number; never changes a bit")
      ->capture_default_str();
  if (use == DataUse::kTrain || use == DataUse::kEvaluate) {
    app.add_option("--bad-samples", bad_samples,
                   "corrupt or missing pictures: fail, skip (another sample takes its place), "
                   "skip:SHARE (stop above that "
                   "share; 0.01)")
        ->capture_default_str();
  }
  app.add_option("--batch-size", batch_size, "samples per step")->capture_default_str();
  app.add_option(
         "--threads", threads,
         "threads; any number gives the same bits (default: as many as cores and CPU quota allow)")
      ->check(CLI::Range(1, 1024));
}

data::OpenedData DataOptions::open(const std::string& spec, Split split) const {
  data::OpenOptions options = parse_resize(resize);
  options.split = split;
  return data::open_data(spec, options);
}

Dataset DataOptions::augmented(const Dataset& samples) const {
  Dataset result = samples;
  if (augment.empty()) return result;
  for (const Transform& step : transform::parse_augment(augment)) result = result.map(step);
  return result;
}

Dataset DataOptions::train_samples() const {
  return scaled(augmented(fixed_size(data, Split::kTrain)));
}
Dataset DataOptions::validation_samples() const {
  return scaled(fixed_size(validation, Split::kTest));
}
Dataset DataOptions::test_samples() const {
  return scaled(fixed_size(data, Split::kTest));
}

Dataset DataOptions::fixed_size(const std::string& spec, Split split) const {
  const Dataset samples = open(spec, split).dataset;
  if (!samples.element_spec().at(0).dims.fixed()) {
    throw ConfigError(fmt::format(
        "[{}] pictures in files differ in size; say which one to bring them to: --resize 224x224",
        spec));
  }
  return samples;
}

InputOptions DataOptions::input(const std::string& run, bool json) const {
  InputOptions options;
  if (cache == "auto" || cache == "memory" || cache == "none") {
    options.cache = cache == "auto"     ? CacheMode::kAuto
                    : cache == "memory" ? CacheMode::kMemory
                                        : CacheMode::kOff;
  } else if (cache.starts_with("file:") && cache.size() > 5) {
    options.cache = CacheMode::kFile;
    options.cache_file = cache.substr(5);
  } else if (cache == "file" && !run.empty()) {
    options.cache = CacheMode::kFile;
    options.cache_file = run + "/cache";
  } else {
    throw ConfigError(
        fmt::format("[--cache] expected auto, memory, none or file:PATH; got '{}'", cache));
  }
  double number = 0;
  if (workers != "auto") {
    if (!parse_number(workers, number) || number < 1 || number > 1024 ||
        number != static_cast<int>(number)) {
      throw ConfigError(fmt::format("[--workers] expected auto or 1 to 1024; got '{}'", workers));
    }
    options.workers = static_cast<int>(number);
  }
  if (!input_memory.empty()) options.budget_bytes = parse_bytes(input_memory, "--input-memory");
  if (bad_samples != "fail") {
    const bool share = bad_samples.starts_with("skip:") &&
                       parse_number(std::string_view(bad_samples).substr(5), number) &&
                       number >= 0 && number <= 1;
    if (bad_samples != "skip" && !share) {
      throw ConfigError(fmt::format(
          "[--bad-samples] expected fail, skip or skip:SHARE with 0 to 1; got '{}'", bad_samples));
    }
    options.on_bad_sample = OnBadSample::kSkip;
    if (share) options.max_bad_share = number;
    options.report_bad = [report = std::make_shared<BadSampleReport>(run, json)](
                             const BadSample& bad) { (*report)(bad); };
  }
  return options;
}

}  // namespace surefit::worker
