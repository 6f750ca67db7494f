// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "surefit/image.hpp"

#include "data/node.hpp"

namespace surefit::data {

// A step on one sample. Stateless and thread-safe for different workers.
class TransformOp {
 public:
  virtual ~TransformOp() = default;
  virtual std::string name() const = 0;      // "resize"
  virtual std::string describe() const = 0;  // "resize(224, 224)"
  virtual std::vector<ComponentSpec> spec(std::vector<ComponentSpec> input) const = 0;
  virtual bool random() const { return false; }
  virtual void apply(Sample& sample, Random& random, Worker& worker) const = 0;
};

template <typename Op, typename... Args>
Transform make_op(Args&&... args) {
  return Transform(std::make_shared<const Op>(std::forward<Args>(args)...));
}

// The extents of a picture, or an error that says what was found instead.
struct PictureDims {
  std::int64_t height = 0, width = 0, channels = 0;
};
PictureDims picture_dims(const Field& field);
ComponentSpec& first_component(std::vector<ComponentSpec>& spec, const char* where);

}  // namespace surefit::data
