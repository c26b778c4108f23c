#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/pattern.h"

namespace trireme::data {

inline constexpr std::uint64_t kMaximumTokenizerFile = std::uint64_t{256} << 20;  // bytes
inline constexpr std::size_t kMaximumEntries = std::size_t{1} << 24;
inline constexpr std::size_t kMaximumName = std::size_t{64} << 10;  // bytes
inline constexpr int kMaximumNesting = 64;

struct VocabularyEntry {
  std::string name;  ///< in the byte alphabet
  std::int32_t id = 0;
};

/// Positions in `TokenizerDefinition::vocabulary`.
struct Merge {
  std::uint32_t left = 0;
  std::uint32_t right = 0;
  std::uint32_t result = 0;
};

struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool special = false;
  bool normalized = false;   ///< looked for after the normaliser
  bool lstrip = false;       ///< takes the blanks before it along
  bool rstrip = false;       ///< takes the blanks behind it along
  bool single_word = false;  ///< only where no word character touches it
};

/// What a tokenizer file says, checked: ids are distinct and from 0 to 2^31 - 1, merges are of known entries.
struct TokenizerDefinition {
  std::vector<VocabularyEntry> vocabulary;
  std::vector<Merge> merges;  ///< by rank
  std::vector<AddedToken> added;
  Pattern pattern = Pattern::gpt2;
  bool split_before_prefix = false;  ///< Split and ByteLevel: a prefix space goes before each piece, not each text
  bool add_prefix_space = false;
  bool nfc = false;
  bool ignore_merges = false;
};

/// Reads the text of a tokenizer.json; `name` is for messages. Throws Error(bad_data) naming the entry.
TokenizerDefinition parse_tokenizer_json(std::string_view json, const std::string& name);

/// Reads vocab.json and merges.txt. `<|endoftext|>`, where it is an entry, becomes a special token.
TokenizerDefinition read_vocabulary_and_merges(const std::filesystem::path& vocabulary,
                                               const std::filesystem::path& merges, Pattern pattern);

/// tokenizer.json with string merges (pairs where a name holds a space); parsing it gives the same definition.
std::string write_tokenizer_json(const TokenizerDefinition& definition);

}  // namespace trireme::data
