// SPDX-License-Identifier: Apache-2.0
// Reading and preparing pictures in parallel, as people write it for TensorFlow:
//   image = tf.io.read_file(path)
//   image = tf.image.decode_jpeg(image, channels=3)
//   image = tf.image.resize(image, [224, 224])
//   image = tf.cast(image, tf.float32) / 255.0
//   dataset = paths.map(load_image, AUTOTUNE).map(preprocess_image, AUTOTUNE).batch(32)
#include <iostream>
#include <string>
#include <vector>

#include "surefit/image.hpp"

using namespace surefit;

int main(int argc, char** argv) {
  const std::vector<std::string> image_list(argv + 1, argv + argc);
  if (image_list.empty()) {
    std::cerr << "usage: pictures FILE.jpg...\n";
    return 2;
  }

  const Dataset dataset = from_paths(image_list)
                              .map(transform::read_file(), AUTOTUNE)
                              .map(transform::decode_jpeg({.channels = 3}), AUTOTUNE)
                              .map(transform::resize(224, 224))
                              .map(transform::rescale(1 / 255.0f))
                              .batch(32);

  try {
    for (const Element& batch : dataset)
      std::cout << "a batch of " << batch[0].shape().to_string() << '\n';
  } catch (const Error& error) {  // names the file and what is wrong with it
    std::cerr << error.what() << '\n';
    return static_cast<int>(error.exit_code());
  }
  return 0;
}
