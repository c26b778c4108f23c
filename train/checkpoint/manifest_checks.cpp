#include "train/checkpoint/manifest_checks.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/log.h"
#include "model/parameter.h"
#include "train/checkpoint/names.h"
#include "train/checkpoint/tiling.h"
#include "train/model_json.h"

namespace trireme::train {

using core::ExitCode;

namespace {

constexpr double kLargestModel = 1e17;  // elements: no sum over a table overflows

struct Place {
  std::uint64_t begin, end;
  const StoredTensor* tensor;
};

/// Sizes of shards 0, 1, ...
std::vector<std::uint64_t> shard_sizes(const Manifest& manifest, const std::string& where) {
  std::map<std::int64_t, std::uint64_t> sizes;
  for (const StoredFile& file : manifest.files) {
    const auto shard = shard_of(file.name);
    core::require(shard || !file.name.starts_with("shard-"), ExitCode::no_checkpoint,
                  "{}: file name {} is not shard-00000.h5, ...", where, file.name);
    if (shard) sizes[*shard] = file.bytes;
  }
  std::vector<std::uint64_t> out;
  for (const auto& [shard, bytes] : sizes) {
    core::require(shard == static_cast<std::int64_t>(out.size()), ExitCode::no_checkpoint, "{}: {} is missing", where,
                  shard_name(static_cast<std::int64_t>(out.size())));
    out.push_back(bytes);
  }
  return out;
}

std::string title(const StoredTensor& tensor) { return fmt::format("tensor {} {}", tensor.name, tensor.state); }

/// An upper bound, in floating point: the keys may be anything.
double elements_bound(const model::ModelConfig& c) {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const double attention = 2 * (real(c.heads) + real(c.kv_heads)) * real(c.head_dim) * (real(c.hidden) + 1);
  const double mlp = 3 * (real(c.ffn_hidden) + 1) * (real(c.hidden) + 1);
  const double block = attention + mlp + 6 * real(c.hidden) + 2 * real(c.head_dim);
  return (2 * real(c.vocab_size) + real(c.sequence_length) + 2) * real(c.hidden) + real(c.layers) * block;
}

model::ModelConfig parse_model(const Manifest& manifest, const std::string& where) {
  model::ModelConfig config;
  try {
    config = model_from_json(manifest.meta.model, where + ": model");
  } catch (const core::Error& error) {
    core::fail(ExitCode::no_checkpoint, "{}", error.what());
  }
  core::require(config.layers <= static_cast<std::int64_t>(manifest.tensors.size()), ExitCode::no_checkpoint,
                "{}: {} tensors for a model of {} layers", where, manifest.tensors.size(), config.layers);
  core::require(elements_bound(config) < kLargestModel, ExitCode::no_checkpoint, "{}: the model is too large", where);
  return config;
}

using Names = std::map<std::string, const model::Parameter*, std::less<>>;

void check_tensor(const StoredTensor& tensor, const Names& names, const Manifest& manifest, const std::string& where) {
  const auto found = names.find(tensor.name);
  core::require(found != names.end() && found->second->tied_to.empty(), ExitCode::no_checkpoint,
                "{}: {}: the model has no such parameter", where, title(tensor));
  const bool moment = tensor.state == "adam_m" || tensor.state == "adam_v";
  core::require(moment || tensor.state == "master" || tensor.state == "weight", ExitCode::no_checkpoint,
                "{}: {}: such a state is unknown", where, title(tensor));
  core::require(!moment || manifest.meta.kind == "full", ExitCode::no_checkpoint, "{}: {}: moments in kind weights",
                where, title(tensor));
  core::require(tensor.state != "master" || tensor.dtype != core::DType::bf16, ExitCode::no_checkpoint,
                "{}: {}: masters are f32 or f64, not bf16", where, title(tensor));
  const core::Shape& shape = found->second->shape;
  bool equal = static_cast<int>(tensor.shape.size()) == shape.rank();
  for (int axis = 0; equal && axis < shape.rank(); ++axis)
    equal = tensor.shape[static_cast<std::size_t>(axis)] == shape[axis];
  core::require(equal, ExitCode::no_checkpoint, "{}: {}: shape [{}], the model's is {}", where, title(tensor),
                fmt::join(tensor.shape, ", "), shape.text());
}

void check_ties(const Names& names, const Manifest& manifest, const std::string& where) {
  std::set<std::string> tied;
  for (const TiedAlias& tie : manifest.ties) {
    const auto found = names.find(tie.name);
    core::require(found != names.end() && !tie.tied_to.empty() && found->second->tied_to == tie.tied_to &&
                      tied.insert(tie.name).second,
                  ExitCode::no_checkpoint, "{}: {} is tied to {}, not so in the model", where, core::escaped(tie.name),
                  core::escaped(tie.tied_to));
  }
  for (const auto& [name, parameter] : names)
    core::require(parameter->tied_to.empty() || tied.contains(name), ExitCode::no_checkpoint,
                  "{}: tensor {} is missing: the model ties it to {}", where, name, parameter->tied_to);
}

}  // namespace

void check_places(const Manifest& manifest, const std::string& where) {
  const std::vector<std::uint64_t> sizes = shard_sizes(manifest, where);
  std::vector<std::vector<Place>> places(sizes.size());
  for (const StoredTensor& tensor : manifest.tensors)
    for (const StoredChunk& chunk : tensor.chunks) {
      core::require(chunk.shard < static_cast<std::int64_t>(sizes.size()), ExitCode::no_checkpoint,
                    "{}: {}: a chunk in {}, which is not in the list of files", where, title(tensor),
                    shard_name(chunk.shard));
      const auto shard = static_cast<std::size_t>(chunk.shard);
      const auto bytes =
          static_cast<std::uint64_t>(checked_elements(chunk.extent, where)) * core::size_of(tensor.dtype);
      core::require(chunk.at <= sizes[shard] && bytes <= sizes[shard] - chunk.at, ExitCode::no_checkpoint,
                    "{}: {}: a chunk reaches beyond the end of {}", where, title(tensor), shard_name(chunk.shard));
      places[shard].push_back({chunk.at, chunk.at + bytes, &tensor});
    }
  for (auto& of_shard : places) {
    std::sort(of_shard.begin(), of_shard.end(), [](const Place& a, const Place& b) { return a.begin < b.begin; });
    for (std::size_t i = 1; i < of_shard.size(); ++i)
      core::require(of_shard[i - 1].end <= of_shard[i].begin, ExitCode::no_checkpoint, "{}: {} and {} share bytes",
                    where, title(*of_shard[i - 1].tensor), title(*of_shard[i].tensor));
  }
}

void check_model_tensors(const Manifest& manifest, const std::string& where) {
  const model::ParameterTable table(parse_model(manifest, where));
  Names names;
  for (const model::Parameter& parameter : table.parameters()) names[parameter.name] = &parameter;
  std::set<std::pair<std::string, std::string>> present;
  for (const StoredTensor& tensor : manifest.tensors) {
    check_tensor(tensor, names, manifest, where);
    core::require(present.insert({tensor.name, tensor.state}).second, ExitCode::no_checkpoint, "{}: {} twice", where,
                  title(tensor));
  }
  std::vector<std::string> states{"master"};
  if (manifest.meta.kind == "full") states.insert(states.end(), {"adam_m", "adam_v"});
  for (const auto& [name, parameter] : names)
    for (const std::string& state : states)
      core::require(!parameter->tied_to.empty() || present.contains({name, state}), ExitCode::no_checkpoint,
                    "{}: tensor {} {} is missing", where, name, state);
  check_ties(names, manifest, where);
}

}  // namespace trireme::train
