// SPDX-License-Identifier: Apache-2.0
#include "data/inspect.hpp"

#include <cmath>

#include "surefit/image.hpp"

#include "data/files_support.hpp"
#include "data/images/memory.hpp"
#include "data/support.hpp"

namespace surefit::data {
namespace {

TEST(Inspect, CountsClassesShapesAndBadFiles) {
  TemporaryFolder folder;
  fill_folder(folder, 21);
  folder.write("dogs/bad.jpg", jpeg(30, 30).substr(0, 250));
  folder.write("dogs/odd.gif", "GIF89a");
  const std::string list = folder.write("all.csv", [&] {
    std::string text = "path,label\n";
    for (const char* name : {"cats", "dogs"}) {
      for (const auto& entry : std::filesystem::directory_iterator(folder.path() + "/" + name)) {
        text += entry.path().string() + "," + name + "\n";
      }
    }
    return text;
  }());
  std::string first;
  for (const int threads : {1, 4}) {
    ThreadPool pool(threads);
    const Inspection result = inspect(csv_paths(list), pool);
    EXPECT_EQ(result.samples, 23u);
    EXPECT_EQ(result.per_label.at(0), 11u);
    EXPECT_EQ(result.per_label.at(1), 10u) << "bad ones are not counted";
    ASSERT_EQ(result.bad.size(), 2u);
    EXPECT_NE(result.text().find("corrupt JPEG"), std::string::npos);
    EXPECT_NE(result.text().find("got GIF"), std::string::npos);
    EXPECT_EQ(result.mean.size(), 3u);
    if (threads == 1) first = result.text({"cats", "dogs"});
    EXPECT_EQ(result.text({"cats", "dogs"}), first) << "the same for any number of threads";
  }
  EXPECT_NE(first.find("cats (0)"), std::string::npos) << first;
}

TEST(Inspect, MeanAndDeviationAreThoseOfThePixels) {
  Tensor x(Shape{2, 1, 2, 2}, DType::kUInt8);
  const std::uint8_t values[] = {0, 10, 2, 10, 4, 10, 6, 30};
  std::copy(std::begin(values), std::end(values), x.values<std::uint8_t>().begin());
  ThreadPool pool(1);
  const Inspection result = inspect(Dataset::from_tensor_slices(x), pool);
  EXPECT_DOUBLE_EQ(result.mean[0], 3);
  EXPECT_DOUBLE_EQ(result.deviation[0], std::sqrt(5.0));
  EXPECT_DOUBLE_EQ(result.mean[1], 15);
}

TEST(Inspect, ContactSheetsShowWhatTheModelSees) {
  ThreadPool pool(2);
  const Dataset dataset =
      pictures(10).map(transform::rescale(1 / 255.0f)).map(transform::random_flip());
  EXPECT_TRUE(contact_sheet(dataset, pool).starts_with("\x89PNG"));
  EXPECT_THROW(contact_sheet(Dataset::range(3), pool), ConfigError);
  Tensor x(Shape{5, 4, 4, 3}, DType::kUInt8);
  std::fill(x.values<std::uint8_t>().begin(), x.values<std::uint8_t>().end(), std::uint8_t{200});
  const std::string sheet =
      contact_sheet(Dataset::from_tensor_slices(x), pool, {.columns = 3, .rows = 4, .cell = 10});
  class Collect final : public RowSink {
   public:
    void start(std::int64_t h, std::int64_t w, std::int64_t) override {
      width = w, height = h;
      pixels.resize(static_cast<std::size_t>(h * w * 3));
    }
    std::uint8_t* next_row() override { return pixels.data() + row * width * 3; }
    void row_done() override { ++row; }
    std::vector<std::uint8_t> pixels;
    std::int64_t width = 0, height = 0, row = 0;
  } picture;
  DecoderMemory memory;
  decode_picture(std::as_bytes(std::span(sheet)), {.channels = 3}, picture, memory);
  EXPECT_EQ(picture.width, 3 * 14 + 4);
  EXPECT_EQ(picture.height, 2 * 14 + 4);
  EXPECT_EQ(picture.pixels[(5 * 46 + 5) * 3], 200);
  EXPECT_EQ(picture.pixels[0], 32);
}

}  // namespace
}  // namespace surefit::data
