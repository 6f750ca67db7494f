// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

#include "base/units.hpp"
#include "guard/obituary.hpp"

namespace surefit::guard {
namespace {

// Braille cells are 2 x 4 dots: bit numbers by row and column.
constexpr std::array<std::array<unsigned, 2>, 4> kDots{
    {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};

std::string utf8(unsigned code) {
  return {static_cast<char>(0xE0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

}  // namespace

std::vector<std::string> plot_curve(const std::vector<Point>& points, std::uint64_t limit,
                                    int columns, int rows) {
  std::vector<std::string> lines;
  if (points.size() < 4) return lines;
  std::uint64_t top = 1;
  for (const Point& point : points) top = std::max(top, point.bytes);
  const bool show_limit = limit != kNoLimit && limit < 4 * top;
  if (show_limit) top = std::max(top, limit);
  const int width = columns * 2, height = rows * 4;
  const double begin = points.front().time, span = std::max(1e-9, points.back().time - begin);
  std::vector<unsigned> cells(static_cast<std::size_t>(columns * rows), 0);
  const auto set = [&](int x, int y) {  // y counts from the bottom
    const int row = rows - 1 - y / 4;
    cells[static_cast<std::size_t>(row * columns + x / 2)] |=
        kDots[static_cast<std::size_t>(3 - y % 4)][static_cast<std::size_t>(x % 2)];
  };
  const auto height_of = [&](double bytes) {
    return std::clamp(static_cast<int>(bytes / static_cast<double>(top) * (height - 1) + 0.5), 0,
                      height - 1);
  };
  std::size_t at = 0;
  for (int x = 0; x < width; ++x) {
    const double time = begin + span * x / (width - 1);
    while (at + 1 < points.size() && points[at + 1].time <= time) ++at;
    const std::size_t next = std::min(at + 1, points.size() - 1);
    const double part =
        points[next].time > points[at].time
            ? std::clamp((time - points[at].time) / (points[next].time - points[at].time), 0.0, 1.0)
            : 0;
    const double value =
        static_cast<double>(points[at].bytes) +
        part * (static_cast<double>(points[next].bytes) - static_cast<double>(points[at].bytes));
    const int y = height_of(value);
    for (int fill = 0; fill <= y; ++fill) set(x, fill);
    if (show_limit && x % 4 < 2) set(x, height_of(static_cast<double>(limit)));
  }
  for (int row = 0; row < rows; ++row) {
    const std::string label = row == 0 ? mebibytes(static_cast<double>(top)) + " MiB"
                                       : std::string(row == rows - 1 ? 1 : 0, '0');
    std::string line = fmt::format("{:>11} ", label);
    for (int column = 0; column < columns; ++column)
      line += utf8(0x2800 + cells[static_cast<std::size_t>(row * columns + column)]);
    if (show_limit && row == rows - 1 - height_of(static_cast<double>(limit)) / 4) line += " limit";
    lines.push_back(line);
  }
  lines.push_back(fmt::format("{:>11} 0{:>{}}", "", format_duration(span), columns - 1));
  return lines;
}

}  // namespace surefit::guard
