// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fmt/format.h>

#include "base/units.hpp"
#include "ckpt/generations.hpp"
#include "interop/json.hpp"
#include "worker/options.hpp"
#include "worker/verbs.hpp"

namespace surefit::worker {
namespace {

Json describe_tensors(const SafetensorsFile& file) {
  Json list = Json::array();
  for (const std::string& name : file.names()) {
    if (name == kRecordTensor) continue;
    const SafetensorsEntry& entry = file.entry(name);
    list.push_back({{"name", name},
                    {"dtype", name_of(entry.dtype)},
                    {"shape", entry.shape.to_string()},
                    {"bytes", entry.bytes}});
  }
  return list;
}

// What a file holds. Throws DataError when it is damaged.
Json describe_file(const std::string& path) {
  Env& env = Env::posix();
  const SafetensorsFile file = SafetensorsFile::open(env, path);
  Json json = {{"event", "file"}, {"path", path}, {"tensors", describe_tensors(file)}};
  if (!file.contains(kRecordTensor)) {
    json["kind"] = "weights";
    return json;
  }
  const CheckpointFile checkpoint = CheckpointFile::open(env, path);
  json["kind"] = "checkpoint";
  json["step"] = checkpoint.step();
  json["bytes"] = checkpoint.bytes();
  json["state"] = parse_json(checkpoint.state(), path);
  return json;
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : dump_json(value);
}

void print_state(const Json& state, const JsonWhere& where) {
  fmt::print("  epoch {}, {} batches of it done; learning rate {}{}\n",
             get_int(state, "epoch", where) + 1, get_int(state, "position", where),
             text_of(get_field(state, "learning_rate", where)),
             get_bool(state, "finished", where) ? "; training was finished" : "");
  const Json& history = get_object(state, "history", where);
  const Json& epochs = get_array(history, "epochs", where);
  if (!epochs.empty()) {
    fmt::print("  epoch {}:", epochs.size());
    const Json& names = get_array(history, "names", where);
    for (std::size_t i = 0; i < names.size() && i < epochs.back().size(); ++i) {
      fmt::print(" {} {}", text_of(names[i]), text_of(epochs.back()[i]));
    }
    fmt::print("\n");
  }
  for (const Json& callback : get_array(state, "callbacks", where)) {
    fmt::print("  {} {}\n", text_of(get_field(callback, "name", where)),
               dump_json(get_field(callback, "state", where)));
  }
  for (const auto& [key, value] : get_object(state, "identity", where).items()) {
    if (!key.starts_with("layer ") && key != "connections")
      fmt::print("  {:<16} {}\n", key, text_of(value));
  }
  const Json& data = get_object(state, "data", where);
  if (data.contains("pipeline")) fmt::print("  {:<16} {}\n", "data", text_of(data["pipeline"]));
}

int inspect_file(const std::string& path, bool json) {
  const Json file = describe_file(path);
  if (json) {
    fmt::print("{}\n", dump_json(file));
    return 0;
  }
  if (file["kind"] == "checkpoint") {
    fmt::print("{}: checkpoint of step {}, {}, every hash is right\n", path,
               file["step"].get<std::uint64_t>(), format_bytes(file["bytes"].get<std::uint64_t>()));
    print_state(file["state"], path);
  } else {
    fmt::print("{}: {} tensors, no checkpoint record\n", path, file["tensors"].size());
  }
  for (const Json& tensor : file["tensors"]) {
    fmt::print("  {:<48} {:<8} {}\n", text_of(tensor["name"]), text_of(tensor["dtype"]),
               text_of(tensor["shape"]));
  }
  return 0;
}

// Every generation of a run, verified. Exit code 3 when one is damaged.
int inspect_run(const std::string& path, bool json) {
  namespace fs = std::filesystem;
  const std::string directory =
      fs::is_directory(path + "/checkpoints") ? path + "/checkpoints" : path;
  int count = 0, damaged = 0;
  for (const std::string& name : Env::posix().list(directory)) {
    if (!generation_step(name)) continue;
    ++count;
    std::string verdict = "every hash is right";
    try {
      CheckpointFile::open(Env::posix(), directory + "/" + name);
    } catch (const DataError& error) {
      verdict = error.what();
      ++damaged;
    }
    json ? fmt::print("{}\n", dump_json({{"event", "file"},
                                         {"path", directory + "/" + name},
                                         {"verdict", verdict}}))
         : fmt::print("{}/{}: {}\n", directory, name, verdict);
  }
  if (count == 0)
    throw DataError(
        fmt::format("[{}] no checkpoints; expected step-NNNNNNNN.safetensors", directory),
        directory);
  return damaged == 0 ? 0 : static_cast<int>(ExitCode::kData);
}

}  // namespace

int inspect_verb(const Arguments& arguments) {
  CLI::App app(
      "Tells what a checkpoint or weights file holds and verifies it; of a run, all its "
      "checkpoints.",
      "surefit inspect");
  std::string path;
  bool json = false;
  app.add_option("file", path, "safetensors file, or directory of a run")->required();
  app.add_flag("--json", json, "one JSON object per line on stdout");
  app.footer("\nExample:\n  surefit inspect runs/seed_cnn-20260131-235959\n");
  if (const auto code = parse(app, arguments)) return *code;
  return std::filesystem::is_directory(path) ? inspect_run(path, json) : inspect_file(path, json);
}

}  // namespace surefit::worker
