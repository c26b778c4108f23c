#include <algorithm>
#include <memory>
#include <string>

#include "core/error.h"
#include "core/log.h"
#include "tools/command.h"
#include "tools/progress.h"
#include "train/checkpoint/store.h"
#include "train/huggingface/directory.h"
#include "train/model_json.h"
#include "train/model_state.h"

namespace trireme::tools {

namespace {

struct ExportFlags {
  std::string checkpoint;
  std::string output;
  train::HfWriteOptions options;
};

/// fp64 where the checkpoint has fp64 masters, so that they are rounded once.
core::DType master_dtype(const train::Manifest& manifest) {
  const bool wide = std::any_of(manifest.tensors.begin(), manifest.tensors.end(), [](const auto& tensor) {
    return tensor.state == "master" && tensor.dtype == core::DType::f64;
  });
  return wide ? core::DType::f64 : core::DType::f32;
}

void export_checkpoint(ExportFlags flags) {
  const train::CheckpointReader reader = train::open_checkpoint(flags.checkpoint);
  const model::ModelConfig config = train::model_from_json(reader.manifest().meta.model, reader.directory().string());
  Progress progress("B");
  const train::ModelState state(config, master_dtype(reader.manifest()), false);
  std::vector<train::StateChunk> chunks = state.chunks(false);
  reader.read(chunks);
  flags.options.progress = [&](std::uint64_t done, std::uint64_t total) { progress.show("writing", done, total); };
  train::write_hf_directory(flags.output, config, state.master(), reader.side_files(), flags.options);
  core::info(fmt::format("{}: {} parameters of {} as {}", flags.output, state.table().count(),
                         reader.directory().string(), flags.options.dtype));
}

}  // namespace

void add_export(CLI::App& app) {
  auto flags = std::make_shared<ExportFlags>();
  CLI::App* command = app.add_subcommand("export", "Checkpoint -> Hugging Face directory");
  command->add_option("CHECKPOINT", flags->checkpoint, "Checkpoint, or run directory: its newest valid one")
      ->required();
  command->add_option("--output", flags->output, "Directory for safetensors, config.json and tokenizer")->required();
  command->add_option("--dtype", flags->options.dtype, "Type of the weights; bf16 is rounded to nearest even")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  command->add_option("--shard-size", flags->options.shard_size, "Most bytes a file, for example 500MB")
      ->transform(CLI::AsSizeValue(true))
      ->default_str("5GB");
  command->add_flag("--force", flags->options.overwrite, "Replaces existing files");
  command->callback([flags] { export_checkpoint(*flags); });
}

}  // namespace trireme::tools
