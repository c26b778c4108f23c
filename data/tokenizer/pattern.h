#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace trireme::data {

/// The built-in pre-tokenisers. Each is a scanner for one regular expression.
enum class Pattern { gpt2, llama3, qwen, characters };

/// The regular expression, as it stands in tokenizer.json.
std::string_view expression_of(Pattern pattern);
/// The pattern with exactly this expression.
std::optional<Pattern> find_pattern(std::string_view expression);
/// "gpt2", "llama3", "qwen", "characters".
std::string_view name_of(Pattern pattern);

/// Bytes of the piece at the start of `text`, at least 1; `text` is not empty. A byte that is not UTF-8 counts as one
/// character that is no letter, number or space.
std::size_t piece_length(Pattern pattern, std::string_view text);

/// Whether every pattern ends a piece between these two bytes, whatever stands around them: an ASCII letter or digit
/// before a space or a line feed.
bool always_splits(char before, char after);
/// The first such place from byte `at_least` on; the size of `text` when there is none.
std::size_t find_cut(std::string_view text, std::size_t at_least);

}  // namespace trireme::data
