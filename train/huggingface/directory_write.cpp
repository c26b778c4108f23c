#include <unistd.h>

#include <map>

#include "core/error.h"
#include "core/log.h"
#include "train/huggingface/config_json.h"
#include "train/huggingface/directory.h"
#include "train/huggingface/stored_elements.h"
#include "train/huggingface/weight_transfer.h"

namespace trireme::train {

namespace {

using core::ExitCode;
namespace fs = std::filesystem;

constexpr std::string_view kIndexName = "model.safetensors.index.json";

bool is_weight_file(std::string_view name) {
  return name == kIndexName || name == "model.safetensors" ||
         (name.starts_with("model-") && name.ends_with(".safetensors"));
}

/// A directory that is removed with its content unless it was renamed away.
class Staging {
 public:
  explicit Staging(const fs::path& target) {
    fs::path plain = target;
    if (!plain.has_filename()) plain = plain.parent_path();
    path_ = fs::exists(plain)
                ? plain / fmt::format(".export-{}", ::getpid())
                : plain.parent_path() / fmt::format(".{}.export-{}", plain.filename().string(), ::getpid());
    std::error_code error;
    fs::create_directories(path_, error);
    core::require(!error, ExitCode::run_directory, "{}: cannot be made: {}", path_.string(), error.message());
  }
  ~Staging() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// Tensors in order, as many a shard as fit; a tensor larger than a shard has one of its own.
std::vector<std::vector<SafeTensor>> cut_into_shards(const std::vector<HfTensor>& tensors, std::string_view dtype,
                                                     std::uint64_t shard_size) {
  std::vector<std::vector<SafeTensor>> shards(1);
  std::uint64_t used = 0;
  for (const HfTensor& tensor : tensors) {
    const auto elements = static_cast<std::uint64_t>(tensor.rows() * tensor.columns());
    const std::uint64_t bytes = elements * static_cast<std::uint64_t>(stored_bits(dtype)) / 8;
    if (!shards.back().empty() && (used > shard_size || bytes > shard_size - used)) {
      shards.emplace_back();
      used = 0;
    }
    shards.back().push_back({.name = tensor.name, .dtype = std::string(dtype), .shape = tensor.stored_shape()});
    used += bytes;
  }
  return shards;
}

std::uint64_t bytes_of(const std::vector<HfTensor>& tensors, std::string_view dtype) {
  std::uint64_t total = 0;
  for (const HfTensor& tensor : tensors)
    total += static_cast<std::uint64_t>(tensor.rows() * tensor.columns() * stored_bits(dtype) / 8);
  return total;
}

/// Writes the shards and their index into `directory`; the names in the order in which they become visible.
std::vector<std::string> write_weights(const fs::path& directory, const std::vector<HfTensor>& tensors,
                                       const core::Tensor& flat, const HfWriteOptions& options) {
  const std::string dtype = options.dtype == "bf16" ? "BF16" : "F32";
  std::map<std::string_view, const HfTensor*> by_name;
  for (const HfTensor& tensor : tensors) by_name[tensor.name] = &tensor;
  const std::uint64_t total = bytes_of(tensors, dtype);
  std::uint64_t done = 0;
  const WriteContent content = [&](const SafeTensor& stored, core::WriteFile& file) {
    store_tensor(*by_name.at(stored.name), flat, stored.dtype, file);
    if (options.progress) options.progress(done += stored.end - stored.begin, total);
  };
  const auto shards = cut_into_shards(tensors, dtype, options.shard_size);
  std::vector<std::string> names;
  nlohmann::ordered_json weight_map = nlohmann::ordered_json::object();
  for (std::size_t k = 0; k < shards.size(); ++k) {
    names.push_back(shards.size() == 1 ? "model.safetensors"
                                       : fmt::format("model-{:05}-of-{:05}.safetensors", k + 1, shards.size()));
    write_safetensors(directory / names.back(), shards[k], content, false);
    for (const SafeTensor& tensor : shards[k]) weight_map[tensor.name] = names.back();
  }
  if (shards.size() == 1) return names;
  const nlohmann::ordered_json index{{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
  core::write_whole(directory / kIndexName, index.dump(2) + "\n", false);
  names.emplace_back(kIndexName);
  return names;
}

/// config.json and the other side files; their names.
std::vector<std::string> write_side_files(const fs::path& directory, const std::string& config,
                                          const std::vector<SideFile>& side_files) {
  std::vector<std::string> names{"config.json"};
  core::write_whole(directory / "config.json", config, false);
  for (const SideFile& file : side_files) {
    if (file.name == "config.json") continue;
    core::require(
        fs::path(file.name).filename() == file.name && !file.name.starts_with('.') && !is_weight_file(file.name),
        ExitCode::bad_data, "side file \"{}\" has no name that can be written", core::escaped(file.name));
    core::write_whole(directory / file.name, file.content, false);
    names.push_back(file.name);
  }
  return names;
}

/// Refuses to touch an existing directory that has one of the files to come, or weights of any kind.
void require_free(const fs::path& directory, const std::vector<SideFile>& side_files) {
  const auto refuse = [](const fs::path& path) {
    core::fail(ExitCode::run_directory, "{}: exists already (--force replaces it)", path.string());
  };
  if (!fs::exists(directory)) return;
  if (fs::exists(directory / "config.json")) refuse(directory / "config.json");
  for (const SideFile& file : side_files)
    if (fs::exists(directory / file.name)) refuse(directory / file.name);
  for (const auto& entry : fs::directory_iterator(directory))
    if (is_weight_file(entry.path().filename().string())) refuse(entry.path());
}

/// Old weights go first, so that a directory never holds a mixture that looks whole.
void replace_files(const fs::path& directory, const fs::path& from, const std::vector<std::string>& names) {
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(directory))
    if (is_weight_file(entry.path().filename().string())) old.push_back(entry.path());
  for (const fs::path& path : old) fs::remove(path);
  for (const std::string& name : names) fs::rename(from / name, directory / name);
  core::sync_directory(directory);
}

void publish(const fs::path& directory, const fs::path& staging, const std::vector<std::string>& names) {
  try {
    if (fs::exists(directory)) {
      replace_files(directory, staging, names);
    } else {
      const fs::path plain = directory.has_filename() ? directory : directory.parent_path();
      fs::rename(staging, plain);
      core::sync_directory(plain.has_parent_path() ? plain.parent_path() : fs::path("."));
    }
  } catch (const fs::filesystem_error& error) {
    core::fail(ExitCode::storage, "{}: cannot be put in place: {}", directory.string(), error.code().message());
  }
}

}  // namespace

void write_hf_directory(const fs::path& directory, const model::ModelConfig& config, const core::Tensor& flat,
                        const std::vector<SideFile>& side_files, const HfWriteOptions& options) {
  core::require(options.dtype == "fp32" || options.dtype == "bf16", ExitCode::usage,
                "--dtype: \"{}\" is not fp32 or bf16", options.dtype);
  core::require(options.shard_size > 0, ExitCode::usage, "--shard-size: must be above 0 bytes");
  std::string original;
  for (const SideFile& file : side_files)
    if (file.name == "config.json") original = file.content;
  const std::string text = config_to_hf(config, options.dtype == "bf16" ? "bfloat16" : "float32", original);
  const model::ParameterTable table(config);
  core::check(flat.elements() >= table.flat_elements(), "{} elements for weights of {}", flat.elements(),
              table.flat_elements());
  core::require(!fs::exists(directory) || fs::is_directory(directory), ExitCode::run_directory,
                "{}: exists and is no directory", directory.string());
  if (!options.overwrite) require_free(directory, side_files);

  const Staging staging(directory);
  std::vector<std::string> names = write_side_files(staging.path(), text, side_files);
  for (std::string& name : write_weights(staging.path(), hf_tensors(hf_kind(config), table), flat, options))
    names.push_back(std::move(name));
  core::sync_directory(staging.path());
  publish(directory, staging.path(), names);
}

}  // namespace trireme::train
