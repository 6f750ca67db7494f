// SPDX-License-Identifier: Apache-2.0
// Keras's model JSON as far as the network with its parameters; a model that cannot be built may be
// refused with ConfigError too.
#include "target.hpp"
#include "train/keras_json.hpp"

bool surefit::fuzz::accepts(std::span<const std::byte> bytes) {
  return survives([&] {
    try {
      const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      const KerasModel model = model_from_keras_json(text, "fuzz");
      const Network network(model.inputs, model.outputs);
    } catch (const ConfigError& error) {
      throw DataError(error.what(), "fuzz");
    }
  });
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  surefit::fuzz::accepts(std::as_bytes(std::span(data, size)));
  return 0;
}
