// SPDX-License-Identifier: Apache-2.0
#include "support/loss_rig.hpp"

#include <cstring>

#include "engine/executable.hpp"
#include "engine/onednn.hpp"
#include "graph/autodiff.hpp"
#include "nn/loss.hpp"
#include "nn/metric.hpp"
#include "nn/ops/softmax.hpp"
#include "nn/ops/structural.hpp"

namespace surefit {
namespace {

ValueType row_type(const Tensor& tensor) {
  ValueType type;
  type.shape = tensor.shape().drop_front();
  type.dtype = tensor.dtype();
  return type;
}

class Bench {
 public:
  Bench(const Tensor& prediction, const Tensor& labels, bool through_softmax)
      : prediction_(prediction), labels_(labels), graph_(structural_ops()) {
    given = graph_.add_input("prediction", row_type(prediction));
    label = graph_.add_input("labels", row_type(labels));
    predicted = given;
    if (through_softmax) {
      predicted = graph_.add1(std::make_shared<SoftmaxOp>(), {given}, "softmax", Phase::kForward);
    }
  }
  Graph& graph() { return graph_; }

  void run(const LossRun& options) {
    prune(graph_);
    const std::int64_t samples = prediction_.shape()[0];
    pool_ = std::make_unique<ThreadPool>(options.threads, prepare_compute_thread);
    Plan plan = make_plan(graph_, {.batch = options.batch > 0 ? options.batch : samples,
                                   .threads = options.threads,
                                   .group = options.group});
    arena_ = std::make_shared<Arena>(plan.arena_bytes);
    std::memset(arena_->base(), 0xFF, arena_->bytes());
    executable_ = std::make_unique<Executable>(graph_, std::move(plan), *pool_, arena_, nullptr);
    const auto fill = [&](ValueId id, const Tensor& from) {
      const std::size_t row = from.bytes() / static_cast<std::size_t>(samples);
      for (std::int64_t n = 0; n < samples; ++n) {
        std::memcpy(executable_->operand(id).at(n),
                    from.raw().data() + row * static_cast<std::size_t>(n), row);
      }
    };
    fill(given, prediction_);
    fill(label, labels_);
    StepContext context;
    context.samples = samples;
    executable_->run(context);
  }
  Operand operand(ValueId id) const { return executable_->operand(id); }

  ValueId given = kNone, label = kNone, predicted = kNone;

 private:
  const Tensor& prediction_;
  const Tensor& labels_;
  Graph graph_;
  std::unique_ptr<ThreadPool> pool_;
  std::shared_ptr<Arena> arena_;
  std::unique_ptr<Executable> executable_;
};

}  // namespace

LossResult run_loss(const Loss& loss, const Tensor& prediction, const Tensor& labels,
                    const LossRun& run) {
  Bench bench(prediction, labels, run.through_softmax);
  const LossNodes nodes = loss.impl().build(bench.graph(), bench.predicted, bench.label, true);
  const auto gradients =
      append_backward(bench.graph(), {{nodes.root, nodes.gradient}}, {bench.given});
  const ValueId gradient = nodes.root == bench.given ? nodes.gradient : gradients.at(bench.given);
  bench.graph().keep(nodes.loss);
  bench.graph().keep(gradient);
  bench.run(run);
  LossResult result;
  result.gradient = Tensor(prediction.shape());
  const std::size_t row = prediction.shape().drop_front().count();
  for (std::int64_t n = 0; n < prediction.shape()[0]; ++n) {
    result.loss.push_back(*bench.operand(nodes.loss).at<double>(n));
    std::memcpy(result.gradient.values<float>().data() + row * static_cast<std::size_t>(n),
                bench.operand(gradient).at(n), row * sizeof(float));
  }
  return result;
}

double run_metric(const Metric& metric, const Loss& loss, const Tensor& prediction,
                  const Tensor& labels, bool through_softmax) {
  Bench bench(prediction, labels, through_softmax);
  const ValueId value = metric.impl().build(bench.graph(), bench.predicted, bench.label,
                                            loss.impl().labels(prediction.shape().drop_front()));
  bench.graph().keep(value);
  const std::size_t width = bench.graph().value(value).type.shape.count();
  bench.run({});
  std::vector<double> state(metric.impl().state_size(), 0.0);
  for (std::int64_t n = 0; n < prediction.shape()[0]; ++n) {
    metric.impl().update(state, {bench.operand(value).at(n), width});
  }
  return metric.impl().result(state);
}

}  // namespace surefit
