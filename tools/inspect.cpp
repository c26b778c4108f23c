#include <algorithm>

#include "core/file.h"
#include "core/log.h"
#include "data/token_file.h"
#include "data/tokenizer/tokenizer.h"
#include "tools/command.h"
#include "train/checkpoint/names.h"
#include "train/checkpoint/shard.h"
#include "train/checkpoint/store.h"

namespace trireme::tools {

namespace {

namespace fs = std::filesystem;

struct InspectOptions {
  std::string path, format = "auto";
  bool full = false, last_commit = false, view = false;
};

fs::path root_of(const fs::path& path) { return fs::is_directory(path / "checkpoints") ? path / "checkpoints" : path; }

void describe_checkpoint(const fs::path& path, bool full) {
  const train::CheckpointReader reader(path);
  const train::Manifest& manifest = reader.manifest();
  std::uint64_t bytes = 0;
  for (const train::StoredFile& file : manifest.files) bytes += file.bytes;
  core::Sha256 sum;
  sum.update(core::read_whole(path / train::kManifestName, std::uint64_t{1} << 28));
  core::info(fmt::format(
      "checkpoint {} ({}), verified\n  run        {} {} (attempt {})\n  step       {} ({} updates, {} "
      "samples, {} tokens)\n  model      {}\n  files      {}, {} bytes\n  tensors    {}\n  manifest   "
      "sha256 {}",
      path.string(), manifest.meta.kind, manifest.meta.run_name, manifest.meta.run_id, manifest.meta.attempt,
      manifest.meta.step, manifest.meta.updates, manifest.meta.samples, manifest.meta.tokens,
      manifest.meta.model.dump(), manifest.files.size(), bytes, manifest.tensors.size(), sum.hex()));
  if (!full) return;
  for (const train::StoredTensor& tensor : manifest.tensors)
    core::info(fmt::format("  {:<8} {:<44} {} [{}] l2 {:.9g} fingerprint {:016x}", tensor.state, tensor.name,
                           core::name_of(tensor.dtype), fmt::join(tensor.shape, ", "), tensor.l2, tensor.fingerprint));
  for (const train::TiedAlias& tie : manifest.ties) core::info(fmt::format("  {} is {}", tie.name, tie.tied_to));
}

void describe_root(const fs::path& root) {
  const auto candidates = train::list_candidates(root);
  core::info(fmt::format("checkpoints in {}: {}", root.string(), candidates.size()));
  for (const train::Candidate& candidate : candidates) {
    try {
      const train::CheckpointReader reader(candidate.directory);
      core::info(fmt::format("  {}  verified", candidate.directory.filename().string()));
    } catch (const core::Error& error) {
      core::info(fmt::format("  {}  broken: {}", candidate.directory.filename().string(), error.what()));
    }
  }
}

void print_last_commit(const fs::path& path) {
  std::vector<std::string> rejected;
  const auto newest = train::newest_valid(root_of(path), rejected);
  for (const std::string& line : rejected) core::warning(line);
  core::info(fmt::format("{}", newest ? newest->manifest().meta.step : -1));
}

void describe_tokenizer(const fs::path& path) {
  const data::Tokenizer tokenizer = data::Tokenizer::load(path);
  core::info(fmt::format("tokenizer {}\n  ids        {}\n  special    {}\n  sha256     {}", path.string(),
                         tokenizer.vocab_size(), fmt::join(tokenizer.special_tokens(), " "), tokenizer.sha256()));
}

void inspect(const InspectOptions& options) {
  const fs::path path = options.path;
  if (options.last_commit) return print_last_commit(path);
  if (fs::exists(path / train::kManifestName) || train::step_of(path.filename().string())) {
    describe_checkpoint(path, options.full);
    if (options.view) train::write_view(path, train::CheckpointReader(path).manifest());
    return;
  }
  if (fs::is_directory(path) && (fs::is_directory(path / "checkpoints") || !train::list_candidates(path).empty()))
    return describe_root(root_of(path));
  if (path.extension() == ".json" || fs::exists(path / "tokenizer.json") || fs::exists(path / "merges.txt"))
    return describe_tokenizer(path);
  core::info(data::describe_corpus(path, options.format, options.full));
}

}  // namespace

void add_inspect(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand(
      "inspect", "Says what a checkpoint, corpus, tokenizer or run directory holds, and verifies it");
  command->add_option("PATH", options->path, "What to look at")->required();
  command->add_option("--format", options->format, "Format of a corpus: auto, indexed, llmc or raw-u16");
  command->add_flag("--full", options->full, "Reads every token, lists every tensor");
  command->add_flag("--last-commit", options->last_commit, "Prints the newest committed step, or -1");
  command->add_flag("--view", options->view, "Makes a checkpoint's model.h5 again");
  command->callback([options] { inspect(*options); });
}

}  // namespace trireme::tools
