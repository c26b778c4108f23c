#include <algorithm>
#include <set>

#include "core/log.h"
#include "data/token_file.h"
#include "data/tokenizer/tokenizer.h"
#include "tools/command.h"
#include "train/checkpoint/candidates.h"
#include "train/checkpoint/names.h"
#include "train/checkpoint/shard.h"

namespace trireme::tools {

namespace {

namespace fs = std::filesystem;
using core::ExitCode;

struct InspectOptions {
  std::string path, format = "auto", manifest_sha256;
  bool full = false, last_commit = false, view = false;
};

/// Elements of a state, and the bytes of its values.
std::pair<std::int64_t, std::uint64_t> size_of_state(const train::Manifest& manifest, const std::string& state) {
  std::int64_t elements = 0;
  std::uint64_t bytes = 0;
  for (const train::StoredTensor& tensor : manifest.tensors) {
    if (tensor.state != state) continue;
    std::int64_t count = 1;
    for (const std::int64_t extent : tensor.shape) count *= extent;
    elements += count;
    bytes += static_cast<std::uint64_t>(count) * core::size_of(tensor.dtype);
  }
  return {elements, bytes};
}

void list_states(const train::Manifest& manifest) {
  std::set<std::string> states;
  for (const train::StoredTensor& tensor : manifest.tensors) states.insert(tensor.state);
  for (const std::string& state : states)
    core::info(fmt::format("  {:<10} {} bytes", state, size_of_state(manifest, state).second));
}

void list_tensors(const train::Manifest& manifest) {
  for (const train::StoredTensor& tensor : manifest.tensors)
    core::info(fmt::format("  {:<8} {:<44} {} [{}] in {}, l2 {:.9g}, fingerprint {:016x}", tensor.state, tensor.name,
                           core::name_of(tensor.dtype), fmt::join(tensor.shape, ", "),
                           tensor.chunks.size() == 1 ? "1 chunk" : fmt::format("{} chunks", tensor.chunks.size()),
                           tensor.l2, tensor.fingerprint));
  for (const train::TiedAlias& tie : manifest.ties) core::info(fmt::format("  {} is {}", tie.name, tie.tied_to));
  for (const train::StoredFile& file : manifest.files)
    core::info(fmt::format("  {:<30} {} bytes, crc32c {:08x}{}", file.name, file.bytes, file.crc32c,
                           file.sha256.empty() ? "" : ", sha256 " + file.sha256));
}

void describe_checkpoint(const train::CheckpointReader& reader, bool full) {
  const train::Manifest& manifest = reader.manifest();
  const train::CheckpointMeta& meta = manifest.meta;
  core::info(fmt::format(
      "checkpoint {} ({}), verified\n  run        {} {} (attempt {})\n  step       {} ({} updates, {} samples, {} "
      "tokens)\n  model      {}\n  parameters {}\n  tensors    {}\n  files      {}, {} bytes\n  manifest   sha256 {}",
      reader.directory().string(), meta.kind, core::escaped(meta.run_name), core::escaped(meta.run_id), meta.attempt,
      meta.step, meta.updates, meta.samples, meta.tokens, meta.model.dump(), size_of_state(manifest, "master").first,
      manifest.tensors.size(), manifest.files.size(), manifest.bytes(), reader.manifest_sha256()));
  list_states(manifest);
  if (full) list_tensors(manifest);
}

void inspect_checkpoint(const fs::path& path, const InspectOptions& options) {
  const train::CheckpointReader reader(path, {.manifest_sha256 = options.manifest_sha256});
  describe_checkpoint(reader, options.full);
  if (!options.view) return;
  const fs::path view = reader.directory() / train::kViewName;
  core::require(train::write_view(reader.directory(), reader.manifest()), ExitCode::usage,
                "{}: too many chunks for a view", view.string());
  core::info(fmt::format("  view       {}", view.string()));
}

void describe_root(const fs::path& root) {
  const auto candidates = train::verify_candidates(root);
  core::info(fmt::format("checkpoints in {}: {}", root.string(), candidates.size()));
  std::vector<std::string> reasons;
  for (const train::Candidate& candidate : candidates) {
    core::info(fmt::format("  {}  {}", candidate.directory.filename().string(),
                           candidate.reason.empty() ? "verified" : "broken: " + candidate.reason));
    if (!candidate.reason.empty()) reasons.push_back(candidate.reason);
  }
  core::require(candidates.empty() || reasons.size() < candidates.size(), ExitCode::no_checkpoint,
                "{}: no valid checkpoint among {} candidates: {}", root.string(), candidates.size(),
                fmt::join(reasons, "; "));
}

void describe_tokenizer(const fs::path& path) {
  const data::Tokenizer tokenizer = data::Tokenizer::load(path);
  core::info(fmt::format("tokenizer {}\n  ids        {}\n  special    {}\n  sha256     {}", path.string(),
                         tokenizer.vocab_size(), fmt::join(tokenizer.special_tokens(), " "), tokenizer.sha256()));
}

bool is_root(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path / "checkpoints", error) || !train::list_candidates(path).empty() ||
         path.filename() == "checkpoints";
}

bool is_tokenizer(const fs::path& path) {
  std::error_code error;
  return path.extension() == ".json" || fs::exists(path / "tokenizer.json", error) ||
         fs::exists(path / "merges.txt", error);
}

void inspect(const InspectOptions& options) {
  fs::path path = options.path;
  if (!path.has_filename() && path.has_parent_path()) path = path.parent_path();
  std::error_code error;
  if (options.last_commit) {
    core::require(fs::is_directory(path, error), ExitCode::no_checkpoint, "{}: no such directory", path.string());
    return core::info(fmt::format("{}", train::last_committed(train::root_of(path))));
  }
  if (train::is_checkpoint(path)) return inspect_checkpoint(path, options);
  core::require(!options.view && options.manifest_sha256.empty(), ExitCode::usage,
                "{}: --view and --manifest-sha256 are for one checkpoint", path.string());
  if (fs::is_directory(path, error) && is_root(path)) return describe_root(train::root_of(path));
  if (is_tokenizer(path)) return describe_tokenizer(path);
  core::info(data::describe_corpus(path, options.format, options.full));
}

}  // namespace

void add_inspect(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand(
      "inspect", "Says what a checkpoint, corpus, tokenizer or run directory holds, and verifies it");
  command->add_option("PATH", options->path, "What to look at")->required();
  command->add_option("--format", options->format, "Format of a corpus: auto, indexed, llmc or raw-u16")
      ->capture_default_str();
  command->add_option("--manifest-sha256", options->manifest_sha256, "Refuses a checkpoint with another manifest");
  command->add_flag("--full", options->full, "Reads every token, lists every tensor and file");
  command->add_flag("--last-commit", options->last_commit, "Prints only the newest committed step, or -1");
  command->add_flag("--view", options->view, "Makes a checkpoint's model.h5 again");
  command->callback([options] { inspect(*options); });
}

}  // namespace trireme::tools
