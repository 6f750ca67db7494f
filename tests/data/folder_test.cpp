// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "surefit/image.hpp"

#include "base/clock.hpp"
#include "data/files_support.hpp"
#include "data/support.hpp"

namespace surefit::data {
namespace {

TEST(Folder, LabelsFollowTheSortedClasses) {
  TemporaryFolder folder;
  fill_folder(folder, 12);
  folder.write("cats/notes.txt", "not a picture");
  folder.write(".hidden/x.jpg", "not a class");
  EXPECT_EQ(class_names_of(folder.path()), (std::vector<std::string>{"cats", "dogs"}));
  const Dataset dataset =
      image_dataset_from_directory(folder.path(), {.height = 16, .width = 12, .shuffle = false});
  EXPECT_EQ(to_string(dataset.element_spec()), "[uint8 (None, 16, 12, 3), int32 (None,)]");
  EXPECT_EQ(dataset.cardinality(), 1u);
  const Element batch = *dataset.begin();
  EXPECT_EQ(batch[0].shape(), (Shape{12, 16, 12, 3}));
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(batch[1].values<std::int32_t>()[i], i < 6 ? 0 : 1);
}

TEST(Folder, LabelModesAndSplits) {
  TemporaryFolder folder;
  fill_folder(folder, 20);
  const auto load = [&](ImageDirectoryOptions options) {
    options.height = options.width = 8;
    options.batch_size = 20;
    return image_dataset_from_directory(folder.path(), options);
  };
  EXPECT_EQ((*load({.label_mode = LabelMode::kCategorical}).begin())[1].shape(), (Shape{20, 2}));
  EXPECT_EQ((*load({.label_mode = LabelMode::kBinary}).begin())[1].shape(), (Shape{20, 1}));
  EXPECT_EQ((*load({.label_mode = LabelMode::kNone}).begin()).size(), 1u);
  EXPECT_EQ((*load({.channels = 1}).begin())[0].shape(), (Shape{20, 8, 8, 1}));

  std::vector<std::uint64_t> ids;
  for (const Subset subset : {Subset::kTraining, Subset::kValidation}) {
    const Element batch = *load({.seed = 3, .validation_split = 0.25, .subset = subset}).begin();
    EXPECT_EQ(batch.ids().size(), subset == Subset::kTraining ? 15u : 5u);
    ids.insert(ids.end(), batch.ids().begin(), batch.ids().end());
  }
  std::sort(ids.begin(), ids.end());
  for (std::uint64_t i = 0; i < 20; ++i) EXPECT_EQ(ids[i], i) << "halves overlap";
  error_of<ConfigError>([&] { load({.validation_split = 0.25}); });
  error_of<DataError>([&] {
    TemporaryFolder empty;
    image_dataset_from_directory(empty.path());
  });
  error_of<SystemError>([&] { image_dataset_from_directory(folder.path() + "/nowhere"); });
}

TEST(Folder, LoadingEqualsReadDecodeResize) {
  TemporaryFolder folder;
  fill_folder(folder, 9);
  const ResizeOptions options{.antialias = true};
  const Dataset fused = image_dataset_from_directory(folder.path(), {.height = 10,
                                                                     .width = 14,
                                                                     .shuffle = false,
                                                                     .interpolation = options,
                                                                     .scaled_decode = false});
  const Dataset spelled = list_files(folder.path() + "/*/*", {.shuffle = false})
                              .map(transform::read_file(), AUTOTUNE)
                              .map(transform::decode_image({.channels = 3}))
                              .map(transform::resize(10, 14, options))
                              .batch(32);
  const Tensor a = (*fused.begin())[0], b = (*spelled.begin())[0];
  ASSERT_EQ(a.shape(), b.shape());
  EXPECT_EQ(0, std::memcmp(a.raw().data(), b.raw().data(), a.bytes()));
}

TEST(Folder, CropKeepsProportions) {
  TemporaryFolder folder;
  std::vector<std::uint8_t> pixels(10 * 30 * 3, 0);  // black with a white middle square
  for (int y = 0; y < 10; ++y) {
    for (int x = 10; x < 20; ++x)
      std::fill_n(pixels.begin() + (y * 30 + x) * 3, 3, std::uint8_t{255});
  }
  folder.write("a/wide.png", encode_png(pixels, 10, 30, 3));
  const Dataset dataset = image_dataset_from_directory(
      folder.path(), {.height = 5, .width = 5, .crop_to_aspect_ratio = true});
  const Element batch = *dataset.begin();
  for (const std::uint8_t value : batch[0].values<std::uint8_t>()) EXPECT_EQ(value, 255);
}

TEST(Folder, BatchesAreTheSameForOneToEightThreadsAndAfterResume) {
  TemporaryFolder folder;
  fill_folder(folder, 30);
  Dataset dataset =
      image_dataset_from_directory(folder.path(), {.batch_size = {}, .height = 16, .width = 16});
  for (const Transform& step : transform::parse_augment(
           "flip,crop:2,rotation:0.1,translation:0.1,brightness:0.2,contrast:0.3")) {
    dataset = dataset.map(step);
  }
  dataset = dataset.map(transform::normalise({1, 2, 3}, {4, 5, 6})).batch(7).prefetch();
  const std::vector<Delivered> expected = run(dataset, 1);
  ASSERT_EQ(expected.size(), 10u);
  EXPECT_NE(run(dataset, 1, 2, 99), expected);
  for (int threads = 2; threads <= 8; ++threads)
    ASSERT_EQ(run(dataset, threads), expected) << threads;
  for (std::uint64_t step = 0; step < 10; ++step) {
    ThreadPool pool(2);
    BatchReader reader(dataset, {.seed = 5, .threads = 2});
    State state = reader.state();
    state.epoch = step / 5, state.position = step % 5;
    reader.restore(state);
    ASSERT_EQ(drain(reader, pool, 2),
              std::vector<Delivered>(expected.begin() + static_cast<std::ptrdiff_t>(step),
                                     expected.end()));
  }
}

TEST(Folder, AChangedFolderIsNamed) {
  TemporaryFolder folder;
  fill_folder(folder, 6);
  const auto load = [&] {
    return image_dataset_from_directory(folder.path(), {.height = 8, .width = 8});
  };
  const State then = BatchReader(load(), {}).state();
  EXPECT_NO_THROW(BatchReader(load(), {}).restore(then));
  folder.write("cats/9999.png", png(5, 5));
  const std::string text = error_of<DataError>([&] { BatchReader(load(), {}).restore(then); });
  EXPECT_NE(text.find("folder("), std::string::npos) << text;
  EXPECT_NE(text.find("6 files"), std::string::npos) << text;
}

TEST(Folder, BadPicturesFailWithPathAndCause) {
  TemporaryFolder folder;
  fill_folder(folder, 10);
  const std::string bad = folder.write("dogs/2000.jpg", jpeg(30, 30).substr(0, 300));
  const Dataset dataset =
      image_dataset_from_directory(folder.path(), {.batch_size = 4, .height = 8, .width = 8});
  const std::string text = error_of<DataError>([&] { run(dataset, 2); });
  EXPECT_NE(text.find(bad), std::string::npos) << text;
  EXPECT_NE(text.find("corrupt JPEG"), std::string::npos) << text;
}

TEST(Folder, SkippingListsEveryBadPictureAndIsDeterministic) {
  TemporaryFolder folder;
  fill_folder(folder, 300);
  const std::string truncated = folder.write("dogs/2000.jpg", jpeg(30, 30).substr(0, 300));
  const std::string text_file = folder.write("cats/2001.png", "oops");
  const std::string gone = folder.write("cats/2002.png", png(5, 5));
  const Dataset dataset =
      image_dataset_from_directory(folder.path(), {.batch_size = 16, .height = 8, .width = 8});
  std::filesystem::remove(gone);
  const auto skip = [&](int threads) {
    ThreadPool pool(threads);
    BatchReader reader(
        dataset, {.seed = 1, .threads = threads, .input = {.on_bad_sample = OnBadSample::kSkip}});
    std::vector<Delivered> batches = drain(reader, pool, 2);
    std::vector<std::string> paths;
    for (const BadSample& bad : reader.quarantined()) {
      EXPECT_FALSE(bad.cause.empty());
      paths.push_back(bad.path);
    }
    std::sort(paths.begin(), paths.end());
    EXPECT_EQ(paths, (std::vector<std::string>{text_file, gone, truncated}));
    return batches;
  };
  const std::vector<Delivered> expected = skip(1);
  EXPECT_EQ(ids_of(expected).size(), 606u);
  for (const int threads : {2, 5}) EXPECT_EQ(skip(threads), expected);
}

TEST(Folder, TooManyBadPicturesStop) {
  TemporaryFolder folder;
  fill_folder(folder, 20);
  for (int i = 0; i < 3; ++i) folder.write(fmt::format("dogs/30{}.jpg", i), "bad");
  const Dataset dataset =
      image_dataset_from_directory(folder.path(), {.batch_size = 4, .height = 8, .width = 8});
  const std::string text = error_of<DataError>([&] {
    ThreadPool pool(2);
    BatchReader reader(
        dataset,
        {.threads = 2, .input = {.on_bad_sample = OnBadSample::kSkip, .max_bad_share = 0.1}});
    drain(reader, pool, 1);
  });
  EXPECT_NE(text.find("expected at most 10 % of 23; got 3"), std::string::npos) << text;
}

TEST(Folder, ADeletedFolderIsAClearError) {
  TemporaryFolder folder;
  fill_folder(folder, 10);
  const Dataset dataset =
      image_dataset_from_directory(folder.path(), {.batch_size = 4, .height = 8, .width = 8});
  ThreadPool pool(2);
  BatchReader reader(dataset, {.threads = 2});
  Room room(reader);
  room.next(reader, pool);
  std::filesystem::remove_all(folder.path());
  const std::string text = error_of<DataError>([&] { room.next(reader, pool); });
  EXPECT_NE(text.find("cannot open: No such file"), std::string::npos) << text;
  EXPECT_NE(text.find(folder.path()), std::string::npos) << text;
  EXPECT_EQ(reader.position(), 1u) << "a failed batch does not count";
}

TEST(Csv, PathsAndLabels) {
  TemporaryFolder folder;
  fill_folder(folder, 4);
  const auto labels = [&](const std::string& text, CsvOptions options = {}) {
    const std::string file = folder.write("list.csv", text);
    std::vector<std::int32_t> all;
    for (const Element& element : csv_paths(file, options))
      all.push_back(element[1].values<std::int32_t>()[0]);
    return all;
  };
  using Labels = std::vector<std::int32_t>;
  EXPECT_EQ(labels("path,label\ncats/1000.png,7\ndogs/1001.jpg,3\n"), (Labels{7, 3}));
  EXPECT_EQ(labels("\xEF\xBB\xBFpath,label\r\ncats/1000.png,zebra\r\n\r\n\"dogs/1001.jpg\",\"an "
                   "\"\"ape\"\"\"\r\n"),
            (Labels{1, 0}));
  EXPECT_EQ(labels("x;7\ny;8", {.header = false, .separator = ';'}), (Labels{7, 8}));
  EXPECT_EQ(labels("id,label,file\n1,2,x\n", {.path_column = "file", .label_column = "label"}),
            (Labels{2}));
  const auto failure = [&](const std::string& text, CsvOptions options = {}) {
    return error_of<DataError>([&] { labels(text, options); });
  };
  EXPECT_NE(failure("path,label\nx\n").find("list.csv:2] too few columns"), std::string::npos);
  EXPECT_NE(failure("path,label\n\"x,1\n").find("never closed"), std::string::npos);
  EXPECT_NE(failure("path,label\n\"x\"y,1\n").find("after a closing quote"), std::string::npos);
  EXPECT_NE(failure("path,label\n").find("no rows"), std::string::npos);
  EXPECT_NE(failure("").find("empty"), std::string::npos);
  EXPECT_NE(failure("a,b\nx,1\n", {.path_column = "c"}).find("no column named c; got a, b"),
            std::string::npos);

  const std::string file =
      folder.write("list.csv", "path,label\ncats/1000.png,7\ndogs/1001.jpg,3\n");
  const Dataset dataset =
      csv_paths(file).map(transform::load_picture({.height = 8, .width = 8})).batch(2);
  EXPECT_EQ((*dataset.begin())[0].shape(), (Shape{2, 8, 8, 3}));
}

}  // namespace
}  // namespace surefit::data
