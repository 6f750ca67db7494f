// SPDX-License-Identifier: Apache-2.0
#include "data/open.hpp"

#include "data/files_support.hpp"
#include "data/support.hpp"
#include "interop/npy.hpp"

namespace surefit::data {
namespace {

Tensor ramp(Shape shape, DType dtype) {
  Tensor tensor(std::move(shape), dtype);
  for (std::size_t i = 0; i < tensor.bytes(); ++i)
    tensor.raw()[i] = static_cast<std::byte>(i * 7 % 251);
  return tensor;
}

TEST(Open, NumpyFilesAreReadRowByRow) {
  TemporaryFolder folder;
  const Tensor x = ramp({30, 5, 4, 3}, DType::kUInt8), y = ramp({30}, DType::kUInt8);
  write_npy(Env::posix(), folder.path() + "/x.npy", x);
  write_npy(Env::posix(), folder.path() + "/y.npy", y);
  write_npz(Env::posix(), folder.path() + "/all.npz", {{"x_train", x}, {"y_train", y}});
  const std::vector<Delivered> expected =
      run(Dataset::from_tensor_slices(x, y).shuffle(30).batch(7), 1);
  const std::string npy = "npy:" + folder.path() + "/x.npy," + folder.path() + "/y.npy";
  for (const std::string& spec : {npy, "npz:" + folder.path() + "/all.npz"}) {
    const Dataset dataset = open_data(spec).dataset;
    EXPECT_EQ(dataset.describe(), "file_rows(30)");
    for (const int threads : {1, 3})
      EXPECT_EQ(run(dataset.shuffle(30).batch(7), threads), expected) << spec;
  }
  // Changed contents are noticed on resume, a cut file while reading.
  const State then = BatchReader(open_data(npy).dataset.batch(7), {}).state();
  Tensor other = x;
  other.raw()[100] = std::byte{1};
  const Dataset open_before = open_data(npy).dataset;
  write_npy(Env::posix(), folder.path() + "/x.npy", other);
  error_of<DataError>([&] { BatchReader(open_data(npy).dataset.batch(7), {}).restore(then); });
  std::filesystem::resize_file(folder.path() + "/y.npy", 140);
  const std::string text = error_of<DataError>([&] { run(open_before.batch(7)); });
  EXPECT_NE(text.find("y.npy"), std::string::npos) << text;
}

TEST(Open, PicturesWithoutChannelsGetOne) {
  TemporaryFolder folder;
  write_npy(Env::posix(), folder.path() + "/x.npy", ramp({6, 5, 4}, DType::kUInt8));
  EXPECT_EQ(to_string(open_data("npy:" + folder.path() + "/x.npy").dataset.element_spec()),
            "[uint8 (5, 4, 1)]");
}

TEST(Open, FoldersWithoutASizeArePaths) {
  TemporaryFolder folder;
  fill_folder(folder, 6);
  EXPECT_EQ(to_string(open_data("dir:" + folder.path()).dataset.element_spec()),
            "[uint8 (None,), int32 ()]");
  const OpenedData opened = open_data("dir:" + folder.path(), {.height = 8, .width = 9});
  EXPECT_EQ(opened.class_names, (std::vector<std::string>{"cats", "dogs"}));
  EXPECT_EQ(to_string(opened.dataset.element_spec()), "[uint8 (8, 9, 3), int32 ()]");
}

TEST(Open, UnknownSchemesListTheKnown) {
  for (const char* spec : {"", "dir", "dir:", "tfrecord:x"}) {
    const std::string text = error_of<ConfigError>([&] { open_data(spec); });
    EXPECT_NE(text.find("cifar10:FOLDER"), std::string::npos) << text;
  }
  for (const char* spec : {"npz:/nowhere.npz", "dir:/nowhere", "csv:/nowhere.csv", "idx:/nowhere",
                           "cifar10:/nowhere", "npy:/nowhere.npy"}) {
    const std::string text = error_of<DataError>([&] { open_data(spec); });
    EXPECT_NE(text.find("nowhere"), std::string::npos) << text;
  }
}

TEST(Open, FashionMnistIfInstalled) {
  const std::string folder = "/usr/share/datasets/fashion-mnist";
  if (!Env::posix().exists(folder)) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  const Dataset dataset = open_data("mnist:" + folder).dataset;
  EXPECT_EQ(dataset.cardinality(), 60000u);
  EXPECT_EQ(to_string(dataset.element_spec()), "[uint8 (28, 28, 1), uint8 ()]");
}

}  // namespace
}  // namespace surefit::data
