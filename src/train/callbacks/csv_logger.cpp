// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>

#include "surefit/callbacks.hpp"

#include "base/env.hpp"

namespace surefit {
namespace {

// The file is written anew from the history at each epoch's end: small, never half, and right after
// any crash.
class CSVLoggerImpl final : public Callback {
 public:
  explicit CSVLoggerImpl(const CSVLogger& spec) : spec_(spec) {
    if (spec.filename.empty())
      throw ConfigError("[CSVLogger.filename] expected the name of a file; got none");
  }

  std::string_view state_name() const override { return CSVLogger::kClass; }
  void visit_state(StateVisitor& visitor) override { visitor.field("before_bytes", before_bytes_); }

  void on_train_begin(TrainState&) override {
    before_ = spec_.append ? contents() : std::string();
    before_bytes_ = static_cast<std::int64_t>(before_.size());
  }
  // The file begins with what it held before, whatever was written behind it since.
  void on_resume(TrainState& state) override {
    before_ = contents().substr(0, static_cast<std::size_t>(before_bytes_));
    write(state);
  }
  void on_epoch_end(TrainState& state, const Logs&) override { write(state); }

 private:
  std::string contents() const {
    Env& env = Env::posix();
    return env.exists(spec_.filename) ? read_file(env, spec_.filename) : std::string();
  }
  void write(TrainState& state) const {
    const History& history = state.history();
    std::vector<std::size_t> order(history.names.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return history.names[a] < history.names[b]; });
    std::string text = before_;
    if (before_.empty() && !history.names.empty()) {
      text += "epoch";
      for (const std::size_t i : order) text += spec_.separator + history.names[i];
      if (!history.lossy.empty()) text += spec_.separator + "lossy";
      text += '\n';
    }
    for (std::size_t epoch = 0; epoch < history.epochs.size(); ++epoch) {
      text += fmt::format("{}", epoch);
      for (const std::size_t i : order)
        text += fmt::format("{}{}", spec_.separator, history.epochs[epoch][i]);
      // Bits that are not those of the exact training say so.
      if (!history.lossy.empty())
        text += fmt::format("{}{}", spec_.separator, fmt::join(history.lossy, " "));
      text += '\n';
    }
    try {
      write_file_atomically(Env::posix(), spec_.filename, [&](WritableFile& file) {
        file.append(std::as_bytes(std::span(text)));
      });
    } catch (const SystemError& error) {  // written whole again behind the next epoch
      state.warn(fmt::format("[CSVLogger] {}", error.what()));
    }
  }

  CSVLogger spec_;
  std::string before_;  // what the file held when training began
  std::int64_t before_bytes_ = 0;
};

}  // namespace

CallbackPtr make_callback(const CSVLogger& spec) {
  return std::make_shared<CSVLoggerImpl>(spec);
}

}  // namespace surefit
