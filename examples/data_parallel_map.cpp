// SPDX-License-Identifier: Apache-2.0
// Processing a data set with all cores, without processes and without races. People write:
//   with multiprocessing.Pool(processes=multiprocessing.cpu_count()) as pool:
//       results = pool.map(process_batch, dataset)
// and check every index by hand, because one out of bounds corrupts memory. Here a map is called
// from all threads of the pool, each sample has one owner, and an index out of range is an error
// that names the sample.
#include <iostream>
#include <thread>

#include "surefit/data.hpp"

using namespace surefit;

namespace {

void process_sample(Sample& sample) {
  for (float& value : sample[0].mutable_values<float>()) value *= 2;
}

}  // namespace

int main() {
  Tensor data(Shape{1000, 16});
  for (std::size_t i = 0; i < data.count(); ++i) data.values<float>()[i] = static_cast<float>(i);
  const Dataset dataset = Dataset::from_tensor_slices(data).map(process_sample, AUTOTUNE).batch(64);

  const int threads = static_cast<int>(std::thread::hardware_concurrency());
  double total = 0;
  for (DatasetIterator batch(dataset, {.threads = threads}); batch != dataset.end(); ++batch) {
    for (const float value : (*batch)[0].values<float>()) total += static_cast<double>(value);
  }
  std::cout << "sum " << total << '\n';

  try {
    (void)data.at<float>({1000, 0});  // one row too far
  } catch (const ConfigError& error) {
    std::cout << error.what() << '\n';
  }
  return total == 2.0 * (16000.0 * 15999.0 / 2) ? 0 : 1;
}
