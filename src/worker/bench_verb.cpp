// SPDX-License-Identifier: Apache-2.0
// Times of whole training steps on one batch that stays in memory: what bench/compare measures.
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <utility>

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

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Seconds per node in a step, over its groups; the median of several steps.
class Profile final : public RunObserver {
 public:
  void before(const Node&) override { started_ = monotonic_seconds(); }
  void after(const Node& node, std::span<const Operand>, std::int64_t, std::int64_t) override {
    step_[node.id] += monotonic_seconds() - started_;
  }
  void end_step() {
    for (auto& [node, sum] : step_) steps_[node].push_back(std::exchange(sum, 0));
  }
  std::map<NodeId, double> seconds() const {
    std::map<NodeId, double> medians;
    for (const auto& [node, sums] : steps_) medians[node] = median(sums);
    return medians;
  }

 private:
  double started_ = 0;
  std::map<NodeId, double> step_;
  std::map<NodeId, std::vector<double>> steps_;
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

Json kinds_json(const Executable& executable, const std::map<NodeId, double>& seconds,
                std::int64_t batch) {
  struct Kind {
    double seconds = 0, flops = 0;
    std::string kernel;
  };
  std::map<std::string, Kind> kinds;
  double total = 0;
  for (const auto& [node, own] : seconds) total += own;
  const Plan& plan = executable.plan();
  const std::vector<OpTraits> traits = traits_of(executable.graph());
  for (std::size_t i = 0; i < plan.instances.size(); ++i) {
    const Instance& instance = plan.instances[i];
    if (instance.action != Action::kRun) continue;
    const Node& node = executable.graph().node(instance.node);
    const auto found = seconds.find(node.id);
    if (found == seconds.end()) continue;
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

// Training steps of one batch size, ready to run.
class Job {
 public:
  // `slots`: allocates those of the optimizer, which all jobs of a model share.
  Job(Model& model, const FitOptions& fit, ThreadPool& pool, bool slots)
      : planned_(plan_training(model.impl(), fit)), predicted_(planned_.plan.predicted_bytes()) {
    if (slots && planned_.candidate.optimizer)
      model.impl().parameters.allocate_slots(planned_.candidate.optimizer->impl());
    const auto spill = spill_file_for(planned_.plan, fit);
    const auto arena = std::make_shared<Arena>(planned_.plan.arena_bytes());
    const Program& program = *planned_.program;
    executable_ = std::make_unique<Executable>(
        program.graph(), std::move(planned_.plan.main), pool, arena,
        [&](ValueId id) { return program.persistent(id, model.impl().parameters); }, spill);
    fill(*executable_, program, fit.batch_size);
    context_.samples = fit.batch_size;
    context_.learning_rate = 1e-3;
  }
  const Executable& executable() const { return *executable_; }
  std::uint64_t predicted_bytes() const { return predicted_; }
  std::int64_t batch() const { return context_.samples; }

  // Seconds of each of `steps` steps, behind one that warms up.
  std::vector<double> run(std::int64_t steps) {
    std::vector<double> seconds;
    seconds.reserve(static_cast<std::size_t>(steps));
    for (std::int64_t step = 0; step <= steps; ++step) {
      const double started = monotonic_seconds();
      executable_->run(context_);
      if (step > 0) seconds.push_back(monotonic_seconds() - started);
      ++context_.step;
    }
    return seconds;
  }
  Json kinds(std::int64_t steps) {
    Profile profile;
    for (std::int64_t step = 0; step < steps; ++step) {
      executable_->run(context_, &profile);
      profile.end_step();
    }
    return kinds_json(*executable_, profile.seconds(), batch());
  }

 private:
  PlannedTraining planned_;
  std::uint64_t predicted_;
  std::unique_ptr<Executable> executable_;
  StepContext context_;
};

// Batch sizes take turns within one process, so that a slow moment of the machine hits all of them.
Json turns_json(Model& model, StepOptions options, const std::vector<std::int64_t>& sizes,
                ThreadPool& pool, std::int64_t turns, std::int64_t pictures) {
  std::vector<std::unique_ptr<Job>> jobs;
  for (const std::int64_t size : sizes) {
    options.batch_size = size;
    jobs.push_back(std::make_unique<Job>(model, options.fit(), pool, jobs.empty()));
  }
  std::vector<std::vector<double>> times(jobs.size());
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const std::size_t at = turn % 2 == 0 ? i : jobs.size() - 1 - i;
      Job& job = *jobs[at];
      const std::int64_t steps = std::max<std::int64_t>(1, pictures / job.batch());
      times[at].push_back(median(job.run(steps)) / static_cast<double>(job.batch()));
    }
  }
  Json json = Json::array();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    json.push_back({{"batch", jobs[i]->batch()},
                    {"seconds_per_image", times[i]},
                    {"median_s_per_image", median(times[i])},
                    {"predicted_bytes", jobs[i]->predicted_bytes()}});
  }
  return {{"event", "bench"}, {"threads", pool.threads()}, {"batches", json}};
}

}  // namespace

int bench_verb(const Arguments& arguments) {
  CLI::App app("Times training steps on one batch in memory; one JSON object on stdout.",
               "surefit bench");
  StepOptions options;
  std::int64_t steps = 5, turns = 20, pictures = 512;
  std::vector<std::int64_t> sizes;
  options.add_to(app);
  app.add_option("--steps", steps, "steps to time, behind one that warms up")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  auto* list = app.add_option("--batch-sizes", sizes, "8,32,128: these take turns in one process")
                   ->delimiter(',')
                   ->excludes("--batch-size")
                   ->excludes("--steps");
  app.add_option("--turns", turns, "of each batch size")
      ->capture_default_str()
      ->needs(list)
      ->check(CLI::PositiveNumber);
  app.add_option("--turn-images", pictures, "images in a turn, one step at least")
      ->capture_default_str()
      ->needs(list)
      ->check(CLI::PositiveNumber);
  app.footer(
      "\nExamples:\n  surefit bench --model seed_cnn --batch-size 32 --steps 100\n"
      "  surefit bench --model seed_cnn --batch-sizes 8,32,128,512 --turn-images 4096\n");
  if (const auto code = parse(app, arguments)) return *code;
  const FitOptions fit = options.fit();
  Model model = options.compiled();
  ThreadPool pool(threads_of(fit), prepare_compute_thread);
  if (!sizes.empty()) {
    fmt::print("{}\n", dump_json(turns_json(model, options, sizes, pool, turns, pictures)));
    return 0;
  }
  Job job(model, fit, pool, true);
  const std::vector<double> seconds = job.run(steps);
  const std::uint64_t peak = read_process_memory().peak_bytes;
  const double middle = median(seconds);
  fmt::print("{}\n", dump_json({{"event", "bench"},
                                {"batch", options.batch_size},
                                {"threads", pool.threads()},
                                {"median_s", middle},
                                {"images_per_s", static_cast<double>(options.batch_size) / middle},
                                {"seconds", seconds},
                                {"peak_bytes", peak},
                                {"predicted_bytes", job.predicted_bytes()},
                                {"kinds", job.kinds(steps)}}));
  return 0;
}

}  // namespace surefit::worker
