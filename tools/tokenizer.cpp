#include "data/tokenizer/tokenizer.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "data/tokenizer/definition.h"
#include "data/tokenizer/trainer.h"
#include "tools/command.h"
#include "tools/document_options.h"
#include "tools/progress.h"

namespace trireme::tools {

namespace {
using core::ExitCode;
namespace fs = std::filesystem;

struct TrainFlags {
  std::vector<std::string> inputs;
  std::string output;
  std::int64_t vocabulary = 0;
  std::string kind = "bpe";
  std::string pattern = "gpt2";
  bool force = false;
  DocumentFlags documents;
};

struct ImportFlags {
  std::string input;
  std::string output;
  std::string pattern = "gpt2";
  bool force = false;
};

data::Pattern pattern_named(const std::string& name) {
  return name == "llama3" ? data::Pattern::llama3 : name == "qwen" ? data::Pattern::qwen : data::Pattern::gpt2;
}

// Before any work: a long training must not end in a refusal to write.
void check_output(const std::string& path, bool force) {
  core::require(force || !fs::exists(path), ExitCode::run_directory, "{}: exists already (--force replaces it)", path);
  const fs::path folder = fs::path(path).parent_path();
  core::require(folder.empty() || fs::is_directory(folder), ExitCode::run_directory, "{}: no such folder",
                folder.string());
}

void train(const TrainFlags& flags) {
  const bool characters = flags.kind == "characters";
  core::require(characters || flags.vocabulary > 0, ExitCode::usage,
                "tokenizer train: --vocab is missing: the number of ids, {} or more", data::kMinimumTrainedVocabulary);
  core::require(!characters || flags.vocabulary == 0, ExitCode::usage,
                "tokenizer train: --vocab {} does not go with --kind characters, which takes what the text has",
                flags.vocabulary);
  check_output(flags.output, flags.force);
  Progress progress("");
  data::TrainOptions options{.vocabulary = flags.vocabulary,
                             .pattern = pattern_named(flags.pattern),
                             .documents = flags.documents.options(),
                             .threads = flags.documents.thread_count(),
                             .progress = [&](std::string_view stage, std::uint64_t done, std::uint64_t total) {
                               progress.show(stage, done, total);
                             }};
  const std::vector<fs::path> inputs(flags.inputs.begin(), flags.inputs.end());
  const data::TrainedTokenizer trained =
      characters ? data::train_characters(inputs, options) : data::train_bpe(inputs, options);
  core::write_whole(flags.output, trained.json, flags.force);
  if (!characters && trained.vocabulary < flags.vocabulary)
    core::info(fmt::format("{} ids instead of {}: no pair occurs twice any more, the text is too little",
                           trained.vocabulary, flags.vocabulary));
  core::info(fmt::format("{}: {} ids from {} documents", flags.output, trained.vocabulary, trained.documents));
}

// A tokenizer.json stays as it is, byte for byte; a pair of files becomes one.
std::string import_json(const ImportFlags& flags) {
  const fs::path input = flags.input;
  const fs::path folder = fs::is_directory(input) ? input : input.parent_path();
  const bool names_pair = input.filename() == "vocab.json" || input.filename() == "merges.txt";
  const bool has_json = fs::exists(folder / "tokenizer.json");
  if (!names_pair && (!fs::is_directory(input) || has_json || !fs::exists(folder / "vocab.json")))
    return data::Tokenizer::load(input).json();
  return data::write_tokenizer_json(
      data::read_vocabulary_and_merges(folder / "vocab.json", folder / "merges.txt", pattern_named(flags.pattern)));
}

void import(const ImportFlags& flags) {
  check_output(flags.output, flags.force);
  const std::string json = import_json(flags);
  const data::Tokenizer tokenizer = data::Tokenizer::parse(json, flags.output);
  core::write_whole(flags.output, json, flags.force);
  const auto end = tokenizer.end_of_document();
  core::info(fmt::format("{}: {} ids, end of document {}, special tokens {}", flags.output, tokenizer.vocab_size(),
                         end ? fmt::format("{}", *end) : "none",
                         core::escaped(fmt::format("{}", fmt::join(tokenizer.special_tokens(), " ")))));
}

void add_pattern(CLI::App& command, std::string& pattern, const char* help) {
  command.add_option("--pattern", pattern, help)
      ->check(CLI::IsMember({"gpt2", "llama3", "qwen"}))
      ->capture_default_str();
}

void add_training(CLI::App& app) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App* command = app.add_subcommand("train", "Makes a tokenizer from text: byte-level BPE, or one id a character");
  command->add_option("TEXT", flags->inputs, "Plain text or JSONL files")->required();
  command->add_option("--output", flags->output, "Where tokenizer.json is written")->required();
  command->add_option("--vocab", flags->vocabulary,
                      "Number of ids, with 256 bytes and <|endoftext|>; needed for bpe, not for characters");
  command->add_option("--kind", flags->kind, "bpe, or characters: one id for each distinct character")
      ->check(CLI::IsMember({"bpe", "characters"}))
      ->capture_default_str();
  add_pattern(*command, flags->pattern, "How bpe splits text before merging");
  flags->documents.add_to(*command);
  command->add_flag("--force", flags->force, "Replaces an existing output");
  command->callback([flags] { train(*flags); });
}

void add_importing(CLI::App& app) {
  auto flags = std::make_shared<ImportFlags>();
  CLI::App* command = app.add_subcommand("import", "Checks an existing tokenizer and writes it as one tokenizer.json");
  command->add_option("INPUT", flags->input, "tokenizer.json, or a folder with it or with vocab.json and merges.txt")
      ->required();
  command->add_option("--output", flags->output, "Where tokenizer.json is written")->required();
  add_pattern(*command, flags->pattern, "How text is split with vocab.json and merges.txt, which do not say it");
  command->add_flag("--force", flags->force, "Replaces an existing output");
  command->callback([flags] { import(*flags); });
}
}  // namespace

void add_tokenizer(CLI::App& app) {
  CLI::App* command = app.add_subcommand("tokenizer", "Trains or imports a tokenizer");
  command->require_subcommand(1);
  add_training(*command);
  add_importing(*command);
}

}  // namespace trireme::tools
