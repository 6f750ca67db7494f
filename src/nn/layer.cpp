// SPDX-License-Identifier: Apache-2.0
#include "nn/layer.hpp"

#include <algorithm>
#include <fmt/ranges.h>

#include "base/check.hpp"

namespace surefit {

std::vector<ValueId> LayerBuilder::emit(std::shared_ptr<const Op> op, std::vector<ValueId> inputs,
                                        Phase phase) {
  return graph().add(std::move(op), std::move(inputs), name(), phase);
}

ValueId LayerBuilder::emit1(std::shared_ptr<const Op> op, std::vector<ValueId> inputs) {
  return graph().add1(std::move(op), std::move(inputs), name(), Phase::kForward);
}

namespace {

// Far beyond any memory, far below any overflow of sizes computed from it.
void require_sane(const Shape& shape) {
  double count = 1;
  for (const std::int64_t extent : shape.dims()) {
    if (extent < 1 || extent > (shape.rank() == 1 ? 1 << 28 : 1 << 24))
      throw ConfigError(fmt::format("the output is out of bounds: {}", shape.to_string()));
    count *= static_cast<double>(extent);
  }
  if (count > 0x1p40)
    throw ConfigError(fmt::format("the output is too large: {}", shape.to_string()));
}

}  // namespace

Symbol Layer::operator()(const Symbol& input) const {
  return (*this)(std::vector<Symbol>{input});
}
Symbol Layer::operator()(std::initializer_list<Symbol> inputs) const {
  return (*this)(std::vector<Symbol>(inputs));
}

Symbol Layer::operator()(const std::vector<Symbol>& inputs) const {
  std::vector<Shape> shapes;
  for (const Symbol& input : inputs) shapes.push_back(input.shape());
  try {
    Shape shape = impl().infer(shapes);
    require_sane(shape);
    return Symbol(std::make_shared<Symbol::Node>(Symbol::Node{*this, inputs, std::move(shape)}));
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("[{}] {}", name().empty() ? class_name() : name(), error.what()));
  }
}

Symbol Input(Shape shape, const std::string& name) {
  const auto dims = shape.dims();
  const Layer layer(InputLayer{.shape = {dims.begin(), dims.end()}, .name = name});
  return layer(std::vector<Symbol>{});
}

void require_inputs(std::span<const Shape> inputs, std::size_t count, std::size_t rank,
                    std::string_view what) {
  if (inputs.size() != count) {
    throw ConfigError(
        fmt::format("wrong number of inputs; expected {}; got {}", count, inputs.size()));
  }
  for (const Shape& shape : inputs) {
    if (shape.rank() != rank) {
      throw ConfigError(
          fmt::format("wrong input; expected {}; got shape {}", what, shape.to_string()));
    }
  }
}

WindowAxis window_axis(std::int64_t in, int kernel, int stride, int dilation,
                       const std::string& padding) {
  constexpr int kMost = 1 << 12;  // sizes computed from windows stay far from overflow
  if (kernel < 1 || stride < 1 || dilation < 1 || std::max({kernel, stride, dilation}) > kMost) {
    throw ConfigError(
        fmt::format("window sizes; expected 1 to {}; got kernel {}, stride {}, dilation {}", kMost,
                    kernel, stride, dilation));
  }
  const std::int64_t reach = std::int64_t{kernel - 1} * dilation + 1;
  if (padding == "valid") {
    if (in < reach) {
      throw ConfigError(fmt::format(
          "the window does not fit into the picture; expected at least {} pixels; got {}", reach,
          in));
    }
    return {static_cast<int>((in - reach) / stride + 1), 0};
  }
  if (padding != "same") {
    throw ConfigError(
        fmt::format("unknown padding; expected 'valid' or 'same'; got '{}'", padding));
  }
  const std::int64_t out = (in + stride - 1) / stride;
  const std::int64_t total = std::max<std::int64_t>(0, (out - 1) * stride + reach - in);
  return {static_cast<int>(out), static_cast<int>(total / 2)};
}

}  // namespace surefit
