// SPDX-License-Identifier: Apache-2.0
// Winograd's convolutions of batches with few tiles: weights are transformed where they are used,
// gradients brought back and applied where they arise (engine/kernels/conv_winograd_few.hpp).
#include <algorithm>

#include "engine/kernels/table.hpp"
#include "nn/ops/conv_blocked.hpp"
#include "nn/ops/conv_task.hpp"

namespace surefit {
namespace {

using kernels::ConvShape;
using kernels::WinogradDirection;

std::size_t bytes_of(std::size_t floats) {
  return floats * sizeof(float);
}
int tiles_of(const ConvShape& s, WinogradDirection direction, std::int64_t samples) {
  return kernels::winograd_plane(s, direction).tiles * static_cast<int>(samples);
}

// Up to so many tiles of the batch are few. More are better served by weights that are written down
// once: here the transformed pictures are read again for every group of output channels. Time
// against the usual form, forward and weight gradient: at 128 tiles 0.93 and 0.78 with 128
// channels, 0.78 and 0.79 with 512; at 256 tiles 1.22 and 0.98, 0.95 and 1.04 (one core, best of
// three).
constexpr std::int64_t kFewTiles = 128;

bool few_tiles(const ConvShape& s, WinogradDirection direction, std::int64_t samples) {
  return kernels::winograd_few_applies(s) && samples <= kFewTiles &&
         tiles_of(s, direction, samples) <= kFewTiles;
}

// Inputs: kernel, picture or gradient, the bias where there is one.
class FewPassOp final : public Op {
 public:
  FewPassOp(const WinogradReader::Pass& pass, std::int64_t samples)
      : pass_(pass), samples_(static_cast<int>(samples)) {}
  std::string_view kind() const override { return pass_.kind; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override { return {pass_.output}; }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    const ConvShape& s = pass_.shape;
    OpTraits traits;
    traits.flops_per_sample = conv_flops(s) / 3;
    traits.flops_per_step = static_cast<double>(winograd_count(s, pass_.direction)) * 4;
    traits.prepares = true;
    traits.blocks = kernels::winograd_few_blocks(s, pass_.direction);
    traits.samples_per_task = samples_;
    traits.thread_scratch_bytes =
        v_bytes() + kernels::winograd_few_pass_scratch_bytes(s, pass_.direction, samples_);
    return traits;
  }
  // In a thread's scratch: the transformed pictures of its samples, then room for a pass.
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    return make_prepared_kernel(
        "own winograd, few tiles",
        [own = pass_](const Task& task) {
          const kernels::WinogradFewPicture args{own.shape,
                                                 own.direction,
                                                 tiles_of(own.shape, own.direction, count(task)),
                                                 task.inputs[1].at(task.begin),
                                                 float_stride(task.inputs[1]),
                                                 scratch_of(task)};
          kernels::table().winograd_few.transform_input(args, samples(task), 0, 1);
        },
        [own = pass_, v_floats = v_bytes() / sizeof(float)](const Task& task) {
          kernels::WinogradFewPass args{.tiles = tiles_of(own.shape, own.direction, count(task)),
                                        .v = scratch_of(task),
                                        .weights = task.inputs[0].at()};
          args.pass.shape = own.shape;
          args.pass.direction = own.direction;
          args.pass.bias = own.bias ? task.inputs[2].at() : nullptr;
          args.pass.dst = task.outputs[0].at(task.begin);
          args.pass.dst_stride = float_stride(task.outputs[0]);
          args.pass.relu = own.relu;
          kernels::table().winograd_few.pass(args, samples(task), task.block,
                                             scratch_of(task) + v_floats);
        });
  }

 private:
  static std::int64_t count(const Task& task) { return task.end - task.begin; }
  std::size_t v_bytes() const {
    return bytes_of(kernels::winograd_few_v_floats(pass_.shape, pass_.direction, samples_));
  }

  WinogradReader::Pass pass_;
  int samples_;
};

// Inputs: picture, gradient of the output; with an update the kernel and its slots, otherwise the
// output is the kernel's gradient.
class FewGradientOp final : public Op {
 public:
  FewGradientOp(const ConvShape& shape, std::int64_t samples,
                std::shared_ptr<const ElementUpdate> update, std::size_t state)
      : shape_(shape), samples_(static_cast<int>(samples)), update_(std::move(update)) {
    for (std::size_t i = 0; i < state; ++i) positions_.push_back(static_cast<int>(i) + 2);
  }
  std::string_view kind() const override {
    return update_ ? "conv2d_update" : "conv2d_backward_weights";
  }
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    if (update_) return {};
    return {float_vector(conv_weights_count(shape_, ConvAlgorithm::kWinograd))};
  }
  std::vector<int> mutated_inputs() const override { return positions_; }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kReduction;
    traits.sample_grain = samples_;
    traits.prepares = true;
    traits.phases = 2;
    traits.blocks = blocks();
    traits.flops_per_sample = conv_flops(shape_) / 3;
    traits.flops_per_step =
        static_cast<double>(winograd_count(shape_, WinogradDirection::kForward)) * 4;
    traits.shared_scratch_bytes = bytes_of(v_floats());
    traits.thread_scratch_bytes =
        bytes_of(m_floats()) + kernels::winograd_few_gradient_scratch_bytes();
    if (update_) traits.thread_scratch_bytes += bytes_of(kPiece * kPiece * kBlockFloats);
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    return make_prepared_kernel(
        "own winograd, few tiles",
        [s = shape_, room = samples_](const Task& task) {
          kernels::table().winograd_few.transform_gradient(
              picture(s, room, task.inputs[1], scratch_of(task)), samples(task), 0, 1);
        },
        [s = shape_, room = samples_, update = update_, m_floats = m_floats(),
         blocks = blocks()](const Task& task) {
          check_whole_batch(task);
          auto* v = reinterpret_cast<float*>(task.shared_scratch);
          if (task.phase == 0) {
            return kernels::table().winograd_few.transform_input(
                picture(s, room, task.inputs[0], v), samples(task), task.block, blocks);
          }
          kernels::WinogradFewGradient args{s, tiles_of(s, WinogradDirection::kForward, room),
                                            tiles_of(s, WinogradDirection::kForward, task.end), v,
                                            scratch_of(task)};
          run_block(args, task, update.get(), scratch_of(task) + m_floats);
        });
  }
  std::shared_ptr<const Op> absorb_few(const Op& consumer, std::int64_t samples) const override {
    auto update = update_ ? nullptr : consumer.element_update();
    if (update == nullptr) return nullptr;
    return std::make_shared<FewGradientOp>(shape_, samples, std::move(update),
                                           consumer.mutated_inputs().size());
  }

 private:
  static constexpr int kBlockFloats = 9 * 64;  // from eight channels to eight
  // Of input and output channels in a piece, whose gradient is applied at once.
  static constexpr int kPiece = 2 * kernels::kWinogradFewGroups;

  std::size_t v_floats() const {
    return kernels::winograd_few_v_floats(shape_, WinogradDirection::kForward, samples_);
  }
  std::size_t m_floats() const { return kernels::winograd_few_m_floats(shape_, samples_); }
  // Tasks are cut as backward-data's are, which read the kernel just before: by input channels, and
  // only where those are too few for threads of uneven speed by output channels too. A line of
  // weights that the other core has read costs as much to write as to fetch from memory.
  static int in_parts(const ConvShape& s) {
    return kernels::winograd_few_blocks(s, WinogradDirection::kBackwardData);
  }
  static int out_blocks(const ConvShape& s) {
    return kernels::winograd_few_blocks(s, WinogradDirection::kForward);
  }
  static int out_parts(const ConvShape& s) {
    constexpr int kBlocks = 32;
    return std::min(kernels::ceil_div(kBlocks, in_parts(s)), out_blocks(s));
  }
  int blocks() const { return in_parts(shape_) * out_parts(shape_); }

  // The input channels of a task are transformed where its thread writes and reads them; of the
  // output channels every thread needs all.
  static kernels::WinogradFewPicture picture(const ConvShape& s, int room, const Operand& from,
                                             float* to) {
    return {s,         WinogradDirection::kForward, tiles_of(s, WinogradDirection::kForward, room),
            from.at(), float_stride(from),          to};
  }

  static void run_block(kernels::WinogradFewGradient& args, const Task& task,
                        const ElementUpdate* update, float* scratch) {
    const int in_blocks = kernels::channel_blocks(args.shape.ic);
    const int count = out_parts(args.shape);
    const int begin = task.block / count * kPiece, part = task.block % count;
    const int end = std::min(begin + kPiece, in_blocks);
    float* piece = scratch + kernels::winograd_few_gradient_scratch_bytes() / sizeof(float);
    const auto state = task.inputs.subspan(2);
    for (std::size_t i = 0; i < std::min(state.size(), std::size(args.ahead)); ++i)
      args.ahead[i] = state[i].at();
    const auto floats = [](int blocks) {
      return static_cast<std::ptrdiff_t>(blocks * kBlockFloats);
    };
    args.apart = update ? floats(kPiece) : floats(in_blocks);
    const int last = kernels::part_begin(out_blocks(args.shape), count, part + 1);
    for (int block = kernels::part_begin(out_blocks(args.shape), count, part); block < last;
         ++block) {
      const int out_begin = block * kPiece;
      const int out_end = std::min(out_begin + kPiece, kernels::channel_blocks(args.shape.oc));
      args.diff_weights =
          update ? piece : task.outputs[0].at() + floats(out_begin * in_blocks + begin);
      kernels::table().winograd_few.backward_weights(args, block, begin, end, scratch);
      for (int out = out_begin; out < out_end && update != nullptr; ++out) {
        update->run(*task.step, state, floats(out * in_blocks + begin), floats(end - begin),
                    piece + (out - out_begin) * args.apart);
      }
    }
  }

  ConvShape shape_;
  int samples_;
  std::shared_ptr<const ElementUpdate> update_;
  std::vector<int> positions_;
};

}  // namespace

std::shared_ptr<const Op> make_few_pass_op(const WinogradReader::Pass& pass, std::int64_t samples) {
  if (!few_tiles(pass.shape, pass.direction, samples)) return nullptr;
  return std::make_shared<FewPassOp>(pass, samples);
}

std::shared_ptr<const Op> make_few_gradient_op(const ConvShape& shape, std::int64_t samples) {
  if (!few_tiles(shape, WinogradDirection::kForward, samples)) return nullptr;
  return std::make_shared<FewGradientOp>(shape, samples, nullptr, 0);
}

}  // namespace surefit
