#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme::data {

/// What the pre-tokenisers ask of a character. A byte that is not UTF-8 is a symbol of its own: none of the three.
enum class CharacterClass : std::uint8_t { other, letter, number, space };

/// General category L*, N* or property White_Space, of the Unicode version of utf8proc.
CharacterClass class_of(std::uint32_t code);
/// The character classes as one flat two-level table: `blocks[pages[code >> 8] << 8 | (code & 255)]`.
struct ClassTable {
  const std::uint8_t* pages;
  const CharacterClass* blocks;
  CharacterClass operator()(std::uint32_t code) const {
    return blocks[std::size_t{pages[code >> 8]} << 8 | (code & 255u)];
  }
};
ClassTable class_table();

/// Bytes of the UTF-8 character at `text[0]`: 1-4, or 0 when it is not well formed. `text` is not empty.
int utf8_length(std::string_view text);
/// The code point of the well-formed character at `text[0]`.
std::uint32_t utf8_code(std::string_view text, int length);
void append_utf8(std::string& to, std::uint32_t code);
/// Bytes at the start of `text`, which is not well formed there, that a decoder replaces by one U+FFFD: the longest
/// beginning of a well-formed character, or 1.
int broken_length(std::string_view text);
/// Whether all of `text` is the beginning of a well-formed character.
bool is_unfinished(std::string_view text);

/// Position of the first byte that is not UTF-8.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);
/// One U+FFFD for each maximal broken part.
std::string replace_invalid_utf8(std::string_view text);

/// Whether a character continues a word: letter, mark, digit, connector, other alphabetic, joiners.
bool is_word(std::uint32_t code);

/// Normalisation form C; bytes that are not UTF-8 stay and bound what is composed.
std::string normalize_nfc(std::string_view text);

/// "15.0.0": the version behind the classes and the normalisation.
std::string unicode_version();

}  // namespace trireme::data
