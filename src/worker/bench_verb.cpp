// SPDX-License-Identifier: Apache-2.0
// Times of whole training steps on one batch that stays in memory: what bench/compare measures.
#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "base/clock.hpp"
#include "base/philox.hpp"
#include "base/process_memory.hpp"
#include "engine/executable.hpp"
#include "engine/onednn.hpp"
#include "interop/json.hpp"
#include "plan/schedule.hpp"
#include "train/ladder.hpp"
#include "train/model_impl.hpp"
#include "train/setup.hpp"
#include "worker/step_options.hpp"
#include "worker/verbs.hpp"

namespace surefit::worker {
namespace {

// Seconds per node in a step, over its groups; the mean of several steps.
class Profile final : public RunObserver {
 public:
  void before(const Node&) override { started_ = monotonic_seconds(); }
  void after(const Node& node, std::span<const Operand>, std::int64_t, std::int64_t) override {
    seconds[node.id] += monotonic_seconds() - started_;
  }
  void divide(std::int64_t steps) {
    for (auto& [node, sum] : seconds) sum /= static_cast<double>(steps);
  }
  std::map<NodeId, double> seconds;

 private:
  double started_ = 0;
};

void fill(const Executable& executable, const Program& program, std::int64_t batch) {
  for (const ValueId id : program.inputs()) {
    const std::size_t count = program.graph().value(id).type.stored_count();
    const Operand memory = executable.operand(id);
    for (std::int64_t n = 0; n < batch; ++n) {
      const Philox noise(1, Purpose::kTest, 0, 0, static_cast<std::uint64_t>(n));
      for (std::size_t i = 0; i < count; ++i)
        memory.at(n)[i] = static_cast<float>(noise.word(i) >> 8) * 0x1p-24f - 0.5f;
    }
  }
  for (const ValueId id : program.labels()) {
    const Operand memory = executable.operand(id);
    for (std::int64_t n = 0; n < batch; ++n)
      std::fill_n(memory.at<std::byte>(n), memory.sample_bytes, std::byte{0});
  }
}

Json kinds_json(const Executable& executable, const Profile& profile, std::int64_t batch,
                double total) {
  struct Kind {
    double seconds = 0, flops = 0;
    std::string kernel;
  };
  std::map<std::string, Kind> kinds;
  const Plan& plan = executable.plan();
  const std::vector<OpTraits> traits = traits_of(executable.graph());
  for (std::size_t i = 0; i < plan.instances.size(); ++i) {
    const Instance& instance = plan.instances[i];
    if (instance.action != Action::kRun) continue;
    const Node& node = executable.graph().node(instance.node);
    const auto found = profile.seconds.find(node.id);
    if (found == profile.seconds.end()) continue;
    const std::string kernel = executable.kernel(static_cast<int>(i)).implementation();
    Kind& kind = kinds[fmt::format("{} | {}", node.op->kind(), kernel)];
    const OpTraits& t = traits[static_cast<std::size_t>(node.id)];
    if (!instance.again) kind.seconds += found->second;
    kind.flops += t.flops_per_sample * static_cast<double>(batch) + t.flops_per_step;
    kind.kernel = kernel;
  }
  std::vector<std::pair<std::string, Kind>> sorted(kinds.begin(), kinds.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  Json json = Json::array();
  for (const auto& [name, kind] : sorted) {
    json.push_back({{"kind", name.substr(0, name.find(" | "))},
                    {"kernel", kind.kernel},
                    {"seconds", kind.seconds},
                    {"share", kind.seconds / total},
                    {"gflops", kind.seconds > 0 ? kind.flops / kind.seconds / 1e9 : 0}});
  }
  return json;
}

}  // namespace

int bench_verb(const Arguments& arguments) {
  CLI::App app("Times training steps on one batch in memory; one JSON object on stdout.",
               "surefit bench");
  StepOptions options;
  std::int64_t steps = 5;
  options.add_to(app);
  app.add_option("--steps", steps, "steps to time, behind one that warms up")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.footer("\nExample:\n  surefit bench --model seed_cnn --batch-size 32 --steps 100\n");
  if (const auto code = parse(app, arguments)) return *code;
  const FitOptions fit = options.fit();
  Model model = options.compiled();

  ThreadPool pool(threads_of(fit), prepare_compute_thread);
  PlannedTraining planned = plan_training(model.impl(), fit);
  const Program& program = *planned.program;
  MemoryPlan& plan = planned.plan;
  if (planned.candidate.optimizer)
    model.impl().parameters.allocate_slots(planned.candidate.optimizer->impl());
  const std::uint64_t predicted = plan.predicted_bytes();
  const auto spill = spill_file_for(plan, fit);
  Executable executable(
      program.graph(), std::move(plan.main), pool, std::make_shared<Arena>(plan.arena_bytes()),
      [&](ValueId id) { return program.persistent(id, model.impl().parameters); }, spill);
  fill(executable, program, options.batch_size);
  StepContext context;
  context.samples = options.batch_size;
  context.learning_rate = 1e-3;
  std::vector<double> seconds;
  seconds.reserve(static_cast<std::size_t>(steps) + 1);
  for (std::int64_t step = 0; step <= steps; ++step) {
    const double started = monotonic_seconds();
    executable.run(context);
    seconds.push_back(monotonic_seconds() - started);
    ++context.step;
  }
  seconds.erase(seconds.begin());
  const std::uint64_t peak = read_process_memory().peak_bytes;
  Profile profile;
  const double started = monotonic_seconds();
  for (std::int64_t step = 0; step < steps; ++step) executable.run(context, &profile);
  const double total = (monotonic_seconds() - started) / static_cast<double>(steps);
  profile.divide(steps);
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted[sorted.size() / 2];
  fmt::print("{}\n",
             dump_json({{"event", "bench"},
                        {"batch", options.batch_size},
                        {"threads", pool.threads()},
                        {"median_s", median},
                        {"images_per_s", static_cast<double>(options.batch_size) / median},
                        {"seconds", seconds},
                        {"peak_bytes", peak},
                        {"predicted_bytes", predicted},
                        {"kinds", kinds_json(executable, profile, options.batch_size, total)}}));
  return 0;
}

}  // namespace surefit::worker
