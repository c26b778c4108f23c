#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "data/token_writer.h"
#include "data/tokenizer/encode_corpus.h"
#include "data/tokenizer/tokenizer.h"
#include "tools/command.h"
#include "tools/document_options.h"
#include "tools/progress.h"

namespace trireme::tools {

namespace {
using core::ExitCode;

struct TokenizeFlags {
  std::vector<std::string> inputs;
  std::string tokenizer;
  std::string output;
  std::string end;
  bool no_end = false;
  std::string special = "parse";
  std::string format = "indexed";
  std::int64_t shard_tokens = 100'000'000;
  bool force = false;
  DocumentFlags documents;
};

std::string list_special_tokens(const data::Tokenizer& tokenizer) {
  const std::vector<std::string> names = tokenizer.special_tokens();
  constexpr std::size_t kShown = 40;
  std::string list;
  for (std::size_t i = 0; i < std::min(kShown, names.size()); ++i) list += (i > 0 ? ", " : "") + names[i];
  if (names.size() > kShown) list += ", ...";
  return names.empty() ? "none" : core::escaped(list);
}

std::optional<std::int32_t> find_end(const data::Tokenizer& tokenizer, const TokenizeFlags& flags) {
  if (flags.no_end) return std::nullopt;
  if (!flags.end.empty()) {
    const auto id = tokenizer.special(flags.end);
    core::require(id.has_value(), ExitCode::usage, "--eod \"{}\": {} has no such special token (has: {})", flags.end,
                  flags.tokenizer, list_special_tokens(tokenizer));
    return id;
  }
  const auto id = tokenizer.end_of_document();
  core::require(id.has_value(), ExitCode::bad_data,
                "{}: no end-of-document token; special tokens: {} (choose with --eod TOKEN, or --no-eod)",
                flags.tokenizer, list_special_tokens(tokenizer));
  return id;
}

void report(const data::EncodeSummary& summary, const data::TokenWriter& writer, const TokenizeFlags& flags) {
  core::info(fmt::format(
      "{}: {} documents, {} tokens from {} bytes, {:.2f} bytes a token", flags.output, writer.documents(),
      writer.tokens(), summary.bytes,
      static_cast<double>(summary.bytes) / static_cast<double>(std::max<std::int64_t>(1, writer.tokens()))));
  if (flags.special == "parse")
    core::info(fmt::format("{} special tokens were spelled out in the text and parsed{}", summary.special,
                           summary.special > 0 ? " (--special text takes them as text)" : ""));
  if (summary.empty > 0) core::info(fmt::format("{} empty documents were skipped", summary.empty));
}

void tokenize(const TokenizeFlags& flags) {
  const data::Tokenizer tokenizer = data::Tokenizer::load(flags.tokenizer);
  const bool llmc = flags.format == "llmc";
  const auto end = find_end(tokenizer, flags);
  data::TokenWriter writer({.prefix = flags.output,
                            .format = flags.format,
                            .vocab_size = tokenizer.vocab_size(),
                            .eod_id = end,
                            .tokenizer_sha256 = tokenizer.sha256(),
                            .shard_tokens = flags.shard_tokens,
                            .overwrite = flags.force});
  Progress progress("B");
  const data::EncodeOptions options{
      .documents = flags.documents.options(),
      .special = flags.special == "text" ? data::SpecialText::text : data::SpecialText::parse,
      .end_of_document = end,
      .end_comes_first = llmc,
      .threads = flags.documents.thread_count(),
      .progress = [&](std::uint64_t done, std::uint64_t total) { progress.show("tokenizing", done, total); }};
  const std::vector<std::filesystem::path> inputs(flags.inputs.begin(), flags.inputs.end());
  const data::EncodeSummary summary = data::encode_corpus(
      inputs, tokenizer, options, [&](std::span<const std::int32_t> ids) { writer.add_document(ids); });
  writer.commit();
  report(summary, writer, flags);
}
}  // namespace

void add_tokenize(CLI::App& app) {
  auto flags = std::make_shared<TokenizeFlags>();
  CLI::App* command = app.add_subcommand("tokenize", "Turns plain text or JSONL into a token corpus");
  command->add_option("INPUT", flags->inputs, "Plain text or JSONL files, in this order")->required();
  command
      ->add_option("--tokenizer", flags->tokenizer,
                   "tokenizer.json, or a folder with it or with vocab.json and merges.txt")
      ->required();
  command->add_option("--output", flags->output, "PREFIX of the files: PREFIX.bin, PREFIX.idx, PREFIX.json")
      ->required();
  CLI::Option* end =
      command->add_option("--eod", flags->end, "Special token that ends a document [the tokenizer's own]");
  command->add_flag("--no-eod", flags->no_end, "Puts nothing between documents")->excludes(end);
  command
      ->add_option("--special", flags->special, "The spelling of a special token in text: parse it, or take it as text")
      ->check(CLI::IsMember({"parse", "text"}))
      ->capture_default_str();
  flags->documents.add_to(*command);
  command->add_option("--format", flags->format, "indexed (Megatron-LM), or llmc: shards PREFIX_000000.bin, ...")
      ->check(CLI::IsMember({"indexed", "llmc"}))
      ->capture_default_str();
  command->add_option("--shard-tokens", flags->shard_tokens, "Tokens in a shard of --format llmc")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{2147483647}))
      ->capture_default_str();
  command->add_flag("--force", flags->force, "Replaces existing files");
  command->callback([flags] { tokenize(*flags); });
}

}  // namespace trireme::tools
