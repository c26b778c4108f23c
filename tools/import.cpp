#include <filesystem>
#include <memory>
#include <string>

#include "core/error.h"
#include "core/log.h"
#include "tools/command.h"
#include "tools/progress.h"
#include "train/checkpoint/names.h"
#include "train/huggingface/directory.h"
#include "train/model_json.h"
#include "train/model_state.h"

namespace trireme::tools {

namespace {

struct ImportFlags {
  std::string source;
  std::string output;
  bool force = false;
};

train::CheckpointMeta meta_of(const model::ModelConfig& config) {
  train::CheckpointMeta meta;
  meta.kind = "weights";
  meta.run_id = train::make_nonce();
  meta.run_name = "import";
  meta.model = train::model_to_json(config);
  for (nlohmann::json* part : {&meta.data, &meta.schedule, &meta.optimizer, &meta.guard, &meta.goodput, &meta.layout})
    *part = nlohmann::json::object();
  return meta;
}

/// --force replaces a checkpoint or an empty folder, never a folder of other things.
std::filesystem::path checked_output(const ImportFlags& flags) {
  namespace fs = std::filesystem;
  fs::path output = flags.output;
  if (!output.has_filename()) output = output.parent_path();
  if (!fs::exists(output)) return output;
  core::require(flags.force, core::ExitCode::run_directory, "{}: exists already (--force replaces it)",
                output.string());
  const bool replaceable =
      fs::is_directory(output) && (fs::exists(output / train::kManifestName) || fs::is_empty(output));
  core::require(replaceable, core::ExitCode::run_directory, "{}: is no checkpoint and is not replaced",
                output.string());
  return output;
}

void import_directory(const ImportFlags& flags) {
  core::require(train::is_hf_directory(flags.source), core::ExitCode::bad_data,
                "{}: no Hugging Face directory (config.json and safetensors)", flags.source);
  const std::filesystem::path output = checked_output(flags);
  const model::ModelConfig config = train::read_hf_config(flags.source);
  const std::vector<train::SideFile> side_files = train::read_hf_side_files(flags.source);
  Progress progress("B");
  const train::ModelState state(config, core::DType::f32, false);
  train::read_hf_weights(flags.source, config, state.table(), state.master(),
                         [&](std::uint64_t done, std::uint64_t total) { progress.show("reading", done, total); });
  train::write_weights(output, meta_of(config), state.chunks(false), state.ties(), side_files, flags.force);
  core::info(
      fmt::format("{}: {} parameters, {} side files", output.string(), state.table().count(), side_files.size()));
}

}  // namespace

void add_import(CLI::App& app) {
  auto flags = std::make_shared<ImportFlags>();
  CLI::App* command = app.add_subcommand("import", "Hugging Face GPT-2, Llama or Qwen3 weights -> checkpoint");
  command->add_option("HF_DIR", flags->source, "Directory with config.json and safetensors")->required();
  command->add_option("--output", flags->output, "Checkpoint directory to make")->required();
  command->add_flag("--force", flags->force, "Replaces an existing checkpoint");
  command->callback([flags] { import_directory(*flags); });
}

}  // namespace trireme::tools
