#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "model/parameter.h"
#include "train/side_file.h"

namespace trireme::train {

/// Called with bytes of tensors done and in all.
using HfProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// Whether the path is a directory with a config.json that is no checkpoint. Never throws for a missing path.
bool is_hf_directory(const std::filesystem::path& path);

/// The model in DIR/config.json. Throws Error(bad_data).
model::ModelConfig read_hf_config(const std::filesystem::path& directory);

/// Fills every parameter of `table` (made from `config`) in `flat` (fp32 or fp64, the table's layout) from the weights
/// of the directory; alignment gaps stay as they are. Names, shapes and dtypes are all checked before anything is read.
/// A position table longer than model.sequence_length is used from its start, which a log line says.
/// Throws Error(bad_data), or Error(usage) when the model is of none of the three kinds.
void read_hf_weights(const std::filesystem::path& directory, const model::ModelConfig& config,
                     const model::ParameterTable& table, const core::Tensor& flat, const HfProgress& progress = {});

/// config.json and the tokenizer's files, byte for byte. Throws Error(bad_data), also when the tokenizer has more ids
/// than config.json's vocab_size.
std::vector<SideFile> read_hf_side_files(const std::filesystem::path& directory);

struct HfWriteOptions {
  std::string dtype = "fp32";                ///< fp32, bf16 (rounded to nearest even)
  std::uint64_t shard_size = 5'000'000'000;  ///< bytes of tensors a file may hold; a larger tensor has its own
  bool overwrite = false;
  HfProgress progress;
};

/// Writes weights, config.json and the side files (a config.json among them gives the fields that are kept). A new
/// directory appears complete or not at all; in an existing one nothing is replaced without `overwrite`.
/// Throws Error(usage) when the model cannot be written, Error(run_directory) when files are in the way.
void write_hf_directory(const std::filesystem::path& directory, const model::ModelConfig& config,
                        const core::Tensor& flat, const std::vector<SideFile>& side_files,
                        const HfWriteOptions& options);

}  // namespace trireme::train
