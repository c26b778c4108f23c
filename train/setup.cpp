#include "train/setup.h"

#include <algorithm>
#include <thread>

#include "core/file.h"
#include "core/log.h"
#include "core/parallel_for.h"
#include "model/ops/adamw.h"
#include "train/checkpoint/store.h"
#include "train/huggingface/directory.h"
#include "train/model_json.h"

namespace trireme::train {

namespace fs = std::filesystem;
using core::ExitCode;

namespace {

constexpr std::uint64_t kLargestSideFile = std::uint64_t{1} << 30;

/// Files that a tokenizer consists of, beside its main file.
constexpr std::string_view kTokenizerFiles[] = {
    "tokenizer.json",        "vocab.json", "merges.txt", "tokenizer_config.json", "special_tokens_map.json",
    "generation_config.json"};

std::optional<data::Tokenizer> tokenizer_among(const std::vector<SideFile>& files, const std::string& source) {
  for (const SideFile& file : files)
    if (file.name == "tokenizer.json") return data::Tokenizer::parse(file.content, source + "/tokenizer.json");
  return {};
}

}  // namespace

core::DType choose_precision(const std::string& compute) {
  if (compute == "bf16") return core::DType::bf16;
  if (compute == "fp32") return core::DType::f32;
  if (compute == "fp64") return core::DType::f64;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bf16")) return core::DType::bf16;
#endif
  return core::DType::f32;
}

int choose_threads(std::int64_t threads) {
  const auto cores = static_cast<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  if (threads > cores) core::warning(fmt::format("device.threads = {}: this machine has {} cores", threads, cores));
  core::set_thread_count(static_cast<int>(threads > 0 ? threads : cores));
  return core::thread_count();
}

model::RecomputePlan recompute_plan(const parallel::ParallelConfig& config) {
  using model::Recompute;
  const Recompute mode = config.recompute == "full"        ? Recompute::full
                         : config.recompute == "selective" ? Recompute::selective
                                                           : Recompute::none;
  return {mode, config.recompute_layers};
}

LoadedModel load_model(const fs::path& path, core::DType compute) {
  LoadedModel out;
  if (is_hf_directory(path)) {
    out.config = std::make_unique<model::ModelConfig>(read_hf_config(path));
    out.state = std::make_unique<ModelState>(*out.config, compute, false);
    read_hf_weights(path, *out.config, out.state->table(), out.state->master());
    out.side_files = read_hf_side_files(path);
    out.source = path.string();
  } else {
    const CheckpointReader reader = open_checkpoint(path);
    out.source = reader.directory().string();
    out.config = std::make_unique<model::ModelConfig>(model_from_json(reader.manifest().meta.model, out.source));
    out.state = std::make_unique<ModelState>(*out.config, compute, false);
    auto chunks = out.state->chunks(false);
    reader.read(chunks);
    out.side_files = reader.side_files();
    out.step = reader.manifest().meta.step;
  }
  out.state->round_weights();
  out.tokenizer = tokenizer_among(out.side_files, out.source);
  return out;
}

model::ModelConfig initial_shape(const fs::path& path) {
  if (is_hf_directory(path)) return read_hf_config(path);
  const CheckpointReader reader = open_checkpoint(path);
  return model_from_json(reader.manifest().meta.model, reader.directory().string());
}

void read_initial_weights(const fs::path& path, const model::ModelConfig& config, ModelState& state) {
  if (is_hf_directory(path)) return read_hf_weights(path, config, state.table(), state.master());
  auto chunks = state.chunks(false);
  open_checkpoint(path).read(chunks);
}

std::vector<SideFile> collect_side_files(const Config& config) {
  std::vector<SideFile> out;
  if (!config.model.initial_weights.empty())
    out = is_hf_directory(config.model.initial_weights) ? read_hf_side_files(config.model.initial_weights)
                                                        : open_checkpoint(config.model.initial_weights).side_files();
  if (config.data.tokenizer.empty()) return out;
  // The configured tokenizer replaces one that came with the weights.
  std::erase_if(out, [](const SideFile& file) {
    return std::find(std::begin(kTokenizerFiles), std::end(kTokenizerFiles), file.name) != std::end(kTokenizerFiles);
  });
  const fs::path path = config.data.tokenizer;
  if (!fs::is_directory(path)) {
    out.push_back({"tokenizer.json", core::read_whole(path, kLargestSideFile)});
    return out;
  }
  for (const std::string_view name : kTokenizerFiles)
    if (fs::exists(path / name)) out.push_back({std::string(name), core::read_whole(path / name, kLargestSideFile)});
  return out;
}

}  // namespace trireme::train
