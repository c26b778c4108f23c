#include "data/tokenizer/json_line.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "data/tokenizer/unicode.h"

namespace trireme::data {

namespace {
constexpr int kMaximumDepth = 512;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class LineReader {
 public:
  LineReader(std::string_view line, const JsonTextOptions& options, const std::string& where)
      : line_(line), options_(options), where_(where) {}

  std::string read() {
    skip_blanks();
    if (peek() != '{') fail_here("an object must begin with {");
    read_members();
    skip_blanks();
    if (at_ < line_.size()) fail_here("text after the object");
    if (!found_ && !wrong_kind_.empty())
      core::fail(core::ExitCode::bad_data, "{}: \"{}\" is {}", where_, options_.key, wrong_kind_);
    if (!found_) report_missing();
    return std::move(*found_);
  }

 private:
  [[noreturn]] void fail_at(std::size_t position, std::string_view reason) const {
    core::fail(core::ExitCode::bad_data, "{}: not a JSON object (column {}: {})", where_, position + 1, reason);
  }
  [[noreturn]] void fail_here(std::string_view reason) const {
    fail_at(at_, at_ >= line_.size() ? "the line ends too early" : reason);
  }
  [[noreturn]] void report_missing() const;

  char peek() const { return at_ < line_.size() ? line_[at_] : '\0'; }
  void skip_blanks() {
    while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r' || line_[at_] == '\n'))
      ++at_;
  }
  void read_members();
  void read_wanted();
  void skip_value(int depth);
  void skip_items(int depth, bool object);
  void skip_number();
  void skip_digits();
  void skip_word(std::string_view word);
  std::string_view skip_string();
  std::string unescape(std::string_view raw, bool strict) const;
  std::uint32_t unescape_code(std::string_view raw, std::size_t& position, bool strict) const;
  std::uint32_t read_hex(std::string_view raw, std::size_t position) const;
  std::size_t position_of(std::string_view raw) const { return static_cast<std::size_t>(raw.data() - line_.data()); }

  std::string_view line_;
  const JsonTextOptions& options_;
  const std::string& where_;
  std::size_t at_ = 0;
  std::vector<std::string> keys_;
  std::optional<std::string> found_;
  std::string_view wrong_kind_;
};

void LineReader::report_missing() const {
  constexpr std::size_t kShown = 20;
  std::vector<std::string> shown(keys_.begin(),
                                 keys_.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, keys_.size())));
  if (keys_.size() > kShown) shown.push_back("...");
  core::fail(core::ExitCode::bad_data, "{}: no key \"{}\" (has: {})", where_, options_.key,
             shown.empty() ? "none" : core::escaped(fmt::format("{}", fmt::join(shown, ", "))));
}

void LineReader::read_members() {
  ++at_;
  skip_blanks();
  if (peek() == '}') {
    ++at_;
    return;
  }
  while (true) {
    skip_blanks();
    if (peek() != '"') fail_here("a key must begin with \"");
    std::string key = unescape(skip_string(), false);
    skip_blanks();
    if (peek() != ':') fail_here("a key must be followed by :");
    ++at_;
    skip_blanks();
    if (key == options_.key)
      read_wanted();
    else
      skip_value(1);
    keys_.push_back(std::move(key));
    skip_blanks();
    if (peek() == '}') break;
    if (peek() != ',') fail_here("a value must be followed by , or }");
    ++at_;
  }
  ++at_;
}

// A value of another kind is reported once the whole line turned out to be an object.
void LineReader::read_wanted() {
  const char first = peek();
  found_.reset();
  if (first == '"') {
    found_ = unescape(skip_string(), true);
    return;
  }
  skip_value(1);
  wrong_kind_ = first == '{'                   ? "an object"
                : first == '['                 ? "an array"
                : first == 'n'                 ? "null"
                : first == 't' || first == 'f' ? "a boolean"
                                               : "a number";
}

void LineReader::skip_value(int depth) {
  if (depth > kMaximumDepth) fail_here("nested too deeply");
  switch (peek()) {
    case '"':
      skip_string();
      return;
    case '{':
      return skip_items(depth, true);
    case '[':
      return skip_items(depth, false);
    case 't':
      return skip_word("true");
    case 'f':
      return skip_word("false");
    case 'n':
      return skip_word("null");
    default:
      return skip_number();
  }
}

void LineReader::skip_items(int depth, bool object) {
  const char close = object ? '}' : ']';
  ++at_;
  skip_blanks();
  if (peek() == close) {
    ++at_;
    return;
  }
  while (true) {
    skip_blanks();
    if (object) {
      if (peek() != '"') fail_here("a key must begin with \"");
      skip_string();
      skip_blanks();
      if (peek() != ':') fail_here("a key must be followed by :");
      ++at_;
      skip_blanks();
    }
    skip_value(depth + 1);
    skip_blanks();
    if (peek() == close) break;
    if (peek() != ',') fail_here(object ? "a value must be followed by , or }" : "a value must be followed by , or ]");
    ++at_;
  }
  ++at_;
}

void LineReader::skip_digits() {
  if (!is_digit(peek())) fail_here("not a value");
  while (is_digit(peek())) ++at_;
}

void LineReader::skip_number() {
  if (peek() == '-') ++at_;
  if (peek() == '0')
    ++at_;
  else
    skip_digits();
  if (peek() == '.') {
    ++at_;
    skip_digits();
  }
  if (peek() == 'e' || peek() == 'E') {
    ++at_;
    if (peek() == '+' || peek() == '-') ++at_;
    skip_digits();
  }
}

void LineReader::skip_word(std::string_view word) {
  if (line_.substr(at_, word.size()) != word) fail_here("not a value");
  at_ += word.size();
}

// Returns what stands between the quotes.
std::string_view LineReader::skip_string() {
  const std::size_t start = at_++;
  while (at_ < line_.size() && line_[at_] != '"') {
    if (static_cast<unsigned char>(line_[at_]) < 0x20) fail_here("a control character in a string");
    if (line_[at_] == '\\')
      unescape_code(line_, at_, false);
    else
      ++at_;
  }
  if (at_ >= line_.size()) fail_at(start, "unterminated string");
  return line_.substr(start + 1, at_++ - start - 1);
}

std::string LineReader::unescape(std::string_view raw, bool strict) const {
  std::string text;
  text.reserve(raw.size());
  std::size_t position = 0;
  while (position < raw.size()) {
    const std::size_t end = std::min(raw.find('\\', position), raw.size());
    text.append(raw.substr(position, end - position));
    position = end;
    if (position < raw.size()) append_utf8(text, unescape_code(raw, position, strict));
  }
  return text;
}

// Reads the escape at `position` and moves behind it.
std::uint32_t LineReader::unescape_code(std::string_view raw, std::size_t& position, bool strict) const {
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const std::size_t start = position;
  if (position + 1 >= raw.size()) fail_at(position_of(raw) + start, "the line ends in an escape");
  const char letter = raw[start + 1];
  position += 2;
  if (letter != 'u') {
    const std::size_t index = kLetters.find(letter);
    if (index == std::string_view::npos) fail_at(position_of(raw) + start, "unknown escape");
    return static_cast<unsigned char>(kMeanings[index]);
  }
  const std::uint32_t code = read_hex(raw, position);
  position += 4;
  if (code < 0xd800 || code > 0xdfff) return code;
  if (code < 0xdc00 && raw.substr(position, 2) == "\\u") {
    const std::uint32_t low = read_hex(raw, position + 2);
    if (low >= 0xdc00 && low <= 0xdfff) {
      position += 6;
      return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
  }
  if (strict && !options_.replace_surrogates)
    core::fail(core::ExitCode::bad_data,
               "{}: \"{}\" has the lone surrogate {} (column {}); --invalid-utf8 replace makes it U+FFFD", where_,
               options_.key, raw.substr(start, 6), position_of(raw) + start + 1);
  return 0xfffd;
}

std::uint32_t LineReader::read_hex(std::string_view raw, std::size_t position) const {
  std::uint32_t value = 0;
  const std::string_view digits = raw.substr(std::min(position, raw.size()), 4);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (digits.size() != 4 || error != std::errc() || end != digits.data() + 4)
    fail_at(position_of(raw) + position - 2, "\\u needs four hexadecimal digits");
  return value;
}
}  // namespace

std::string read_json_text(std::string_view line, const JsonTextOptions& options, const std::string& where) {
  return LineReader(line, options, where).read();
}

}  // namespace trireme::data
