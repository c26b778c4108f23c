#include "train/huggingface/model_files.h"

#include "core/error.h"
#include "core/log.h"
#include "train/huggingface/config_json.h"

namespace trireme::train {

namespace {

using core::ExitCode;
namespace fs = std::filesystem;

constexpr std::uint64_t kMaximumIndex = std::uint64_t{256} << 20;
constexpr std::size_t kMaximumShards = 4096;

/// tensor -> file, from the index.
std::map<std::string, std::string> read_weight_map(const fs::path& index) {
  const nlohmann::json json = parse_json(core::read_whole(index, kMaximumIndex), index.string());
  const bool mapped = json.is_object() && json.contains("weight_map") && json["weight_map"].is_object();
  core::require(mapped, ExitCode::bad_data, "{}: no object weight_map", index.string());
  std::map<std::string, std::string> out;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    core::require(file.is_string(), ExitCode::bad_data, "{}: weight_map of \"{}\" is {}, not a file name",
                  index.string(), core::escaped(tensor), file.type_name());
    const auto name = file.get<std::string>();
    core::require(name.find('/') == std::string::npos && name.find('\0') == std::string::npos && name != "." &&
                      name != ".." && !name.empty(),
                  ExitCode::bad_data, "{}: weight_map of \"{}\" is \"{}\", not a bare file name", index.string(),
                  core::escaped(tensor), core::escaped(name));
    out[tensor] = name;
  }
  return out;
}

}  // namespace

ModelFiles::ModelFiles(const fs::path& directory) {
  const fs::path single = directory / "model.safetensors";
  const fs::path index = directory / "model.safetensors.index.json";
  if (fs::exists(single)) {
    files_.emplace_back(single);
    add(files_.back());
    return;
  }
  if (fs::exists(index)) {
    open_shards(index);
    return;
  }
  for (const char* pickled : {"pytorch_model.bin", "pytorch_model.bin.index.json"})
    core::require(!fs::exists(directory / pickled), ExitCode::bad_data,
                  "{}: pickled weights are not read; convert to safetensors", (directory / pickled).string());
  core::fail(ExitCode::bad_data, "{}: no model.safetensors or model.safetensors.index.json", directory.string());
}

void ModelFiles::open_shards(const fs::path& index) {
  const auto weight_map = read_weight_map(index);
  std::map<std::string, std::size_t> numbers;
  for (const auto& [tensor, file] : weight_map) numbers.emplace(file, 0);
  core::require(numbers.size() <= kMaximumShards, ExitCode::bad_data, "{}: {} files, at most {}", index.string(),
                numbers.size(), kMaximumShards);
  files_.reserve(numbers.size());
  for (auto& [file, number] : numbers) {
    number = files_.size();
    files_.emplace_back(index.parent_path() / file);
    for (const SafeTensor& tensor : files_.back().tensors())
      core::require(weight_map.contains(tensor.name), ExitCode::bad_data, "{}: tensor \"{}\" is not in {}",
                    files_.back().path(), core::escaped(tensor.name), index.filename().string());
    add(files_.back());
  }
  for (const auto& [tensor, file] : weight_map) {
    const Place place = find(tensor);
    core::require(place && place.file == &files_[numbers[file]], ExitCode::bad_data,
                  "{}: tensor \"{}\" is not in {}, as weight_map says", index.string(), core::escaped(tensor),
                  core::escaped(file));
  }
}

void ModelFiles::add(const SafetensorsFile& file) {
  for (const SafeTensor& tensor : file.tensors()) {
    const auto [known, added] = tensors_.emplace(tensor.name, Place{&file, &tensor});
    core::require(added, ExitCode::bad_data, "{}: tensor \"{}\" is in {} too", file.path(), core::escaped(tensor.name),
                  known->second.file->path());
  }
}

ModelFiles::Place ModelFiles::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? Place{} : found->second;
}

}  // namespace trireme::train
