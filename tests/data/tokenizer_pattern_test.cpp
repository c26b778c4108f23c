#define PCRE2_CODE_UNIT_WIDTH 8
#include <gtest/gtest.h>
#include <pcre2.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/tokenizer/pattern.h"
#include "data/tokenizer/unicode.h"

namespace trireme::data {

namespace {
using Pieces = std::vector<std::string>;

Pieces split(Pattern pattern, std::string_view text) {
  Pieces pieces;
  while (!text.empty()) {
    const std::size_t length = piece_length(pattern, text);
    pieces.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return pieces;
}

// A regular expression engine that reads the literal pattern.
class Regex {
 public:
  explicit Regex(std::string_view expression) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(), PCRE2_UTF | PCRE2_UCP,
                              &error, &offset, nullptr));
    core::check(code_ != nullptr, "pattern does not compile at {}", offset);
    match_.reset(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
  }

  // End of the match that starts at `from`; 0 when there is none there.
  std::size_t match(std::string_view text, std::size_t from) const {
    const int found = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                                  PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK, match_.get(), nullptr);
    return found > 0 ? pcre2_get_ovector_pointer(match_.get())[1] : 0;
  }

  Pieces split(const std::string& text) const {
    Pieces pieces;
    for (std::size_t from = 0; from < text.size();) {
      const std::size_t end = match(text, from);
      core::check(end > from, "no match at {}", from);
      pieces.push_back(text.substr(from, end - from));
      from = end;
    }
    return pieces;
  }

 private:
  struct FreeCode {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  };
  struct FreeMatch {
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  };
  std::unique_ptr<pcre2_code, FreeCode> code_;
  std::unique_ptr<pcre2_match_data, FreeMatch> match_;
};

// U+180E is a space to PCRE2's \s, though not White_Space.
constexpr std::uint32_t kMongolianVowelSeparator = 0x180e;

bool is_surrogate(std::uint32_t code) { return code >= 0xd800 && code < 0xe000; }

std::string encode_code(std::uint32_t code) {
  std::string text;
  append_utf8(text, code);
  return text;
}

// Code points that both versions of Unicode know.
std::vector<std::uint32_t> shared_code_points() {
  const Regex assigned("\\P{Cn}");
  std::vector<std::uint32_t> codes;
  for (std::uint32_t code = 0; code < 0x110000; ++code)
    if (!is_surrogate(code) && code != kMongolianVowelSeparator && assigned.match(encode_code(code), 0) > 0)
      codes.push_back(code);
  return codes;
}

class RandomText {
 public:
  RandomText() : any_(shared_code_points()) {}

  std::string make() {
    static const std::vector<std::string> common{" ",
                                                 " ",
                                                 " ",
                                                 "\n",
                                                 "\r",
                                                 "\r\n",
                                                 "\t",
                                                 "'",
                                                 "'s",
                                                 "'S",
                                                 "'ll",
                                                 "'lL",
                                                 "'re",
                                                 "'\xc5\xbf",
                                                 "'VE",
                                                 "a",
                                                 "b",
                                                 "Z",
                                                 "word",
                                                 "1",
                                                 "22",
                                                 "333",
                                                 "4444",
                                                 "-",
                                                 "_",
                                                 "...",
                                                 "\xc2\x85",
                                                 "\xe3\x80\x80",
                                                 "\xe2\x80\x8b",
                                                 "\x1c",
                                                 "\xc3\xa9",
                                                 "\xe4\xb8\xad",
                                                 "\xd9\xa3",
                                                 "\xf0\x9f\x98\x80",
                                                 "\xcc\x81",
                                                 "\xc2\xa0",
                                                 "\xe2\x85\xa7"};
    std::string text;
    const std::size_t count = random_() % 24 + 1;
    for (std::size_t i = 0; i < count; ++i) {
      if (random_() % 5 == 0)
        append_utf8(text, any_[random_() % any_.size()]);
      else
        text += common[random_() % common.size()];
    }
    return text;
  }

 private:
  std::mt19937_64 random_{20240613};
  std::vector<std::uint32_t> any_;
};

constexpr Pattern kAll[] = {Pattern::gpt2, Pattern::llama3, Pattern::qwen, Pattern::characters};
}  // namespace

TEST(PreTokenizer, SplitsTheExamplesOfTheFormatAsStated) {
  EXPECT_EQ(split(Pattern::gpt2, "a  b"), (Pieces{"a", " ", " b"}));
  EXPECT_EQ(split(Pattern::llama3, "a  b"), (Pieces{"a", " ", " b"}));
  EXPECT_EQ(split(Pattern::gpt2, "DON'T"), (Pieces{"DON", "'", "T"}));
  EXPECT_EQ(split(Pattern::llama3, "DON'T"), (Pieces{"DON", "'T"}));
  EXPECT_EQ(split(Pattern::gpt2, "_x-y"), (Pieces{"_", "x", "-", "y"}));
  EXPECT_EQ(split(Pattern::llama3, "_x-y"), (Pieces{"_x", "-y"}));
  EXPECT_EQ(split(Pattern::gpt2, "1234567"), (Pieces{"1234567"}));
  EXPECT_EQ(split(Pattern::llama3, "1234567"), (Pieces{"123", "456", "7"}));
  EXPECT_EQ(split(Pattern::qwen, "1234567"), (Pieces{"1", "2", "3", "4", "5", "6", "7"}));
  EXPECT_EQ(split(Pattern::gpt2, "a\n\n  b\r\nc"), (Pieces{"a", "\n\n ", " b", "\r", "\n", "c"}));
  EXPECT_EQ(split(Pattern::llama3, "a\n\n  b\r\nc"), (Pieces{"a", "\n\n", " ", " b", "\r\n", "c"}));
}

TEST(PreTokenizer, TakesWhiteSpaceFromThePropertyOfThatName) {
  for (const std::uint32_t code :
       {0x09u, 0x0du, 0x20u, 0x85u, 0xa0u, 0x1680u, 0x2000u, 0x200au, 0x2028u, 0x2029u, 0x202fu, 0x205fu, 0x3000u})
    EXPECT_EQ(class_of(code), CharacterClass::space) << code;
  for (const std::uint32_t code : {0x1cu, 0x180eu, 0x200bu, 0xfeffu, 0x2060u})
    EXPECT_EQ(class_of(code), CharacterClass::other) << code;
}

TEST(PreTokenizer, AgreesWithARegularExpressionEngineOnRandomText) {
  RandomText random;
  for (const Pattern pattern : kAll) {
    const Regex regex(expression_of(pattern));
    for (int i = 0; i < 40000; ++i) {
      const std::string text = random.make();
      ASSERT_EQ(split(pattern, text), regex.split(text)) << name_of(pattern) << ": " << testing::PrintToString(text);
    }
  }
}

TEST(PreTokenizer, TheComparisonWithTheEngineNoticesAnotherPattern) {
  RandomText random;
  const Regex regex(expression_of(Pattern::qwen));
  int different = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string text = random.make();
    different += split(Pattern::llama3, text) != regex.split(text);
  }
  EXPECT_GT(different, 10);
}

TEST(PreTokenizer, GivesEveryCodePointTheEnginesClass) {
  const Regex letter("\\p{L}");
  const Regex number("\\p{N}");
  const Regex space("\\s");
  for (const std::uint32_t code : shared_code_points()) {
    const std::string text = encode_code(code);
    const CharacterClass expected = letter.match(text, 0)   ? CharacterClass::letter
                                    : number.match(text, 0) ? CharacterClass::number
                                    : space.match(text, 0)  ? CharacterClass::space
                                                            : CharacterClass::other;
    ASSERT_EQ(class_of(code), expected) << fmt::format("U+{:04X}", code);
  }
}

TEST(PreTokenizer, TreatsBytesThatAreNotUtf8AsSymbols) {
  EXPECT_EQ(split(Pattern::gpt2, "ab\xff\xfe cd"), (Pieces{"ab", "\xff\xfe", " cd"}));
  EXPECT_EQ(split(Pattern::gpt2, "x \x80y"), (Pieces{"x", " \x80", "y"}));
  EXPECT_EQ(split(Pattern::llama3, "\x80y"), (Pieces{"\x80y"}));
  EXPECT_EQ(split(Pattern::characters, "\xe4\xb8z"), (Pieces{"\xe4", "\xb8", "z"}));
  // An overlong slash, a surrogate and a code point beyond the last are no characters.
  for (const char* text : {"\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80"})
    EXPECT_EQ(split(Pattern::characters, text).size(), std::string_view(text).size()) << text;
}

TEST(PreTokenizer, CutsBetweenAWordAndABlankWhateverStandsAround) {
  RandomText random;
  for (const Pattern pattern : kAll) {
    for (int i = 0; i < 5000; ++i) {
      const std::string left = random.make() + "x7z"[i % 3];
      const std::string right = " \n"[i % 2] + random.make();
      ASSERT_TRUE(always_splits(left.back(), right.front()));
      Pieces joined = split(pattern, left);
      for (std::string& piece : split(pattern, right)) joined.push_back(std::move(piece));
      ASSERT_EQ(joined, split(pattern, left + right)) << testing::PrintToString(left + right);
    }
  }
}

TEST(PreTokenizer, RecognisesOnlyTheExactExpressions) {
  for (const Pattern pattern : kAll) EXPECT_EQ(find_pattern(expression_of(pattern)), pattern);
  EXPECT_EQ(find_pattern(R"(\s+|\S+)"), std::nullopt);
  EXPECT_EQ(find_pattern(std::string(expression_of(Pattern::gpt2)) + " "), std::nullopt);
}

}  // namespace trireme::data
