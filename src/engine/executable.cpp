// SPDX-License-Identifier: Apache-2.0
#include "engine/executable.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/denormals.hpp"
#include "engine/kernels/table.hpp"

namespace surefit {
namespace {

void shrink(Half format, const float* from, std::size_t count, std::byte* to) {
  const kernels::ConvertKernels& convert = kernels::table().convert;
  (format == Half::kFloat16 ? convert.float_to_half : convert.float_to_bfloat)(
      from, reinterpret_cast<std::uint16_t*>(to), static_cast<std::int64_t>(count));
}

void expand(Half format, const std::byte* from, std::size_t count, float* to) {
  const kernels::ConvertKernels& convert = kernels::table().convert;
  (format == Half::kFloat16 ? convert.half_to_float : convert.bfloat_to_float)(
      reinterpret_cast<const std::uint16_t*>(from), to, static_cast<std::int64_t>(count));
}

std::unique_ptr<const Graph> in_form(const Graph& graph, const Plan& plan) {
  std::optional<Graph> other = graph.in_form(plan.form, plan.batch);
  return other ? std::make_unique<const Graph>(std::move(*other)) : nullptr;
}

}  // namespace

Executable::Executable(const Graph& graph, Plan plan, ThreadPool& pool,
                       std::shared_ptr<Arena> arena,
                       const std::function<std::byte*(ValueId)>& persistent,
                       std::shared_ptr<SpillFile> file)
    : other_(in_form(graph, plan)),
      graph_(other_ ? *other_ : graph),
      plan_(std::move(plan)),
      pool_(pool),
      arena_(std::move(arena)),
      file_(std::move(file)),
      persistent_(persistent),
      prepared_(static_cast<std::size_t>(pool.threads())) {
  SUREFIT_CHECK(plan_.file_bytes == 0 || (file_ && file_->bytes() >= plan_.file_bytes),
                "a spill file of {} bytes", plan_.file_bytes);
  SUREFIT_CHECK(arena_->bytes() >= plan_.arena_bytes, "arena of {} bytes for a plan of {}",
                arena_->bytes(), plan_.arena_bytes);
  SUREFIT_CHECK(pool.threads() <= plan_.threads, "{} threads where the plan has room for {}",
                pool.threads(), plan_.threads);
  const auto memory = [&](const Buffer& buffer) {
    return buffer.persistent ? persistent(buffer.value) : arena_->base() + buffer.offset;
  };
  for (const Instance& instance : plan_.instances) {
    Bound bound;
    bound.action = instance.action;
    bound.node = &graph_.node(instance.node);
    bound.updates = bound.node->phase == Phase::kUpdate || !bound.node->op->pure();
    const auto inputs = graph_.input_types(*bound.node);
    const auto outputs = graph_.output_types(*bound.node);
    bound.traits = bound.node->op->traits(inputs, outputs);
    if (bound.traits.prepares) bound.prepared = prepared_.data();
    if (bound.action == Action::kRun) {
      bound.kernel = bound.node->op->bind(inputs, outputs, plan_.threads);
    } else {
      const int moved = instance.outputs.empty() ? instance.inputs[0] : instance.outputs[0];
      const ValueType& type =
          graph_.value(plan_.buffers[static_cast<std::size_t>(moved)].value).type;
      bound.traits.role = type.batched ? BatchRole::kPerSample : BatchRole::kBatchFree;
      bound.unit_bytes = type.stored_bytes();
      bound.file_offset = instance.file_offset;
    }
    for (const auto* types : {&inputs, &outputs}) {
      for (const ValueType& type : *types) {
        (type.batched ? bound.bytes_per_sample : bound.bytes_per_step) +=
            static_cast<double>(type.stored_bytes());
      }
    }
    const auto operands = [&](const std::vector<int>& buffers, std::vector<Operand>& list,
                              std::vector<bool>& is_group) {
      for (const int index : buffers) {
        const Buffer& buffer = plan_.buffers[static_cast<std::size_t>(index)];
        list.push_back({memory(buffer), buffer.sample_bytes, 0});
        is_group.push_back(buffer.sample_bytes > 0 && buffer.samples < plan_.batch);
        bound.by_group = bound.by_group || is_group.back();
      }
    };
    operands(instance.inputs, bound.inputs, bound.input_is_group);
    operands(instance.outputs, bound.outputs, bound.output_is_group);
    if (instance.thread_scratch != kNone) {
      const Buffer& buffer = plan_.buffers[static_cast<std::size_t>(instance.thread_scratch)];
      bound.thread_scratch = memory(buffer);
      bound.thread_scratch_bytes = buffer.bytes / static_cast<std::size_t>(plan_.threads);
    }
    if (instance.shared_scratch != kNone) {
      bound.shared_scratch =
          memory(plan_.buffers[static_cast<std::size_t>(instance.shared_scratch)]);
    }
    bound_.push_back(std::move(bound));
  }
}

Operand Executable::operand(ValueId id) const {
  const ValueId owner = graph_.root(id);
  for (const Buffer& buffer : plan_.buffers) {
    if (buffer.value != owner) continue;
    std::byte* base = buffer.persistent ? persistent_(owner) : arena_->base() + buffer.offset;
    return {base, buffer.sample_bytes, 0};
  }
  return {};
}

void Executable::run(const StepContext& context, RunObserver* observer) {
  SUREFIT_CHECK(context.samples >= 1 && context.samples <= plan_.batch,
                "{} samples in a plan for {}", context.samples, plan_.batch);
  const DenormalsAreZero mode;  // small nodes run here, without the pool
  bool updating = false;
  for (const Segment& segment : plan_.segments) {
    for (std::int64_t begin = 0; begin < context.samples; begin += segment.group) {
      const std::int64_t end = std::min(context.samples, begin + segment.group);
      for (int i = segment.begin; i < segment.end; ++i) {
        Bound& bound = bound_[static_cast<std::size_t>(i)];
        if (bound.traits.role == BatchRole::kBatchFree && begin > 0) continue;
        if (observer != nullptr) {
          if (!updating && bound.updates) {
            updating = true;
            observer->before_updates();
          }
          observer->before(*bound.node);
        }
        run_instance(bound, context, begin, end);
        if (bound.action != Action::kRun) continue;
        if (observer != nullptr) observer->after(*bound.node, bound.outputs, begin, end);
      }
    }
  }
}

Task Executable::task_of(const Bound& bound, const Round& round, std::size_t index, int thread) {
  Task task;
  task.step = round.context;
  task.inputs = bound.inputs;
  task.outputs = bound.outputs;
  task.phase = round.phase;
  task.index = static_cast<int>(index);
  task.count = round.tasks;
  task.thread = thread;
  if (bound.thread_scratch != nullptr) {
    task.thread_scratch =
        bound.thread_scratch + static_cast<std::size_t>(thread) * bound.thread_scratch_bytes;
  }
  task.shared_scratch = bound.shared_scratch;
  return task;
}

void Executable::run_task(const Bound& bound, const Round& round, std::size_t index, int thread) {
  const auto blocks = static_cast<std::size_t>(bound.traits.blocks);
  Task task = task_of(bound, round, index, thread);
  task.begin = round.begin + static_cast<std::int64_t>(index / blocks) * round.per_task;
  task.end = std::min(round.end, task.begin + round.per_task);
  task.block = static_cast<int>(index % blocks);
  if (bound.prepared != nullptr) {
    std::int64_t& prepared = bound.prepared[thread].begin;
    if (prepared != task.begin) bound.kernel->prepare(task);
    prepared = task.begin;
  }
  bound.kernel->run(task);
}

// Of a node that works in parts. A part is one thread's, whole or, where there are more threads
// than parts, some of its blocks.
void Executable::run_part(const Bound& bound, const Round& round, std::size_t index, int thread) {
  const BatchParts parts(round.context->samples, bound.traits.parts);
  const std::int64_t first = parts.of(round.begin);
  const std::int64_t cuts = round.tasks / (parts.of(round.end - 1) - first + 1);
  const auto at = static_cast<std::int64_t>(index);
  const auto block = [&](std::int64_t cut) {
    return static_cast<int>(bound.traits.blocks * cut / cuts);
  };
  Task task = task_of(bound, round, index, thread);
  task.part = static_cast<int>(first + at / cuts);
  const std::int64_t end = std::min(round.end, parts.begin(task.part + 1));
  for (task.begin = std::max(round.begin, parts.begin(task.part)); task.begin < end;
       task.begin = task.end) {
    task.end = std::min(task.begin + round.per_task, end);
    for (task.block = block(at % cuts); task.block < block(at % cuts + 1); ++task.block) {
      bound.kernel->run(task);
    }
  }
}

// How many tasks that makes.
int Executable::pieces_of_parts(const Bound& bound, const Round& round) const {
  const BatchParts parts(round.context->samples, bound.traits.parts);
  const std::int64_t count = parts.of(round.end - 1) - parts.of(round.begin) + 1;
  return static_cast<int>(
      count * std::min<std::int64_t>(div_up(pool_.threads(), count), bound.traits.blocks));
}

Executable::Cut Executable::cut_for(const Bound& bound, std::int64_t samples) const {
  const OpTraits& traits = bound.traits;
  const auto blocks = static_cast<std::size_t>(traits.blocks);
  // A reduction owns its blocks; samples pass through all of them, so many at a time.
  Cut cut{.per_task = samples, .per_pass = std::max<std::int64_t>(samples, 1)};
  if (traits.role == BatchRole::kReduction && traits.samples_per_pass > 0)
    cut.per_pass = cut.per_task = round_up(traits.samples_per_pass, traits.sample_grain);
  // Samples are split evenly over the threads before tasks grow to the size the kernel likes best,
  // unless blocks alone keep the threads busy: every part of the samples reads the weights again.
  constexpr std::size_t kBlocksPerThread = 4;
  std::size_t tiles = 1;
  if (traits.role == BatchRole::kPerSample) {
    const int threads = pool_.threads();
    const auto each = static_cast<std::size_t>(threads);
    const std::size_t rounds = (blocks + each - 1) / each;
    const bool heavy = bound.bytes_per_step > bound.bytes_per_sample * static_cast<double>(samples);
    const int worth = traits.samples_worth_splitting;
    const bool by_blocks =
        (rounds >= kBlocksPerThread || (heavy && rounds * each * 5 <= blocks * 6)) &&
        (worth == 0 || samples < std::int64_t{threads} * worth);
    const std::int64_t liked = std::max(1, traits.samples_per_task);
    // As many tasks for one thread as for the other.
    const std::int64_t parts =
        by_blocks ? div_up(samples, liked) : threads * div_up(samples, threads * liked);
    cut.per_task = round_up(div_up(samples, parts), traits.sample_grain);
    tiles = static_cast<std::size_t>(div_up(samples, cut.per_task));
  }
  cut.tasks = static_cast<int>(tiles * blocks);
  // To wake the other threads takes about a microsecond, in which one of them does this much.
  constexpr double kFlopsWorthSharing = 1e5, kBytesWorthSharing = 32e3;
  // In less time than this a thread that is done cannot tell whether another is held up.
  constexpr double kFlopsWorthHelping = 1e7, kBytesWorthHelping = 4e6;
  const auto amount = static_cast<double>(samples);
  const double flops = traits.flops_per_sample * amount + traits.flops_per_step;
  const double bytes = bound.bytes_per_sample * amount + bound.bytes_per_step;
  cut.share = share_all_ || flops > kFlopsWorthSharing || bytes > kBytesWorthSharing;
  cut.helps = flops > kFlopsWorthHelping || bytes > kBytesWorthHelping;
  return cut;
}

void Executable::run_instance(Bound& bound, const StepContext& context, std::int64_t begin,
                              std::int64_t end) {
  // Other threads read these lines: nothing is written where it would change nothing.
  if (bound.by_group) {
    for (std::size_t i = 0; i < bound.inputs.size(); ++i) {
      if (bound.input_is_group[i]) bound.inputs[i].first_sample = begin;
    }
    for (std::size_t i = 0; i < bound.outputs.size(); ++i) {
      if (bound.output_is_group[i]) bound.outputs[i].first_sample = begin;
    }
  }
  if (bound.action != Action::kRun) return move(bound, begin, end);
  const Cut cut = cut_for(bound, end - begin);
  Round round{.context = &context,
              .begin = begin,
              .end = end,
              .per_task = cut.per_task,
              .tasks = cut.tasks};
  const auto run_all = [&](const auto& task) {
    static_assert(sizeof(task) <= ThreadPool::kCarriedBytes);
    const auto count = static_cast<std::size_t>(round.tasks);
    const auto early = cut.helps ? ThreadPool::Early::kHelps : ThreadPool::Early::kWaits;
    if (cut.share) return pool_.parallel_for(count, task, early);
    for (std::size_t index = 0; index < count; ++index) task(index, 0);
  };
  if (bound.traits.parts > 1) {
    round.per_task = cut.per_pass;
    round.tasks = pieces_of_parts(bound, round);
    return run_all([bound = &bound, round](std::size_t index, int thread) {
      run_part(*bound, round, index, thread);
    });
  }
  if (bound.prepared != nullptr) std::fill(prepared_.begin(), prepared_.end(), Prepared{});
  for (; round.begin < end; round.begin += cut.per_pass) {
    for (round.phase = 0; round.phase < bound.traits.phases; ++round.phase) {
      run_all([bound = &bound, round](std::size_t index, int thread) {
        run_task(*bound, round, index, thread);
      });
    }
  }
}

// In pieces of a megabyte, so that all threads have a share.
void Executable::move(Bound& bound, std::int64_t begin, std::int64_t end) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  if (bound.traits.role == BatchRole::kBatchFree) begin = 0, end = 1;
  const std::size_t bytes = bound.unit_bytes * static_cast<std::size_t>(end - begin);
  const std::size_t file_at =
      bound.file_offset + static_cast<std::size_t>(begin) * bound.unit_bytes;
  // The samples of a buffer lie one behind the other.
  std::byte* const from = bound.inputs.empty() ? nullptr : bound.inputs[0].at<std::byte>(begin);
  std::byte* const to = bound.outputs.empty() ? nullptr : bound.outputs[0].at<std::byte>(begin);
  pool_.parallel_for((bytes + kPiece - 1) / kPiece, [&](std::size_t index, int) {
    const std::size_t at = index * kPiece, size = std::min(kPiece, bytes - at);
    switch (bound.action) {
      case Action::kRun:
        break;
      case Action::kSpill:
        file_->write(from + at, size, file_at + at);
        break;
      case Action::kFetch:
        file_->read(to + at, size, file_at + at);
        break;
      case Action::kShrink:
        shrink(bound.traits.half, reinterpret_cast<float*>(from + at), size / 4, to + at / 2);
        break;
      case Action::kExpand:
        expand(bound.traits.half, from + at / 2, size / 4, reinterpret_cast<float*>(to + at));
        break;
    }
  });
}

}  // namespace surefit
