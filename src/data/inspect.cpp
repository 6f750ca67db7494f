// SPDX-License-Identifier: Apache-2.0
#include "data/inspect.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

#include "surefit/image.hpp"

#include "base/thread_pool.hpp"
#include "data/images/decode.hpp"
#include "data/images/resize.hpp"
#include "data/store.hpp"
#include "data/transforms/transform.hpp"

namespace surefit::data {
namespace {

constexpr std::size_t kMaxChannels = 4;

// One thread's findings; everything is a count or a whole-number sum, so that adding them up in any
// order is exact.
struct Findings {
  std::map<std::int64_t, std::uint64_t> per_label;
  std::map<std::string, std::uint64_t> per_shape;
  std::vector<BadSample> bad;
  std::array<std::uint64_t, kMaxChannels> sums{}, squares{}, counts{};
};

void add_pixels(const Field& picture, Findings& findings) {
  if (picture.dtype() != DType::kUInt8 || picture.dims().rank() != 3) return;
  const auto channels = static_cast<std::size_t>(picture.dims()[2]);
  if (channels == 0 || channels > kMaxChannels) return;
  const std::span<const std::uint8_t> values = picture.values<std::uint8_t>();
  for (std::size_t c = 0; c < channels; ++c) {
    std::uint64_t sum = 0, square = 0;
    for (std::size_t i = c; i < values.size(); i += channels) {
      sum += values[i];
      square += std::uint64_t{values[i]} * values[i];
    }
    findings.sums[c] += sum;
    findings.squares[c] += square;
    findings.counts[c] += values.size() / channels;
  }
}

void add_label(const Sample& sample, Findings& findings) {
  if (sample.size() < 2 || sample[1].dims().count() != 1 ||
      !can_store(sample[1].dtype(), DType::kInt32))
    return;
  std::int32_t label = 0;
  convert_values(sample[1].dtype(), sample[1].bytes().data(), DType::kInt32,
                 reinterpret_cast<std::byte*>(&label), 1);
  ++findings.per_label[label];
}

void look_at(const Node& node, Position at, bool paths, Worker& worker, Findings& findings) {
  Worker::Lease lease(worker);
  Sample& sample = *lease;
  try {
    node.read(at, sample, worker);
    if (paths) {
      static const Transform read = transform::read_file(), decode = transform::decode_image();
      Random unused(0, 0, 0, 0);
      read.op()->apply(sample, unused, worker);
      decode.op()->apply(sample, unused, worker);
    }
    add_label(sample, findings);
    add_pixels(sample[0], findings);
    ++findings.per_shape[fmt::format("{} {}", name_of(sample[0].dtype()),
                                     sample[0].dims().to_string())];
  } catch (const Error& error) {
    if (error.exit_code() != ExitCode::kData && error.exit_code() != ExitCode::kSystem) throw;
    findings.bad.push_back({node.locate(at, worker.seed()).index, sample.path(), error.what()});
  }
}

std::string class_name(std::int64_t label, const std::vector<std::string>& names) {
  const bool known = label >= 0 && label < static_cast<std::int64_t>(names.size());
  return known ? fmt::format("{} ({})", names[static_cast<std::size_t>(label)], label)
               : fmt::format("{}", label);
}

// A picture of any type as bytes: floats are stretched from their least to their greatest value
// unless they already are in 0 ... 255.
std::vector<std::uint8_t> drawable(const Field& field) {
  const std::size_t count = field.dims().count();
  if (field.dtype() == DType::kUInt8) {
    const std::span<const std::uint8_t> values = field.values<std::uint8_t>();
    return {values.begin(), values.end()};
  }
  std::vector<float> values(count);
  convert_values(field.dtype(), field.bytes().data(), DType::kFloat32,
                 reinterpret_cast<std::byte*>(values.data()), count);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const bool bytes = *low >= 0 && *high <= 255 && *high > 2;
  const float base = bytes ? 0 : *low, scale = bytes ? 1 : 255 / std::max(*high - *low, 1e-6f);
  std::vector<std::uint8_t> pixels(count);
  for (std::size_t i = 0; i < count; ++i)
    pixels[i] = static_cast<std::uint8_t>((values[i] - base) * scale + 0.5f);
  return pixels;
}

void draw(const Sample& sample, std::span<std::uint8_t> sheet, std::int64_t sheet_width,
          std::int64_t top, std::int64_t left, std::int64_t cell) {
  const Dims& dims = sample[0].dims();
  if (dims.rank() < 2 || dims.count() == 0) {
    throw ConfigError(
        fmt::format("[contact sheet] elements are not pictures; got {}", dims.to_string()));
  }
  const std::int64_t channels = dims.rank() == 2 ? 1 : dims[2];
  const std::vector<std::uint8_t> pixels = drawable(sample[0]);
  std::vector<std::uint8_t> scaled(static_cast<std::size_t>(cell * cell * channels));
  StreamResizer resizer;
  // Small pictures keep their pixels visible, large ones are averaged.
  const bool enlarge = dims[0] <= cell && dims[1] <= cell;
  const ResizeOptions options{.method = enlarge ? Interpolation::kNearest : Interpolation::kArea};
  resizer.start({dims[0], dims[1], cell, cell, channels, options}, std::span<std::uint8_t>(scaled),
                nullptr);
  const std::int64_t row_values = dims[1] * channels;
  for (std::int64_t y = 0; y < dims[0]; ++y) {
    std::memcpy(resizer.next_row(), pixels.data() + y * row_values,
                static_cast<std::size_t>(row_values));
    resizer.row_done();
  }
  for (std::int64_t y = 0; y < cell; ++y) {
    for (std::int64_t x = 0; x < cell; ++x) {
      const std::uint8_t* from = scaled.data() + (y * cell + x) * channels;
      std::uint8_t* to = sheet.data() + ((top + y) * sheet_width + left + x) * 3;
      for (std::int64_t c = 0; c < 3; ++c) to[c] = from[channels >= 3 ? c : 0];
    }
  }
}

}  // namespace

Inspection inspect(const Dataset& dataset, ThreadPool& pool, InspectOptions options) {
  const Node& node = *dataset.node();
  if (!node.random_access() || node.size() == kInfiniteCardinality) {
    throw ConfigError(
        fmt::format("[inspect] {} cannot be indexed; expected arrays, folders or lists of files",
                    dataset.describe()));
  }
  const std::vector<ComponentSpec> spec = node.spec();
  const bool paths =
      spec.at(0).dtype == DType::kUInt8 && spec[0].dims.rank() == 1 && !spec[0].dims.fixed();
  Meter meter;
  std::vector<Worker> workers;
  Env& env = options.env == nullptr ? Env::posix() : *options.env;
  for (int i = 0; i < pool.threads(); ++i) workers.emplace_back(0, meter, env);
  std::vector<Findings> findings(static_cast<std::size_t>(pool.threads()));
  Inspection result;
  result.samples = std::min(options.max_samples, node.size().value());
  pool.parallel_for(result.samples, [&](std::size_t i, int thread) {
    const auto mine = static_cast<std::size_t>(thread);
    look_at(node, {i, 0}, paths, workers[mine], findings[mine]);
  });

  Findings all;
  for (Findings& part : findings) {
    for (const auto& [label, count] : part.per_label) result.per_label[label] += count;
    for (const auto& [shape, count] : part.per_shape) result.per_shape[shape] += count;
    for (BadSample& bad : part.bad) result.bad.push_back(std::move(bad));
    for (std::size_t c = 0; c < kMaxChannels; ++c) {
      all.sums[c] += part.sums[c];
      all.squares[c] += part.squares[c];
      all.counts[c] += part.counts[c];
    }
  }
  std::sort(result.bad.begin(), result.bad.end(),
            [](const BadSample& a, const BadSample& b) { return a.id < b.id; });
  for (std::size_t c = 0; c < kMaxChannels && all.counts[c] > 0; ++c) {
    const auto count = static_cast<double>(all.counts[c]);
    const double mean = static_cast<double>(all.sums[c]) / count;
    result.mean.push_back(mean);
    result.deviation.push_back(
        std::sqrt(std::max(0.0, static_cast<double>(all.squares[c]) / count - mean * mean)));
  }
  return result;
}

std::string Inspection::text(const std::vector<std::string>& class_names) const {
  std::string text = fmt::format("samples:  {} looked at, {} bad\n", samples, bad.size());
  for (const auto& [label, count] : per_label) {
    text +=
        fmt::format("class:    {:<24} {:>9}  {:5.1f} %\n", class_name(label, class_names), count,
                    100.0 * static_cast<double>(count) /
                        static_cast<double>(std::max<std::uint64_t>(samples, 1)));
  }
  std::vector<std::pair<std::uint64_t, std::string>> shapes;
  for (const auto& [shape, count] : per_shape) shapes.emplace_back(count, shape);
  std::sort(shapes.rbegin(), shapes.rend());
  constexpr std::size_t kShown = 10;
  for (std::size_t i = 0; i < std::min(shapes.size(), kShown); ++i) {
    text += fmt::format("shape:    {:<24} {:>9}\n", shapes[i].second, shapes[i].first);
  }
  if (shapes.size() > kShown)
    text += fmt::format("shape:    and {} others\n", shapes.size() - kShown);
  for (std::size_t c = 0; c < mean.size(); ++c) {
    text += fmt::format("channel:  {}  mean {:.2f}  deviation {:.2f}\n", c, mean[c], deviation[c]);
  }
  for (const BadSample& sample : bad) text += fmt::format("bad:      {}\n", sample.cause);
  return text;
}

std::string contact_sheet(const Dataset& dataset, ThreadPool& pool, SheetOptions options) {
  if (options.columns < 1 || options.rows < 1 || options.cell < 8 || options.cell > 1024 ||
      options.columns * options.rows > 4096) {
    throw ConfigError(fmt::format(
        "[contact sheet] {} x {} cells of {} pixels; expected at most 4096 cells of 8 to 1024",
        options.columns, options.rows, options.cell));
  }
  constexpr std::int64_t kGap = 4;
  const Node& node = *dataset.node();
  if (!node.random_access())
    throw ConfigError("[contact sheet] streams cannot be drawn; expected arrays or files");
  const std::uint64_t count =
      std::min(static_cast<std::uint64_t>(options.columns * options.rows), node.size().value());
  const std::int64_t rows = std::max<std::int64_t>(
      1, (static_cast<std::int64_t>(count) + options.columns - 1) / options.columns);
  const std::int64_t width = options.columns * (options.cell + kGap) + kGap,
                     height = rows * (options.cell + kGap) + kGap;
  std::vector<std::uint8_t> sheet(static_cast<std::size_t>(width * height * 3), 32);
  Meter meter;
  std::vector<Worker> workers;
  for (int i = 0; i < pool.threads(); ++i) workers.emplace_back(options.seed, meter, Env::posix());
  pool.parallel_for(count, [&](std::size_t i, int thread) {
    Worker& worker = workers[static_cast<std::size_t>(thread)];
    Worker::Lease sample(worker);
    node.read({i, options.epoch}, *sample, worker);
    const auto index = static_cast<std::int64_t>(i);
    draw(*sample, sheet, width, kGap + index / options.columns * (options.cell + kGap),
         kGap + index % options.columns * (options.cell + kGap), options.cell);
  });
  return encode_png(sheet, height, width, 3);
}

}  // namespace surefit::data
