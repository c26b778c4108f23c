#include "data/tokenizer/added_tokens.h"

#include <algorithm>

#include "data/tokenizer/unicode.h"

namespace trireme::data {

namespace {
struct Decoded {
  std::uint32_t code;
  std::size_t length;
  bool valid;
};

Decoded first_character(std::string_view text) {
  const int length = utf8_length(text.substr(0, 4));
  if (length == 0) return {0xfffd, 1, false};
  return {utf8_code(text, length), static_cast<std::size_t>(length), true};
}

Decoded last_character(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(4, text.size()); ++back) {
    const std::string_view end = text.substr(text.size() - back);
    if (utf8_length(end) == static_cast<int>(back)) return first_character(end);
  }
  return {0xfffd, 1, false};
}

bool is_space(const Decoded& character) { return character.valid && class_of(character.code) == CharacterClass::space; }

bool touches_word(std::string_view before, std::string_view after) {
  if (!before.empty()) {
    const Decoded character = last_character(before);
    if (character.valid && is_word(character.code)) return true;
  }
  if (after.empty()) return false;
  const Decoded character = first_character(after);
  return character.valid && is_word(character.code);
}

std::size_t blanks_at_end(std::string_view text) {
  std::size_t count = 0;
  while (count < text.size()) {
    const Decoded character = last_character(text.substr(0, text.size() - count));
    if (!is_space(character)) break;
    count += character.length;
  }
  return count;
}

std::size_t blanks_at_start(std::string_view text) {
  std::size_t count = 0;
  while (count < text.size()) {
    const Decoded character = first_character(text.substr(count));
    if (!is_space(character)) break;
    count += character.length;
  }
  return count;
}
}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<Needle> needles) : needles_(std::move(needles)) {
  std::sort(needles_.begin(), needles_.end(), [](const Needle& a, const Needle& b) { return a.text < b.text; });
  for (const Needle& needle : needles_) first_bytes_[static_cast<unsigned char>(needle.text.front())] = true;
}

// Narrows the sorted range of needles that agree with the text so far; the last that is used up is the longest.
const AddedTokenFinder::Needle* AddedTokenFinder::longest_at(std::string_view text) const {
  auto low = needles_.begin();
  auto high = needles_.end();
  const Needle* found = nullptr;
  for (std::size_t depth = 0; depth < text.size() && low != high; ++depth) {
    const auto wanted = static_cast<unsigned char>(text[depth]);
    const auto byte_at = [depth](const Needle& needle) {
      return needle.text.size() > depth ? static_cast<int>(static_cast<unsigned char>(needle.text[depth])) : -1;
    };
    low = std::partition_point(low, high, [&](const Needle& needle) { return byte_at(needle) < wanted; });
    high = std::partition_point(low, high, [&](const Needle& needle) { return byte_at(needle) <= wanted; });
    if (low != high && low->text.size() == depth + 1) found = &*low;
  }
  return found;
}

void AddedTokenFinder::cut(std::string_view text, bool parse_special,
                           const std::function<void(const Stretch&)>& take) const {
  std::size_t taken = 0;
  std::size_t position = 0;
  const auto take_text = [&](std::size_t end) {
    if (end > taken) take({text.substr(taken, end - taken)});
  };
  while (position < text.size()) {
    if (!first_bytes_[static_cast<unsigned char>(text[position])]) {
      ++position;
      continue;
    }
    const Needle* needle = longest_at(text.substr(position));
    if (!needle) {
      ++position;
      continue;
    }
    std::size_t start = position;
    std::size_t end = position + needle->text.size();
    position = end;
    if (needle->skipped && !parse_special) continue;
    if (needle->token->single_word && touches_word(text.substr(0, start), text.substr(end))) continue;
    if (needle->token->lstrip) start = std::max(taken, start - blanks_at_end(text.substr(0, start)));
    if (needle->token->rstrip) end += blanks_at_start(text.substr(end));
    take_text(start);
    take({text.substr(start, end - start), needle->token});
    taken = position = end;
  }
  take_text(text.size());
}

}  // namespace trireme::data
