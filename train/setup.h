#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.h"
#include "model/gpt.h"
#include "train/checkpoint/checkpoint.h"
#include "train/config.h"
#include "train/model_state.h"

namespace trireme::train {

/// precision.compute resolved: auto is bf16 where this processor multiplies it natively, else fp32.
core::DType choose_precision(const std::string& compute);

/// Sets the number of threads; returns it.
int choose_threads(std::int64_t threads);

/// parallel.recompute and recompute_layers.
model::RecomputePlan recompute_plan(const parallel::ParallelConfig& config);

/// Weights that a checkpoint or Hugging Face directory holds, ready for inference.
struct LoadedModel {
  std::unique_ptr<model::ModelConfig> config;
  std::unique_ptr<ModelState> state;
  std::vector<SideFile> side_files;
  std::optional<data::Tokenizer> tokenizer;  ///< if one travels with the weights
  std::int64_t step = 0;
  std::string source;  ///< directory the weights came from
};
LoadedModel load_model(const std::filesystem::path& path, core::DType compute);

/// Shape of the model behind `path` (checkpoint or Hugging Face directory), without its weights.
model::ModelConfig initial_shape(const std::filesystem::path& path);

/// Fills the masters from `path`; shapes must agree.
void read_initial_weights(const std::filesystem::path& path, const model::ModelConfig& config, ModelState& state);

/// Files to save beside the weights: the tokenizer's, and what came along with the initial weights.
std::vector<SideFile> collect_side_files(const Config& config);

}  // namespace trireme::train
