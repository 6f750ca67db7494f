// SPDX-License-Identifier: Apache-2.0
#include "engine/onednn.hpp"

#include <array>
#include <omp.h>
#include <vector>

#include <dnnl.hpp>

#include "base/check.hpp"

namespace surefit {
namespace {

using dnnl::memory;
using Desc = memory::desc;
using Tag = memory::format_tag;
using Direction = OneDnnConvolution::Direction;

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

std::string describe(const OneDnnConvolution::Options& options) {
  const kernels::ConvShape& s = options.shape;
  return fmt::format(
      "convolution direction {} ic {} oc {} {}x{} -> {}x{} kernel {}x{} stride {}x{} dilation "
      "{}x{}",
      static_cast<int>(options.direction), s.ic, s.oc, s.h, s.w, s.oh, s.ow, s.kh, s.kw, s.stride_h,
      s.stride_w, s.dilation_h, s.dilation_w);
}

// Everything about a convolution that oneDNN wants to know, in the terms both API generations
// share.
struct Problem {
  Desc src, weights, bias, dst;
  memory::dims extents, strides, dilates, pad_begin, pad_end;
  dnnl::primitive_attr attributes;

  explicit Problem(const OneDnnConvolution::Options& options) {
    const kernels::ConvShape& s = options.shape;
    const auto f32 = memory::data_type::f32;
    const memory::dim ic = kernels::round_up(s.ic, 8), oc = kernels::round_up(s.oc, 8);
    src = Desc({1, ic, s.h, s.w}, f32, Tag::nChw8c);
    dst = Desc({1, oc, s.oh, s.ow}, f32, Tag::nChw8c);
    extents = {oc, ic, s.kh, s.kw};
    weights = Desc(extents, f32,
                   options.direction == Direction::kBackwardData ? Tag::OIhw8o8i : Tag::OIhw8i8o);
    if (options.bias) bias = Desc({oc}, f32, Tag::a);
    strides = {s.stride_h, s.stride_w};
    dilates = {s.dilation_h - 1, s.dilation_w - 1};
    pad_begin = {s.pad_top, s.pad_left};
    const auto end = [](int in, int out, int kernel, int stride, int dilation, int begin) {
      return memory::dim{(out - 1) * stride + (kernel - 1) * dilation + 1 - in - begin};
    };
    pad_end = {end(s.h, s.oh, s.kh, s.stride_h, s.dilation_h, s.pad_top),
               end(s.w, s.ow, s.kw, s.stride_w, s.dilation_w, s.pad_left)};
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (options.relu) {
      dnnl::post_ops post;
#if DNNL_VERSION_MAJOR >= 3
      post.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
#else
      post.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
#endif
      attributes.set_post_ops(post);
    }
  }

  // The one place where the API generations differ.
  template <typename Primitive, typename... Hint>
  typename Primitive::primitive_desc make_forward(dnnl::prop_kind kind) const {
    const auto direct = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
    return {cpu(), kind,    direct,  src,       weights, bias,
            dst,   strides, dilates, pad_begin, pad_end, attributes};
#else
    return {{kind, direct, src, weights, bias, dst, strides, dilates, pad_begin, pad_end},
            attributes,
            cpu()};
#endif
  }
  dnnl::convolution_forward::primitive_desc hint() const {
    Problem plain = *this;
    plain.attributes = dnnl::primitive_attr();
    // Backward wants to know of a forward; any weights layout serves as the hint.
    plain.weights = Desc(extents, memory::data_type::f32, Tag::any);
    return plain.make_forward<dnnl::convolution_forward>(dnnl::prop_kind::forward_training);
  }
  dnnl::convolution_backward_data::primitive_desc make_backward_data() const {
    const auto direct = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
    return {cpu(),   direct,    src,     weights, dst,       strides,
            dilates, pad_begin, pad_end, hint(),  attributes};
#else
    return {{direct, src, weights, dst, strides, dilates, pad_begin, pad_end},
            attributes,
            cpu(),
            hint()};
#endif
  }
  dnnl::convolution_backward_weights::primitive_desc make_backward_weights() const {
    const auto direct = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
    return {cpu(),   direct,  src,       weights, bias,   dst,
            strides, dilates, pad_begin, pad_end, hint(), attributes};
#else
    return {{direct, src, weights, bias, dst, strides, dilates, pad_begin, pad_end},
            attributes,
            cpu(),
            hint()};
#endif
  }
};

bool is_reference(const std::string& implementation) {
  return implementation.find("ref") != std::string::npos;
}

struct Made {
  dnnl::primitive primitive;
  Desc scratchpad;
  std::string implementation;
};

Made make(const OneDnnConvolution::Options& options) {
  try {
    const Problem problem(options);
    const auto finish = [](const auto& pd, dnnl::primitive primitive) {
      return Made{std::move(primitive), pd.scratchpad_desc(), pd.impl_info_str()};
    };
    switch (options.direction) {
      case Direction::kForward: {
        const auto pd =
            problem.make_forward<dnnl::convolution_forward>(dnnl::prop_kind::forward_training);
        return finish(pd, dnnl::convolution_forward(pd));
      }
      case Direction::kBackwardData: {
        const auto pd = problem.make_backward_data();
        return finish(pd, dnnl::convolution_backward_data(pd));
      }
      case Direction::kBackwardWeights: {
        const auto pd = problem.make_backward_weights();
        return finish(pd, dnnl::convolution_backward_weights(pd));
      }
    }
  } catch (const dnnl::error& error) {
    throw InternalError(fmt::format("[onednn] {}: {}", describe(options), error.what()));
  }
  throw InternalError("[onednn] unknown direction");
}

}  // namespace

void prepare_compute_thread() {
  omp_set_num_threads(1);
}

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

struct OneDnnConvolution::Impl {
  Made made;
  Direction direction;
  bool bias;
  // Memory objects carry the pointers of one call, so every thread has its own.
  struct PerThread {
    dnnl::stream stream;
    memory src, weights, bias, dst, scratchpad;
    std::array<dnnl_exec_arg_t, 5> arguments{};
    int count = 0;
  };
  std::vector<PerThread> threads;
};

OneDnnConvolution::OneDnnConvolution(const Options& options) : impl_(std::make_unique<Impl>()) {
  impl_->made = make(options);
  impl_->direction = options.direction;
  impl_->bias = options.bias;
  if (is_reference(impl_->made.implementation)) {
    throw InternalError(fmt::format("[onednn] {} runs the reference loop ({})", describe(options),
                                    impl_->made.implementation));
  }
  const Problem problem(options);
  for (int thread = 0; thread < options.threads; ++thread) {
    Impl::PerThread own{dnnl::stream(cpu()),
                        memory(problem.src, cpu(), nullptr),
                        memory(problem.weights, cpu(), nullptr),
                        options.bias ? memory(problem.bias, cpu(), nullptr) : memory(),
                        memory(problem.dst, cpu(), nullptr),
                        memory(impl_->made.scratchpad, cpu(), nullptr),
                        {},
                        0};
    const auto add = [&](int index, const memory& object) {
      own.arguments[static_cast<std::size_t>(own.count++)] = {index, object.get()};
    };
    const bool forward = options.direction == Direction::kForward;
    const bool data = options.direction == Direction::kBackwardData;
    add(data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, own.src);
    add(forward || data ? DNNL_ARG_WEIGHTS : DNNL_ARG_DIFF_WEIGHTS, own.weights);
    if (options.bias) add(forward ? DNNL_ARG_BIAS : DNNL_ARG_DIFF_BIAS, own.bias);
    add(forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, own.dst);
    add(DNNL_ARG_SCRATCHPAD, own.scratchpad);
    impl_->threads.push_back(std::move(own));
  }
}

OneDnnConvolution::~OneDnnConvolution() = default;

bool OneDnnConvolution::available(const Options& options) {
  try {
    const Problem problem(options);
    switch (options.direction) {
      case Direction::kForward:
        return !is_reference(
            problem.make_forward<dnnl::convolution_forward>(dnnl::prop_kind::forward_training)
                .impl_info_str());
      case Direction::kBackwardData:
        return !is_reference(problem.make_backward_data().impl_info_str());
      case Direction::kBackwardWeights:
        return !is_reference(problem.make_backward_weights().impl_info_str());
    }
  } catch (const dnnl::error&) {
    // No implementation for these layouts at all.
  }
  return false;
}

std::size_t OneDnnConvolution::scratchpad_bytes(const Options& options) {
  return make(options).scratchpad.get_size();
}

std::string OneDnnConvolution::implementation() const {
  return "onednn " + impl_->made.implementation;
}

void OneDnnConvolution::execute(int thread, float* src, float* weights, float* bias, float* dst,
                                std::byte* scratchpad) const {
  Impl::PerThread& own = impl_->threads[static_cast<std::size_t>(thread)];
  // Channels are whole blocks, so setting a handle has no padding to clear.
  own.src.set_data_handle(src);
  own.weights.set_data_handle(weights);
  if (impl_->bias) own.bias.set_data_handle(bias);
  own.dst.set_data_handle(dst);
  own.scratchpad.set_data_handle(scratchpad);
  const dnnl_status_t status = dnnl_primitive_execute(impl_->made.primitive.get(), own.stream.get(),
                                                      own.count, own.arguments.data());
  SUREFIT_CHECK(status == dnnl_success, "oneDNN execution failed with status {}",
                static_cast<int>(status));
}

}  // namespace surefit
