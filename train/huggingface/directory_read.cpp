#include <array>
#include <set>

#include "core/error.h"
#include "core/log.h"
#include "train/huggingface/config_json.h"
#include "train/huggingface/directory.h"
#include "train/huggingface/side_files.h"
#include "train/huggingface/stored_elements.h"
#include "train/huggingface/weight_transfer.h"

namespace trireme::train {

namespace {

using core::ExitCode;
namespace fs = std::filesystem;

constexpr std::uint64_t kMaximumConfig = std::uint64_t{16} << 20;

/// One tensor of the model and where the directory keeps it.
struct Found {
  HfTensor tensor;
  ModelFiles::Place place;
};

/// Finds a place for each tensor of the model, and a tensor of the model for each place.
class Matching {
 public:
  Matching(const fs::path& directory, const ModelFiles& files, const model::ModelConfig& config)
      : directory_(directory), files_(files), config_(config), kind_(hf_kind(config)) {}

  std::vector<Found> match(const model::ParameterTable& table) {
    std::vector<Found> found;
    for (HfTensor& tensor : hf_tensors(kind_, table)) {
      const ModelFiles::Place place =
          tensor.parts.front()->name == "token_embedding.weight" ? embedding(tensor) : claim(tensor.name);
      core::require(static_cast<bool>(place), ExitCode::bad_data, "{}: tensor \"{}\" [{}] is missing{}",
                    directory_.string(), tensor.name, fmt::join(tensor.stored_shape(), ", "),
                    tensor.name == kHeadName ? ", and tied_embeddings is false" : "");
      check(tensor, place);
      found.push_back({std::move(tensor), place});
    }
    for (const auto& [name, place] : files_.tensors())
      core::require(claimed_.contains(name) || ignored_on_reading(name), ExitCode::bad_data,
                    "{}: tensor \"{}\" {} is none of this {} model's", place.file->path(), core::escaped(name),
                    place.tensor->shape_text(), name_of(kind_));
    return found;
  }

 private:
  ModelFiles::Place claim(const std::string& name) {
    ModelFiles::Place place = files_.find(name);
    std::string used = name;
    if (!place && name.starts_with(kGpt2Prefix)) place = files_.find(used = name.substr(kGpt2Prefix.size()));
    if (place) claimed_.insert(used);
    return place;
  }

  /// A tied matrix may be stored as embedding, as head, or as both when they are equal.
  ModelFiles::Place embedding(const HfTensor& tensor) {
    const ModelFiles::Place place = claim(tensor.name);
    if (!config_.tied_embeddings) return place;
    const ModelFiles::Place head = claim(std::string(kHeadName));
    if (!place || !head) return place ? place : head;
    core::require(equal_bits(place, head), ExitCode::bad_data,
                  "{}: \"{}\" {} {} and \"{}\" {} {} differ, but tied_embeddings is true", directory_.string(),
                  tensor.name, place.tensor->shape_text(), place.tensor->dtype, kHeadName, head.tensor->shape_text(),
                  head.tensor->dtype);
    return place;
  }

  void check(const HfTensor& tensor, const ModelFiles::Place& place) const {
    const std::string where = fmt::format("{}: tensor \"{}\"", place.file->path(), core::escaped(place.tensor->name));
    core::require(holds_weights(place.tensor->dtype), ExitCode::bad_data, "{} is {}, weights are F64, F32, BF16 or F16",
                  where, place.tensor->dtype);
    const std::vector<std::uint64_t> expected = tensor.stored_shape();
    const std::vector<std::uint64_t>& shape = place.tensor->shape;
    if (tensor.parts.front()->name == "position_embedding.weight" && shape.size() == 2 && shape[1] == expected[1]) {
      core::require(shape[0] >= expected[0], ExitCode::bad_data, "{} {} is shorter than model.sequence_length = {}",
                    where, place.tensor->shape_text(), expected[0]);
      if (shape[0] > expected[0])
        core::info(fmt::format("{} {} is used up to model.sequence_length = {}", where, place.tensor->shape_text(),
                               expected[0]));
      return;
    }
    core::require(shape == expected, ExitCode::bad_data, "{} is {}, the model needs [{}]", where,
                  place.tensor->shape_text(), fmt::join(expected, ", "));
  }

  const fs::path& directory_;
  const ModelFiles& files_;
  const model::ModelConfig& config_;
  HfKind kind_;
  std::set<std::string> claimed_;
};

}  // namespace

bool is_hf_directory(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path / "config.json", error) && !fs::exists(path / "MANIFEST.json", error);
}

model::ModelConfig read_hf_config(const fs::path& directory) {
  const fs::path path = directory / "config.json";
  return config_from_hf(parse_json(core::read_whole(path, kMaximumConfig), path.string()), path.string());
}

void read_hf_weights(const fs::path& directory, const model::ModelConfig& config, const model::ParameterTable& table,
                     const core::Tensor& flat, const HfProgress& progress) {
  core::check(flat.elements() >= table.flat_elements(), "{} elements for weights of {}", flat.elements(),
              table.flat_elements());
  const ModelFiles files(directory);
  Matching matching(directory, files, config);
  const std::vector<Found> found = matching.match(table);
  const auto bytes_of = [](const Found& one) { return one.place.tensor->end - one.place.tensor->begin; };
  std::uint64_t total = 0;
  std::size_t doubles = 0;
  for (const Found& one : found) {
    total += bytes_of(one);
    doubles += one.place.tensor->dtype == "F64";
  }
  if (doubles > 0 && flat.dtype == core::DType::f32)
    core::info(fmt::format("{}: {} tensors are F64 and are rounded to fp32", directory.string(), doubles));
  std::uint64_t done = 0;
  for (const Found& one : found) {
    load_tensor(one.place, one.tensor, flat);
    if (progress) progress(done += bytes_of(one), total);
  }
}

std::vector<SideFile> read_hf_side_files(const fs::path& directory) {
  std::vector<SideFile> out;
  for (const char* name : kSideFileNames) {
    const fs::path path = directory / name;
    if (fs::exists(path)) out.push_back({name, core::read_whole(path, kMaximumSideFile)});
  }
  check_tokenizer_size(out, read_hf_config(directory).vocab_size, directory);
  return out;
}

}  // namespace trireme::train
