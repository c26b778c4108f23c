#include "data/tokenizer/trainer.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "core/error.h"
#include "data/tokenizer/bpe_learner.h"
#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/definition.h"
#include "data/tokenizer/piece_cache.h"
#include "data/tokenizer/rounds.h"
#include "data/tokenizer/unicode.h"

namespace trireme::data {

namespace {
using core::ExitCode;

struct PieceHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view piece) const { return hash_piece(piece); }
};
using PieceCounts = std::unordered_map<std::string, std::int64_t, PieceHash, std::equal_to<>>;

// Calls work(text, thread) on several threads, for every text of the inputs or the parts of it.
using TextWork = std::function<void(std::string_view text, int thread)>;

std::vector<std::string_view> cut_text(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = find_cut(text, kPartBytes);
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return parts;
}

std::int64_t for_each_text(const std::vector<std::filesystem::path>& inputs, const TrainOptions& options,
                           const TextWork& work) {
  RecordReader reader(inputs, options.documents);
  RoundReader rounds(reader, options.threads);
  std::int64_t documents = 0;
  Round round;
  while (rounds.next(round)) {
    if (round.large) {
      Record& record = round.records.front();
      const std::string text = take_text(record, options.documents);
      const std::vector<std::string_view> parts = cut_text(text);
      run_on_threads(options.threads, parts.size(), [&](std::size_t item, int thread) { work(parts[item], thread); });
    } else {
      run_on_threads(options.threads, round.groups.size(), [&](std::size_t item, int thread) {
        for (Record& record : round.groups[item]) work(take_text(record, options.documents), thread);
      });
    }
    documents += static_cast<std::int64_t>(round.records.size());
    if (options.progress) options.progress("reading", reader.done_bytes(), reader.total_bytes());
  }
  return documents;
}

void count_pieces(std::string_view text, Pattern pattern, PieceCounts& counts) {
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, piece_length(pattern, text));
    if (const auto found = counts.find(piece); found != counts.end())
      ++found->second;
    else
      counts.emplace(piece, 1);
    text.remove_prefix(piece.size());
  }
}

// In the order of their bytes, so that nothing depends on threads or hashes.
std::vector<CountedPiece> join(std::vector<PieceCounts>& parts) {
  PieceCounts all = std::move(parts.front());
  for (std::size_t i = 1; i < parts.size(); ++i) {
    for (const auto& [piece, count] : parts[i]) all[piece] += count;
    parts[i] = {};
  }
  std::vector<CountedPiece> pieces;
  pieces.reserve(all.size());
  for (const auto& [piece, count] : all) pieces.push_back({piece, count});
  std::sort(pieces.begin(), pieces.end(),
            [](const CountedPiece& a, const CountedPiece& b) { return a.bytes < b.bytes; });
  return pieces;
}

TrainedTokenizer finish(const TokenizerDefinition& definition, std::int64_t documents) {
  std::int32_t highest = -1;
  for (const VocabularyEntry& entry : definition.vocabulary) highest = std::max(highest, entry.id);
  return {write_tokenizer_json(definition), std::int64_t{highest} + 1, documents};
}
}  // namespace

TrainedTokenizer train_bpe(const std::vector<std::filesystem::path>& inputs, const TrainOptions& options) {
  core::require(options.vocabulary >= kMinimumTrainedVocabulary &&
                    options.vocabulary <= static_cast<std::int64_t>(kMaximumEntries),
                ExitCode::usage, "a vocabulary of {} is not possible: {} (256 bytes and the end of a document) to {}",
                options.vocabulary, kMinimumTrainedVocabulary, kMaximumEntries);
  TokenizerDefinition definition;
  definition.pattern = options.pattern;
  definition.split_before_prefix = options.pattern != Pattern::gpt2;
  definition.nfc = options.pattern == Pattern::qwen;

  std::vector<PieceCounts> counts(static_cast<std::size_t>(options.threads));
  const std::int64_t documents = for_each_text(inputs, options, [&](std::string_view text, int thread) {
    PieceCounts& into = counts[static_cast<std::size_t>(thread)];
    if (definition.nfc)
      count_pieces(normalize_nfc(text), options.pattern, into);
    else
      count_pieces(text, options.pattern, into);
  });
  const std::vector<CountedPiece> pieces = join(counts);
  core::require(!pieces.empty(), ExitCode::bad_data, "no text in {} inputs", inputs.size());

  const auto wanted = static_cast<std::uint64_t>(options.vocabulary);
  learn_bpe(pieces, options.vocabulary - 1, definition, [&](std::int64_t entries) {
    if (options.progress) options.progress("merging", static_cast<std::uint64_t>(entries), wanted);
  });
  const auto end = static_cast<std::int32_t>(definition.vocabulary.size());
  definition.vocabulary.push_back({"<|endoftext|>", end});
  definition.added.push_back({.content = "<|endoftext|>", .id = end, .special = true});
  return finish(definition, documents);
}

TrainedTokenizer train_characters(const std::vector<std::filesystem::path>& inputs, const TrainOptions& options) {
  constexpr std::size_t kCodePoints = 0x110000;
  using Set = std::vector<bool>;
  std::vector<Set> seen(static_cast<std::size_t>(options.threads), Set(kCodePoints));
  TrainOptions strict = options;
  if (strict.documents.invalid == InvalidUtf8::keep) strict.documents.invalid = InvalidUtf8::error;
  const std::int64_t documents = for_each_text(inputs, strict, [&](std::string_view text, int thread) {
    while (!text.empty()) {
      const int length = utf8_length(text.substr(0, 4));
      seen[static_cast<std::size_t>(thread)][utf8_code(text, length)] = true;
      text.remove_prefix(static_cast<std::size_t>(length));
    }
  });
  TokenizerDefinition definition;
  definition.pattern = Pattern::characters;
  definition.split_before_prefix = true;
  definition.ignore_merges = true;
  for (std::uint32_t code = 0; code < kCodePoints; ++code) {
    if (std::none_of(seen.begin(), seen.end(), [code](const Set& set) { return set[code]; })) continue;
    std::string character;
    append_utf8(character, code);
    definition.vocabulary.push_back(
        {name_of_bytes(character), static_cast<std::int32_t>(definition.vocabulary.size())});
  }
  core::require(!definition.vocabulary.empty(), ExitCode::bad_data, "no text in {} inputs", inputs.size());
  return finish(definition, documents);
}

}  // namespace trireme::data
