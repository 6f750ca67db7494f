// SPDX-License-Identifier: Apache-2.0
#include "data/state.hpp"

#include <algorithm>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <xxhash.h>

#include "surefit/error.hpp"

#include "base/check.hpp"
#include "data/node.hpp"

namespace surefit::data {
namespace {

constexpr int kFormat = 1;
constexpr std::size_t kMaxText = 1200;   // of the pipeline's description
constexpr std::size_t kMaxName = 100;    // of a source
constexpr std::size_t kMaxSources = 12;  // more are folded into the last one

std::string shorten(const std::string& text, std::size_t limit) {
  return text.size() <= limit ? text : text.substr(0, limit - 3) + "...";
}

void collect_sources(const Node& node, std::vector<State::Source>& sources) {
  for (const auto& input : node.inputs()) collect_sources(*input, sources);
  if (!node.inputs().empty()) return;
  State::Source source{shorten(node.describe(), kMaxName), node.fingerprint()};
  if (sources.size() < kMaxSources) {
    sources.push_back(std::move(source));
    return;
  }
  State::Source& last = sources.back();
  last.name = "several more sources";
  last.fingerprint =
      XXH3_64bits_withSeed(&source.fingerprint, sizeof source.fingerprint, last.fingerprint);
}

std::uint64_t number(const nlohmann::json& json, const char* key) {
  const auto& value = json.at(key);
  if (!value.is_number_unsigned())
    throw DataError(fmt::format("[data state] {} is not a count", key));
  return value.get<std::uint64_t>();
}

}  // namespace

std::string State::serialise() const {
  nlohmann::json list = nlohmann::json::array();
  for (const Source& source : sources) list.push_back({source.name, source.fingerprint});
  const nlohmann::json json = {{"format", kFormat},    {"epoch", epoch},
                               {"position", position}, {"seed", seed},
                               {"pipeline", pipeline}, {"pipeline_hash", pipeline_hash},
                               {"sources", list}};
  // File names need not be UTF-8.
  std::string text = json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  SUREFIT_CHECK(text.size() <= kMaxBytes, "pipeline state of {} bytes", text.size());
  return text;
}

State State::parse(std::string_view text) {
  if (text.size() > kMaxBytes) {
    throw DataError(fmt::format("[data state] too long; expected at most {} bytes; got {}",
                                kMaxBytes, text.size()));
  }
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    if (number(json, "format") != kFormat) {
      throw DataError(fmt::format("[data state] unknown format; expected {}; got {}", kFormat,
                                  number(json, "format")));
    }
    State state;
    state.epoch = number(json, "epoch");
    state.position = number(json, "position");
    state.seed = number(json, "seed");
    state.pipeline = json.at("pipeline").get<std::string>();
    state.pipeline_hash = number(json, "pipeline_hash");
    for (const auto& source : json.at("sources")) {
      state.sources.push_back({source.at(0).get<std::string>(), source.at(1).get<std::uint64_t>()});
    }
    return state;
  } catch (const nlohmann::json::exception& error) {
    throw DataError(fmt::format("[data state] not a pipeline state: {}", error.what()));
  }
}

State describe_state(const Node& node) {
  State state;
  const std::string pipeline = describe_pipeline(node, Describe::kOnlyMeaning);
  state.pipeline_hash = XXH3_64bits(pipeline.data(), pipeline.size());
  state.pipeline = shorten(pipeline, kMaxText);
  collect_sources(node, state.sources);
  return state;
}

void check_resumable(const State& then, const State& now) {
  if (then.sources.size() == now.sources.size()) {
    for (std::size_t i = 0; i < now.sources.size(); ++i) {
      if (then.sources[i] == now.sources[i]) continue;
      throw DataError(fmt::format(
          "[data] source {} of {} changed since the checkpoint; expected {} (fingerprint {:016x}); "
          "got {} (fingerprint {:016x}); restore the data, or start a new run",
          i + 1, now.sources.size(), then.sources[i].name, then.sources[i].fingerprint,
          now.sources[i].name, now.sources[i].fingerprint));
    }
  }
  if (then.pipeline_hash != now.pipeline_hash) {
    throw ConfigError(
        fmt::format("[data] the pipeline differs from the checkpoint's; expected {}; got {}; use "
                    "the same verbs, "
                    "or start a new run",
                    then.pipeline, now.pipeline));
  }
}

}  // namespace surefit::data
