// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>

#include "surefit/image.hpp"

#include "base/cores.hpp"
#include "base/env.hpp"
#include "base/thread_pool.hpp"
#include "data/inspect.hpp"
#include "data/open.hpp"
#include "data/reader.hpp"
#include "interop/json.hpp"
#include "train/session.hpp"
#include "worker/options.hpp"
#include "worker/verbs.hpp"

namespace surefit::worker {
namespace {

constexpr const char* kExample = R"(
Example:
  surefit data fashion-mnist --contact-sheet sheet.png --augment flip
)";

struct InspectOptions {
  DataOptions data;
  std::string split = "train", contact_sheet;
  std::uint64_t seed = 0, samples = 0;
  bool explain = false, json = false;

  void add_to(CLI::App& app) {
    data.add_to(app, DataUse::kInspect);
    app.add_option("--split", split, "of sets that have two")
        ->check(CLI::IsMember({"train", "test"}))
        ->capture_default_str();
    app.add_option("--samples", samples, "look at this many only (default: all)")
        ->check(CLI::PositiveNumber);
    app.add_option("--contact-sheet", contact_sheet,
                   "PNG file for a sheet of samples after augmentation");
    app.add_option("--seed", seed, "of the sheet's choice and augmentation")->capture_default_str();
    app.add_flag("--explain", explain,
                 "feed batches as in training, and say what limits the speed and what was chosen");
    app.add_flag("--json", json, "one JSON object per line on stdout");
  }
};

std::string class_key(std::int64_t label, const std::vector<std::string>& names) {
  const bool named = label >= 0 && label < static_cast<std::int64_t>(names.size());
  return named ? names[static_cast<std::size_t>(label)] : std::to_string(label);
}

Json to_json(const data::Inspection& found, const data::OpenedData& opened) {
  Json json = {{"event", "data"},          {"source", opened.description},
               {"samples", found.samples}, {"classes", Json::object()},
               {"shapes", Json::object()}, {"mean", found.mean},
               {"std", found.deviation},   {"bad", Json::array()}};
  for (const auto& [label, count] : found.per_label)
    json["classes"][class_key(label, opened.class_names)] = count;
  for (const auto& [shape, count] : found.per_shape) json["shapes"][shape] = count;
  for (const BadSample& bad : found.bad)
    json["bad"].push_back({{"sample", bad.id}, {"path", bad.path}, {"cause", bad.cause}});
  return json;
}

bool is_paths(const Dataset& samples) {
  return !samples.element_spec().at(0).dims.fixed();
}

void write_sheet(const InspectOptions& options, const Dataset& samples, ThreadPool& pool) {
  Dataset pictures = samples;
  if (is_paths(samples))
    pictures = samples.map(transform::read_file()).map(transform::decode_image({.channels = 3}));
  // Spread over the classes, which lie one after the other in folders.
  pictures = options.data.augmented(pictures.shuffle(samples.cardinality().value_or(1)));
  const std::string png = data::contact_sheet(pictures, pool, {.seed = options.seed});
  write_file_atomically(Env::posix(), options.contact_sheet,
                        [&](WritableFile& file) { file.append(std::as_bytes(std::span(png))); });
}

// As training would take them, two epochs or 4,000 samples.
std::string explain(const InspectOptions& options, ThreadPool& pool) {
  const DataOptions& given = options.data;
  Dataset samples = options.split == "train" ? given.train_samples() : given.test_samples();
  const std::uint64_t count = std::min<std::uint64_t>(samples.cardinality().value_or(2000), 2000);
  const auto batch = static_cast<std::uint64_t>(given.batch_size);
  samples = samples.shuffle(samples.cardinality().value_or(1)).take(count).batch(batch).prefetch();
  data::BatchReader reader(
      samples, {.seed = options.seed, .threads = pool.threads(), .input = given.input()});
  std::vector<std::vector<std::byte>> memory;
  std::vector<data::Slot> slots;
  for (const ComponentSpec& component : reader.sample_spec()) {
    const DType dtype = component.dims.rank() == 0 ? DType::kInt32 : DType::kFloat32;
    memory.emplace_back(component.dims.count() * size_of(dtype) * batch);
    slots.push_back({dtype, component.dims, memory.back()});
  }
  for (int epoch = 0; epoch < 2; ++epoch) {
    while (reader.fill(slots, {}, pool) > 0) {
    }
    reader.next_epoch();
  }
  return reader.explain();
}

}  // namespace

int data_verb(const Arguments& arguments) {
  CLI::App app("Looks into a data set: classes, sizes, broken samples, brightness.",
               "surefit data");
  InspectOptions options;
  options.add_to(app);
  app.footer(kExample);
  if (const auto code = parse(app, arguments)) return *code;
  if (options.data.batch_size < 1)
    throw ConfigError(
        fmt::format("[--batch-size] expected at least 1; got {}", options.data.batch_size));
  if (!options.contact_sheet.empty()) check_writable(options.contact_sheet, "--contact-sheet");
  const data::OpenedData opened =
      options.data.open(options.data.data, options.split == "train" ? Split::kTrain : Split::kTest);
  (void)options.data.augmented(opened.dataset);  // a slip in --augment is told before the long work
  ThreadPool pool(options.data.threads > 0 ? options.data.threads : default_threads());
  const data::Inspection found =
      data::inspect(opened.dataset, pool,
                    {.max_samples = options.samples > 0 ? options.samples : ~std::uint64_t{0}});
  if (!options.contact_sheet.empty()) write_sheet(options, opened.dataset, pool);
  const std::string explanation = options.explain ? explain(options, pool) : "";
  if (options.json) {
    Json json = to_json(found, opened);
    if (options.explain) json["explain"] = explanation;
    fmt::print("{}\n", dump_json(json));
    return 0;
  }
  fmt::print("source:   {}\n{}", opened.description, found.text(opened.class_names));
  if (!explanation.empty()) fmt::print("\n{}", explanation);
  if (!options.contact_sheet.empty()) fmt::print("wrote {}\n", options.contact_sheet);
  return 0;
}

}  // namespace surefit::worker
