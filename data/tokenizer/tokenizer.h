#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::data {

struct AddedToken;
struct TokenizerDefinition;

/// What the spelling of a special token inside text becomes: its id, or plain text.
enum class SpecialText { parse, text };

/// Names of the end-of-document token, the first that a tokenizer has as an added token counts: GPT-2, GPT-NeoX and
/// Qwen; Llama 3; Llama 2; Gemma.
inline constexpr std::string_view kEndOfDocumentNames[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};

/// A byte-level BPE tokenizer with Hugging Face's meaning of tokenizer.json. Cannot change; thread-safe.
class Tokenizer {
 public:
  /// `path`: a tokenizer.json, or a folder with one, or with vocab.json and merges.txt (GPT-2's pattern).
  /// Throws Error(bad_data) naming file and entry.
  static Tokenizer load(const std::filesystem::path& path);
  /// The text of a tokenizer.json; `name` is for messages.
  static Tokenizer parse(std::string_view json, const std::string& name);
  static Tokenizer make(TokenizerDefinition definition);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Bytes that are not UTF-8 are symbols that are no letter, number or space: decode gives them back.
  /// Throws MissingByte when the vocabulary cannot spell the text.
  std::vector<std::int32_t> encode(std::string_view text, SpecialText special = SpecialText::parse) const;

  /// A stretch of a text: an added token, or text to encode on its own.
  struct Part {
    std::string_view text;
    const AddedToken* token = nullptr;
    bool begins = true;  ///< is the start of the text between two added tokens
  };
  /// Cuts a text where that changes nothing, into parts of about `bytes`, for several threads: the ids of the parts,
  /// joined, are those of the text. The parts refer to `text` and to the tokenizer.
  std::vector<Part> cut(std::string_view text, SpecialText special, std::size_t bytes) const;
  /// Appends the ids of a part; returns how many special tokens were parsed. MissingByte counts from the part's start.
  std::int64_t encode_part(const Part& part, SpecialText special, std::vector<std::int32_t>& ids) const;

  /// The bytes of the tokens, joined. An id without a token is U+FFFD.
  std::string decode(std::span<const std::int32_t> ids) const;

  std::int64_t vocab_size() const;  ///< highest id + 1
  /// See kEndOfDocumentNames.
  std::optional<std::int32_t> end_of_document() const;
  /// The id of an added token, by its text.
  std::optional<std::int32_t> special(std::string_view token) const;
  /// The texts of all added tokens, by id.
  std::vector<std::string> special_tokens() const;

  /// tokenizer.json: the bytes of the file where there was one, else written anew; and their SHA-256.
  const std::string& json() const;
  const std::string& sha256() const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Text from ids as they come: holds back an unfinished UTF-8 sequence until it is complete or the text ends.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  std::string push(std::int32_t id);
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  std::string held_;
};

}  // namespace trireme::data
