// SPDX-License-Identifier: Apache-2.0
// A plan bound to kernels and memory, ready to be replayed. run() allocates nothing.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/thread_pool.hpp"
#include "engine/arena.hpp"
#include "engine/spill_file.hpp"
#include "graph/graph.hpp"
#include "plan/plan.hpp"

namespace surefit {

// Sees the run from inside; for heartbeats, numeric checks and profiles.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void before(const Node&) {}
  // Samples [begin, end) of the node's outputs are now in memory.
  virtual void after(const Node&, std::span<const Operand> outputs, std::int64_t begin,
                     std::int64_t end) {
    (void)outputs, (void)begin, (void)end;
  }
  // Called once, when everything is computed that the updates rest on and nothing persistent has
  // changed yet: to throw here leaves the model as it was.
  virtual void before_updates() {}
};

class Executable {
 public:
  // `persistent` gives the memory of a persistent value. Several executables may share an arena if
  // they do not run at the same time. The graph and pool must outlive the executable. A plan that
  // spills needs a file of at least plan.file_bytes.
  Executable(const Graph& graph, Plan plan, ThreadPool& pool, std::shared_ptr<Arena> arena,
             const std::function<std::byte*(ValueId)>& persistent,
             std::shared_ptr<SpillFile> file = nullptr);

  const Plan& plan() const { return plan_; }
  const Graph& graph() const { return graph_; }
  // Memory of an input, kept or persistent value: sample n at Operand::at(n).
  Operand operand(ValueId id) const;
  const Kernel& kernel(int instance) const {
    return *bound_[static_cast<std::size_t>(instance)].kernel;
  }

  void run(const StepContext& context, RunObserver* observer = nullptr);

  // Shares also nodes that are not worth it among the threads: small tests find races too.
  void share_all() { share_all_ = true; }

 private:
  // By thread: the first of the samples that it is prepared for, within one instance.
  struct alignas(64) Prepared {
    std::int64_t begin = kNone;
  };
  // How the work of a node on so many samples is cut into tasks.
  struct Cut {
    std::int64_t per_task = 0, per_pass = 0;  // samples
    int tasks = 0;                            // of a pass
    bool share = false;                       // among the threads
    bool helps = false;                       // who is done early takes another's
  };
  struct Bound {
    Action action = Action::kRun;
    const Node* node = nullptr;
    bool updates = false;  // works on the gradients, or changes what is persistent
    OpTraits traits;
    double bytes_per_sample = 0, bytes_per_step = 0;  // of all operands
    std::size_t file_offset = 0;
    std::size_t unit_bytes =
        0;  // of a move: a sample's in memory, or all where the value is not batched
    std::unique_ptr<Kernel> kernel;
    std::vector<Operand> inputs, outputs;
    std::vector<bool> input_is_group, output_is_group;
    std::byte* thread_scratch = nullptr;
    std::size_t thread_scratch_bytes = 0;
    std::byte* shared_scratch = nullptr;
    Prepared* prepared = nullptr;  // by thread, of a node whose threads prepare themselves
    bool by_group = false;         // an operand holds one group at a time
  };
  // The tasks of a node that run at the same time: what the pool carries to the other threads.
  struct Round {
    const StepContext* context;
    std::int64_t begin, end, per_task;
    int phase = 0, tasks = 0;
  };
  static Task task_of(const Bound& bound, const Round& round, std::size_t index, int thread);
  static void run_task(const Bound& bound, const Round& round, std::size_t index, int thread);
  static void run_part(const Bound& bound, const Round& round, std::size_t index, int thread);
  int pieces_of_parts(const Bound& bound, const Round& round) const;
  Cut cut_for(const Bound& bound, std::int64_t samples) const;
  void run_instance(Bound& bound, const StepContext& context, std::int64_t begin, std::int64_t end);
  void move(Bound& bound, std::int64_t begin, std::int64_t end);

  // The form that the plan is for, where it is not the caller's.
  std::unique_ptr<const Graph> other_;
  const Graph& graph_;
  Plan plan_;
  ThreadPool& pool_;
  bool share_all_ = false;
  std::shared_ptr<Arena> arena_;
  std::shared_ptr<SpillFile> file_;
  std::function<std::byte*(ValueId)> persistent_;
  std::vector<Bound> bound_;
  std::vector<Prepared> prepared_;
};

}  // namespace surefit
