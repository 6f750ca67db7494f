// SPDX-License-Identifier: Apache-2.0
#include "worker/progress.hpp"

#include <cmath>
#include <unistd.h>

#include "base/clock.hpp"
#include "interop/json.hpp"
#include "train/callbacks/progress_line.hpp"

namespace surefit {
namespace {

class JsonProgress final : public Callback {
 public:
  void on_train_begin(TrainState& state) override { plan(state, Json::object()); }
  void on_plan_change(TrainState& state, const std::string& text) override {
    plan(state, {{"step", state.step()}, {"reason", text}});
  }
  void on_train_batch_end(TrainState& state, const Logs& logs) override {
    const double now = monotonic_seconds();
    if (now < next_) return;
    next_ = now + 1;
    event("step", state, logs);
  }
  void on_epoch_end(TrainState& state, const Logs& logs) override { event("epoch", state, logs); }
  void on_resume(TrainState& state) override {
    ProgressLine line;
    line.add("{{\"event\":\"resume\",\"time\":{:.3f},\"epoch\":{},\"step\":{}}}\n", wall_seconds(),
             state.epoch() + 1, state.step());
    line.write(STDOUT_FILENO);
  }
  void on_checkpoint(TrainState& state, const CheckpointEvent& saved) override {
    if (!saved.saved) return;
    ProgressLine line;
    line.add(
        "{{\"event\":\"checkpoint\",\"time\":{:.3f},\"epoch\":{},\"step\":{},\"bytes\":{},"
        "\"seconds\":{:.4f},\"cost_s\":{:.4f}}}\n",
        wall_seconds(), state.epoch() + 1, saved.step, saved.bytes, saved.seconds, saved.cost_s);
    line.write(STDOUT_FILENO);
  }
  void on_warning(TrainState&, const std::string& text) override {
    const std::string json =
        dump_json({{"event", "warning"}, {"time", wall_seconds()}, {"text", text}});
    ProgressLine line;
    line.add("{}\n", json);
    line.write(STDOUT_FILENO);
  }

 private:
  static void plan(const TrainState& state, const Json& more) {
    const MemoryReport& memory = state.memory();
    Json categories = Json::object(), rungs = Json::object();
    for (const auto& [name, bytes] : memory.categories) categories[name] = bytes;
    for (const auto& [name, bytes] : memory.rungs) rungs[name] = bytes;
    Json json = {{"event", "plan"},
                 {"time", wall_seconds()},
                 {"predicted_bytes", memory.predicted_bytes},
                 {"budget_bytes", memory.budget_bytes},
                 {"budget_source", memory.budget_source},
                 {"full_speed_bytes", memory.full_speed_bytes},
                 {"arena_bytes", memory.arena_bytes},
                 {"slowdown", memory.slowdown},
                 {"categories", categories},
                 {"rungs", rungs},
                 {"peak", memory.peak}};
    json.update(more);
    ProgressLine line;
    line.add("{}\n", dump_json(json));
    line.write(STDOUT_FILENO);
  }
  static void number(ProgressLine& line, double value) {
    std::isfinite(value) ? line.add("{}", value) : line.add("null");
  }
  void event(const char* kind, TrainState& state, const Logs& logs) {
    ProgressLine line;
    line.add("{{\"event\":\"{}\",\"time\":{:.3f},\"epoch\":{},\"step\":{}", kind, wall_seconds(),
             state.epoch() + 1, state.step());
    for (const bool validation : {false, true}) {
      bool open = false;
      for (const auto& [name, value] : logs) {
        const bool is_validation = name.rfind("val_", 0) == 0;
        if (is_validation != validation) continue;
        if (!validation && name == "loss") {
          line.add(",\"loss\":");
          number(line, value);
          continue;
        }
        line.add("{}", open ? "," : validation ? ",\"val\":{" : ",\"metrics\":{");
        line.add("\"{}\":", std::string_view(name).substr(validation ? 4 : 0));
        number(line, value);
        open = true;
      }
      if (open) line.add("}}");
    }
    line.add(",\"images_per_s\":{:.1f},\"input_share\":{:.4f},\"input_stall\":{:.4f}",
             state.images_per_second(), state.input_share(), state.input_stall());
    line.add(",\"memory_bytes\":{}}}\n", read_process_memory().resident_bytes);
    line.write(STDOUT_FILENO);
  }
  double next_ = 0;
};

// Nothing but what must not be missed.
class QuietProgress final : public Callback {
 public:
  void on_warning(TrainState&, const std::string& text) override {
    ProgressLine line;
    line.add("warning: {}\n", text);
    line.write(STDERR_FILENO);
  }
};

}  // namespace

CallbackHandle make_progress(ProgressStyle style) {
  if (style == ProgressStyle::kQuiet) return CallbackPtr(std::make_shared<QuietProgress>());
  if (style == ProgressStyle::kJson) return CallbackPtr(std::make_shared<JsonProgress>());
  return ProgbarLogger{};
}

}  // namespace surefit
