#include "data/tokenizer/pattern.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "data/tokenizer/unicode.h"

namespace trireme::data {

namespace {
struct Named {
  Pattern pattern;
  std::string_view name;
  std::string_view expression;
};

constexpr std::array<Named, 4> kPatterns{{
    {Pattern::gpt2, "gpt2", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {Pattern::llama3, "llama3",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {Pattern::qwen, "qwen",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {Pattern::characters, "characters", R"([\s\S])"},
}};

const Named& entry_of(Pattern pattern) { return kPatterns[static_cast<std::size_t>(pattern)]; }

using Kind = CharacterClass;

constexpr std::array<Kind, 128> make_ascii() {
  std::array<Kind, 128> table{};
  for (std::size_t c = 0; c < table.size(); ++c) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) table[c] = Kind::letter;
    if (c >= '0' && c <= '9') table[c] = Kind::number;
    if (c == ' ' || (c >= 9 && c <= 13)) table[c] = Kind::space;
  }
  return table;
}
constexpr std::array<Kind, 128> kAscii = make_ascii();

struct Symbol {
  Kind kind;
  std::uint8_t length;
};

class Scanner {
 public:
  explicit Scanner(std::string_view text)
      : begin_(reinterpret_cast<const unsigned char*>(text.data())), size_(text.size()) {}

  std::size_t size() const { return size_; }
  unsigned char byte(std::size_t at) const { return at < size_ ? begin_[at] : 0; }

  // Past the end: a class that ends every run, of length 0.
  Symbol at(std::size_t position) const {
    if (position >= size_) return {Kind::other, 0};
    if (begin_[position] < 0x80) return {kAscii[begin_[position]], 1};
    return beyond_ascii(position);
  }

  std::size_t skip(std::size_t position, Kind kind) const {
    while (position < size_) {
      const Symbol symbol = at(position);
      if (symbol.kind != kind) break;
      position += symbol.length;
    }
    return position;
  }

  std::size_t skip_at_most(std::size_t position, Kind kind, int most) const {
    for (int taken = 0; taken < most && position < size_; ++taken) {
      const Symbol symbol = at(position);
      if (symbol.kind != kind) break;
      position += symbol.length;
    }
    return position;
  }

  std::size_t skip_line_ends(std::size_t position) const {
    while (is_line_end(byte(position)) && position < size_) ++position;
    return position;
  }

  static bool is_line_end(unsigned char byte) { return byte == '\n' || byte == '\r'; }

 private:
  Symbol beyond_ascii(std::size_t position) const {
    static const ClassTable classes = class_table();
    const std::string_view rest(reinterpret_cast<const char*>(begin_ + position),
                                std::min<std::size_t>(4, size_ - position));
    const int length = utf8_length(rest);
    if (length == 0) return {Kind::other, 1};
    return {classes(utf8_code(rest, length)), static_cast<std::uint8_t>(length)};
  }

  const unsigned char* begin_;
  std::size_t size_;
};

// 's|'t|'re|'ve|'m|'ll|'d, at an apostrophe; 0 when none matches.
std::size_t contraction_length(const Scanner& scan) {
  const unsigned char first = scan.byte(1);
  const unsigned char second = scan.byte(2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l')) return 3;
  return 0;
}

// The same without regard to case: U+017F, the long s, folds to s as well.
std::size_t folded_contraction_length(const Scanner& scan) {
  const auto lower = [&](std::size_t at) {
    const unsigned char byte = scan.byte(at);
    return byte >= 'A' && byte <= 'Z' ? static_cast<unsigned char>(byte + 32) : byte;
  };
  const unsigned char first = lower(1);
  const unsigned char second = lower(2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l')) return 3;
  return first == 0xc5 && second == 0xbf ? 3 : 0;
}

// \s+(?!\S)|\s+ : all of the run at the end of the text, else without its last character unless that is all.
std::size_t blank_length(const Scanner& scan) {
  std::size_t position = 0;
  std::size_t last = 0;
  while (position < scan.size()) {
    const Symbol symbol = scan.at(position);
    if (symbol.kind != Kind::space) return last > 0 ? last : position;
    last = position;
    position += symbol.length;
  }
  return position;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ : up to the last line end of the run, where there is one.
std::size_t lines_or_blank_length(const Scanner& scan) {
  std::size_t after_line_end = 0;
  for (std::size_t position = 0; position < scan.size();) {
    const Symbol symbol = scan.at(position);
    if (symbol.kind != Kind::space) break;
    position += symbol.length;
    if (Scanner::is_line_end(scan.byte(position - symbol.length))) after_line_end = position;
  }
  return after_line_end > 0 ? after_line_end : blank_length(scan);
}

std::size_t gpt2_length(const Scanner& scan) {
  if (scan.byte(0) == '\'') {
    if (const std::size_t length = contraction_length(scan)) return length;
  }
  const std::size_t start = scan.byte(0) == ' ' ? 1 : 0;
  const Symbol symbol = scan.at(start);
  if (symbol.length > 0 && symbol.kind != Kind::space) return scan.skip(start + symbol.length, symbol.kind);
  return blank_length(scan);
}

std::size_t llama_length(const Scanner& scan, int digits) {
  if (scan.byte(0) == '\'') {
    if (const std::size_t length = folded_contraction_length(scan)) return length;
  }
  const Symbol first = scan.at(0);
  if (first.kind == Kind::letter) return scan.skip(first.length, Kind::letter);
  if (first.kind == Kind::number) return scan.skip_at_most(first.length, Kind::number, digits - 1);
  const Symbol second = scan.at(first.length);
  if (second.kind == Kind::letter && !Scanner::is_line_end(scan.byte(0)))
    return scan.skip(std::size_t{first.length} + second.length, Kind::letter);
  if (first.kind == Kind::other) return scan.skip_line_ends(scan.skip(first.length, Kind::other));
  if (scan.byte(0) == ' ' && second.length > 0 && second.kind == Kind::other)
    return scan.skip_line_ends(scan.skip(std::size_t{1} + second.length, Kind::other));
  return lines_or_blank_length(scan);
}
}  // namespace

std::string_view expression_of(Pattern pattern) { return entry_of(pattern).expression; }
std::string_view name_of(Pattern pattern) { return entry_of(pattern).name; }

std::optional<Pattern> find_pattern(std::string_view expression) {
  for (const Named& named : kPatterns)
    if (named.expression == expression) return named.pattern;
  return std::nullopt;
}

std::size_t piece_length(Pattern pattern, std::string_view text) {
  const Scanner scan(text);
  switch (pattern) {
    case Pattern::gpt2:
      return gpt2_length(scan);
    case Pattern::llama3:
      return llama_length(scan, 3);
    case Pattern::qwen:
      return llama_length(scan, 1);
    case Pattern::characters:
      return scan.at(0).length;
  }
  return text.size();
}

bool always_splits(char before, char after) {
  const auto byte = static_cast<unsigned char>(before);
  return (after == ' ' || after == '\n') && byte < 0x80 &&
         (kAscii[byte] == Kind::letter || kAscii[byte] == Kind::number);
}

std::size_t find_cut(std::string_view text, std::size_t at_least) {
  std::size_t cut = std::max<std::size_t>(1, at_least);
  while (cut < text.size() && !always_splits(text[cut - 1], text[cut])) ++cut;
  return std::min(cut, text.size());
}

}  // namespace trireme::data
