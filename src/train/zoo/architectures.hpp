// SPDX-License-Identifier: Apache-2.0
// The architectures behind zoo_model(). Where Keras has the same one, layers carry its names.
#pragma once

#include "surefit/model.hpp"

namespace surefit::zoo {

Model seed_cnn(const Shape& input, int classes);
Model lenet5(const Shape& input, int classes);
Model vgg16(const Shape& input, int classes);
Model resnet18(const Shape& input, int classes);
Model resnet50(const Shape& input, int classes);
Model mobilenet_v2(const Shape& input, int classes);
Model unet(const Shape& input, int classes);

}  // namespace surefit::zoo
