#include "data/tokenizer/definition.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "core/error.h"
#include "core/file.h"
#include "data/tokenizer/raw_definition.h"
#include "data/tokenizer/tokenizer_sections.h"

namespace trireme::data {

namespace {
using core::ExitCode;
using Names = std::unordered_map<std::string_view, std::uint32_t>;

Names index_names(const std::vector<VocabularyEntry>& vocabulary, const std::string& file) {
  Names names;
  names.reserve(vocabulary.size());
  for (std::uint32_t i = 0; i < vocabulary.size(); ++i)
    core::require(names.try_emplace(vocabulary[i].name, i).second, ExitCode::bad_data,
                  "{}: vocabulary entry {} is given twice", file, in_quotes(vocabulary[i].name));
  return names;
}

void check_distinct_ids(const std::vector<VocabularyEntry>& vocabulary, const std::string& file) {
  std::vector<const VocabularyEntry*> by_id;
  by_id.reserve(vocabulary.size());
  for (const VocabularyEntry& entry : vocabulary) by_id.push_back(&entry);
  std::stable_sort(by_id.begin(), by_id.end(), [](const auto* a, const auto* b) { return a->id < b->id; });
  for (std::size_t i = 1; i < by_id.size(); ++i)
    core::require(by_id[i - 1]->id != by_id[i]->id, ExitCode::bad_data,
                  "{}: vocabulary entry {}: id {} is that of {} too", file, in_quotes(by_id[i]->name), by_id[i]->id,
                  in_quotes(by_id[i - 1]->name));
}

struct MergePlace {
  const std::string& file;
  const char* unit;  // "merge" or "line"
  std::size_t first;
};

std::vector<Merge> resolve_merges(const std::vector<RawDefinition::Merge>& raw, const Names& names,
                                  const MergePlace& place) {
  std::vector<Merge> merges;
  merges.reserve(raw.size());
  std::string joined;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    joined = raw[i].left + raw[i].right;
    const auto find = [&](const std::string& part) {
      const auto found = names.find(part);
      if (found != names.end()) return found->second;
      core::fail(ExitCode::bad_data, "{}: {} {} {}: {} is not in the vocabulary", place.file, place.unit,
                 place.first + i, in_quotes(raw[i].left + " " + raw[i].right), in_quotes(part));
    };
    const std::uint32_t left = find(raw[i].left);
    const std::uint32_t right = find(raw[i].right);
    merges.push_back({left, right, find(joined)});
  }
  return merges;
}

// An added token that is a vocabulary entry too has its id; any other has an id of its own.
void check_added_tokens(const TokenizerDefinition& definition, const Names& names, const std::string& file) {
  std::unordered_map<std::int32_t, std::string_view> ids;
  ids.reserve(definition.vocabulary.size() + definition.added.size());
  for (const VocabularyEntry& entry : definition.vocabulary) ids.emplace(entry.id, entry.name);
  std::unordered_map<std::string_view, std::size_t> contents;
  for (std::size_t i = 0; i < definition.added.size(); ++i) {
    const AddedToken& token = definition.added[i];
    core::require(contents.try_emplace(token.content, i).second, ExitCode::bad_data,
                  "{}: added_tokens[{}]: {} is given twice", file, i, in_quotes(token.content));
    const auto entry = names.find(token.content);
    core::require(entry == names.end() || definition.vocabulary[entry->second].id == token.id, ExitCode::bad_data,
                  "{}: added_tokens[{}]: {} has id {}, the vocabulary gives it another", file, i,
                  in_quotes(token.content), token.id);
    const auto [owner, is_new] = ids.emplace(token.id, token.content);
    core::require(is_new || owner->second == token.content, ExitCode::bad_data,
                  "{}: added_tokens[{}]: {} has id {}, which is that of {}", file, i, in_quotes(token.content),
                  token.id, in_quotes(owner->second));
  }
}

std::vector<VocabularyEntry> take_vocabulary(RawDefinition& raw) {
  std::vector<VocabularyEntry> vocabulary;
  vocabulary.reserve(raw.vocabulary.size());
  for (RawDefinition::Entry& entry : raw.vocabulary)
    vocabulary.push_back({std::move(entry.name), static_cast<std::int32_t>(entry.id)});
  return vocabulary;
}

struct MergeLines {
  std::vector<RawDefinition::Merge> merges;
  std::size_t first_line = 1;
};

MergeLines read_merges(const std::filesystem::path& path) {
  const std::string text = core::read_whole(path, kMaximumTokenizerFile);
  MergeLines result;
  std::string_view rest = text;
  std::size_t line_number = 0;
  std::size_t blank = 0;  // the first of the blank lines just seen
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    ++line_number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line_number == 1 && line.starts_with("#version")) {
      result.first_line = 2;
      continue;
    }
    if (line.empty()) {
      if (blank == 0) blank = line_number;
      continue;
    }
    core::require(blank == 0, ExitCode::bad_data, "{}: line {} is blank, merges are \"left right\"", path.string(),
                  blank);
    RawDefinition::Merge merge;
    core::require(split_merge(line, merge), ExitCode::bad_data, "{}: line {}: {} is not \"left right\"", path.string(),
                  line_number, in_quotes(line));
    core::require(std::max(merge.left.size(), merge.right.size()) <= kMaximumName, ExitCode::bad_data,
                  "{}: line {}: a name of more than {} bytes", path.string(), line_number, kMaximumName);
    core::require(result.merges.size() < kMaximumEntries, ExitCode::bad_data, "{}: more than {} merges", path.string(),
                  kMaximumEntries);
    result.merges.push_back(std::move(merge));
  }
  return result;
}
}  // namespace

TokenizerDefinition parse_tokenizer_json(std::string_view json, const std::string& name) {
  RawDefinition raw = read_raw_definition(json, name);
  TokenizerDefinition definition;
  read_sections(raw, name, definition);
  definition.vocabulary = take_vocabulary(raw);
  const Names names = index_names(definition.vocabulary, name);
  check_distinct_ids(definition.vocabulary, name);
  definition.merges = resolve_merges(raw.merges, names, {name, "merge", 0});
  check_added_tokens(definition, names, name);
  return definition;
}

TokenizerDefinition read_vocabulary_and_merges(const std::filesystem::path& vocabulary,
                                               const std::filesystem::path& merges, Pattern pattern) {
  const std::string text = core::read_whole(vocabulary, kMaximumTokenizerFile);
  RawDefinition raw = read_raw_vocabulary(text, vocabulary.string());
  TokenizerDefinition definition;
  definition.pattern = pattern;
  definition.split_before_prefix = pattern != Pattern::gpt2;
  definition.nfc = pattern == Pattern::qwen;
  definition.vocabulary = take_vocabulary(raw);
  const Names names = index_names(definition.vocabulary, vocabulary.string());
  check_distinct_ids(definition.vocabulary, vocabulary.string());
  const MergeLines lines = read_merges(merges);
  definition.merges = resolve_merges(lines.merges, names, {merges.string(), "line", lines.first_line});
  constexpr std::string_view kEnd = "<|endoftext|>";
  if (const auto found = names.find(kEnd); found != names.end())
    definition.added.push_back(
        {.content = std::string(kEnd), .id = definition.vocabulary[found->second].id, .special = true});
  return definition;
}

}  // namespace trireme::data
