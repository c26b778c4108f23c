#include "data/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "data/tokenizer/unicode.h"
#include "tests/data/tokenizer_json.h"

namespace trireme::data {

namespace {
using nlohmann::json;
using Ids = std::vector<std::int32_t>;

Tokenizer make(const json& content) { return Tokenizer::parse(content.dump(), "T.json"); }

Ids bytes_of(std::string_view text) {
  Ids ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

// The rule as it is written: of all adjacent pairs the lowest rank, of those the leftmost, again and again.
Ids merge_plainly(std::string_view piece, const std::vector<std::string>& merges, const json& vocabulary) {
  std::vector<std::string> parts;
  for (const char c : piece) parts.push_back(name_of_bytes(std::string(1, c)));
  for (bool merged = true; merged;) {
    merged = false;
    for (std::size_t rank = 0; rank < merges.size() && !merged; ++rank) {
      for (std::size_t i = 0; i + 1 < parts.size() && !merged; ++i) {
        if (parts[i] + " " + parts[i + 1] != merges[rank]) continue;
        parts[i] += parts[i + 1];
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        merged = true;
      }
    }
  }
  Ids ids;
  for (const std::string& part : parts) ids.push_back(vocabulary.at(part).get<int>());
  return ids;
}
}  // namespace

TEST(ByteAlphabet, NamesBytesAsGpt2Does) {
  EXPECT_EQ(name_of_bytes(" "), "\u0120");
  EXPECT_EQ(name_of_bytes("\n"), "\u010a");
  EXPECT_EQ(name_of_bytes(std::string(1, '\0')), "\u0100");
  EXPECT_EQ(name_of_bytes("!~"), "!~");
  EXPECT_EQ(name_of_bytes("\xa1\xac\xae\xff"), "\u00a1\u00ac\u00ae\u00ff");
  EXPECT_EQ(name_of_bytes("\xad"), "\u0143");  // the last of the 68
  EXPECT_EQ(bytes_of_name("\u0120a"), " a");
  EXPECT_EQ(bytes_of_name("\u0144"), std::nullopt);
  EXPECT_EQ(bytes_of_name(" "), std::nullopt);
}

TEST(Tokenizer, MergesTheLowestRankFirstAndTheLeftmostOfEquals) {
  const Tokenizer tokenizer = make(small_tokenizer({"b c", "a b", "a a"}));
  EXPECT_EQ(tokenizer.encode("abc"), (Ids{'a', 256}));
  EXPECT_EQ(tokenizer.encode("ab"), (Ids{257}));
  EXPECT_EQ(tokenizer.encode("aaa"), (Ids{258, 'a'}));
  EXPECT_EQ(tokenizer.encode(""), Ids{});
}

TEST(Tokenizer, MergesShortAndLongPiecesByTheSameRule) {
  std::mt19937 random(5);
  std::vector<std::string> merges{"a b", "b a", "a a", "ab ab", "aa b", "c a", "ba ab", "abab c", "b b", "bb bb"};
  const json content = small_tokenizer(merges);
  const Tokenizer tokenizer = make(content);
  for (int i = 0; i < 400; ++i) {
    std::string piece;
    const std::size_t length = random() % 120 + 1;
    for (std::size_t j = 0; j < length; ++j) piece += "aaabbc"[random() % 6];
    ASSERT_EQ(tokenizer.encode(piece), merge_plainly(piece, merges, content["model"]["vocab"])) << piece;
    ASSERT_EQ(tokenizer.encode(piece), tokenizer.encode(piece));
  }
}

TEST(Tokenizer, TakesAWholePieceBeforeAnyMergeWhenMergesAreIgnored) {
  json content = small_tokenizer({"a b"});
  content["model"]["vocab"]["abc"] = 300;
  EXPECT_EQ(make(content).encode("abc"), (Ids{256, 'c'}));
  content["model"]["ignore_merges"] = true;
  EXPECT_EQ(make(content).encode("abc"), (Ids{300}));
  EXPECT_EQ(make(content).encode("abcab"), (Ids{256, 'c', 256}));
}

TEST(Tokenizer, ParsesSpecialTokensOrTakesThemAsText) {
  json content = small_tokenizer();
  content["added_tokens"] = {added_token("<|endoftext|>", 256), added_token("<|end", 257),
                             added_token("xyz", 258, false)};
  const Tokenizer tokenizer = make(content);
  EXPECT_EQ(tokenizer.encode("a<|endoftext|>b"), (Ids{'a', 256, 'b'}));
  EXPECT_EQ(tokenizer.encode("<|endof"), (Ids{257, 'o', 'f'}));
  EXPECT_EQ(tokenizer.encode("a<|endoftext|>b", SpecialText::text), bytes_of("a<|endoftext|>b"));
  EXPECT_EQ(tokenizer.encode("axyz", SpecialText::text), (Ids{'a', 258}));
  EXPECT_EQ(tokenizer.special("<|end"), 257);
  EXPECT_EQ(tokenizer.special("a"), std::nullopt);
  EXPECT_EQ(tokenizer.special_tokens(), (std::vector<std::string>{"<|endoftext|>", "<|end", "xyz"}));
}

TEST(Tokenizer, NeverParsesTheEndOfADocumentFromTextThatIsToStayText) {
  json content = small_tokenizer();
  content["added_tokens"] = {added_token("<|endoftext|>", 256, false)};
  const Tokenizer tokenizer = make(content);
  EXPECT_EQ(tokenizer.end_of_document(), 256);
  EXPECT_EQ(tokenizer.encode("<|endoftext|>", SpecialText::text), bytes_of("<|endoftext|>"));
}

TEST(Tokenizer, HonoursTheBlanksAndWordsOfAddedTokens) {
  json content = small_tokenizer();
  content["added_tokens"] = {added_token("<l>", 256), added_token("<r>", 257), added_token("word", 258)};
  content["added_tokens"][0]["lstrip"] = true;
  content["added_tokens"][1]["rstrip"] = true;
  content["added_tokens"][2]["single_word"] = true;
  const Tokenizer tokenizer = make(content);
  EXPECT_EQ(tokenizer.encode("a \n<l> b"), (Ids{'a', 256, ' ', 'b'}));
  EXPECT_EQ(tokenizer.encode("a <r> \u3000b"), (Ids{'a', ' ', 257, 'b'}));
  EXPECT_EQ(tokenizer.encode("word-word"), (Ids{258, '-', 258}));
  EXPECT_EQ(tokenizer.encode("words"), bytes_of("words"));
  EXPECT_EQ(tokenizer.encode("\u00e9word"), bytes_of("\u00e9word"));
}

TEST(Tokenizer, LooksForNormalizedTokensBehindTheNormalizer) {
  json content = small_tokenizer();
  content["normalizer"] = {{"type", "NFC"}};
  content["added_tokens"] = {added_token("<\u00e9>", 256, false), added_token("<\u00e8>", 257, false)};
  content["added_tokens"][0]["normalized"] = true;
  const Tokenizer tokenizer = make(content);
  EXPECT_EQ(tokenizer.encode("<e\u0301>"), (Ids{256}));
  EXPECT_EQ(tokenizer.encode("<e\u0300>"), bytes_of("<\u00e8>"));
  EXPECT_EQ(tokenizer.encode("<\u00e8>"), (Ids{257}));
}

TEST(Tokenizer, PutsAPrefixSpaceWhereHuggingFaceDoes) {
  json content = small_tokenizer();
  content["pre_tokenizer"]["add_prefix_space"] = true;
  content["added_tokens"] = {added_token("<|x|>", 256)};
  EXPECT_EQ(make(content).encode("a b<|x|>c"), (Ids{' ', 'a', ' ', 'b', 256, ' ', 'c'}));
  EXPECT_EQ(make(content).encode(" a"), (Ids{' ', 'a'}));
}

TEST(Tokenizer, GivesBackBytesThatAreNotUtf8) {
  const Tokenizer tokenizer = make(small_tokenizer());
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(255 - i);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(all)), all);
  EXPECT_EQ(tokenizer.decode(Ids{'a', 99999, -1}), "a\ufffd\ufffd");
}

TEST(Tokenizer, NamesThePlaceOfAByteThatTheVocabularyLacks) {
  json content = small_tokenizer();
  content["model"]["vocab"].erase("q");
  const Tokenizer tokenizer = make(content);
  EXPECT_EQ(tokenizer.encode("abc"), bytes_of("abc"));
  EXPECT_EQ(error_of([&] { tokenizer.encode("a big quiz"); }), "byte 6 of the text (U+0071) is not in the vocabulary");
}

TEST(Tokenizer, KnowsTheUsualNamesOfTheEndOfADocument) {
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"}) {
    json content = small_tokenizer();
    content["added_tokens"] = {added_token("<|im_end|>", 256), added_token(name, 257)};
    EXPECT_EQ(make(content).end_of_document(), 257) << name;
  }
  EXPECT_EQ(make(small_tokenizer()).end_of_document(), std::nullopt);
}

TEST(Tokenizer, CutsLongTextsWithoutChangingTheirIds) {
  for (const bool prefix : {false, true}) {
    json content = small_tokenizer({"a b", "\u0120 a", "\u0120a b"});
    content["added_tokens"] = {added_token("<|x|>", 900)};
    content["pre_tokenizer"]["add_prefix_space"] = prefix;
    const Tokenizer tokenizer = make(content);
    std::string text;
    std::mt19937 random(3);
    for (int i = 0; i < 3000; ++i)
      text += std::vector<std::string>{"ab", " ", "  ", "\n", " ab", "1", "'s", "<|x|>", "\u00e9", "."}[random() % 10];
    Ids joined;
    const auto parts = tokenizer.cut(text, SpecialText::parse, 7);
    EXPECT_GT(parts.size(), 300u);
    std::int64_t special = 0;
    for (const Tokenizer::Part& part : parts) special += tokenizer.encode_part(part, SpecialText::parse, joined);
    EXPECT_EQ(joined, tokenizer.encode(text));
    EXPECT_EQ(special, std::count(joined.begin(), joined.end(), 900));
  }
}

TEST(Tokenizer, SeveralOfThemServeSeveralThreads) {
  const Tokenizer plain = make(small_tokenizer());
  const Tokenizer merging = make(small_tokenizer({"a b"}));
  std::vector<std::jthread> threads;
  std::vector<int> wrong(4);
  for (int& count : wrong)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        count += plain.encode("ab ab") != Ids{'a', 'b', ' ', 'a', 'b'};
        count += merging.encode("ab ab") != Ids{256, ' ', 256};
      }
    });
  threads.clear();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST(StreamDecoder, HoldsBackAnUnfinishedCharacter) {
  const Tokenizer tokenizer = make(small_tokenizer());
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push(0xf0), "");
  EXPECT_EQ(decoder.push(0x9f), "");
  EXPECT_EQ(decoder.push(0x98), "");
  EXPECT_EQ(decoder.push(0x80), "\U0001f600");
  EXPECT_EQ(decoder.push(0xe2), "");
  EXPECT_EQ(decoder.push('a'),
            "\xe2"
            "a");
  EXPECT_EQ(decoder.push(0x80), "\x80");
  EXPECT_EQ(decoder.push(0xc3), "");
  EXPECT_EQ(decoder.finish(), "\xc3");
  EXPECT_EQ(decoder.finish(), "");
}

// Rows of Unicode's NormalizationTest.txt: source and its form C.
TEST(Normalization, ComposesAsUnicodesOwnExamples) {
  EXPECT_EQ(normalize_nfc("D\u0307"), "\u1e0a");
  EXPECT_EQ(normalize_nfc("D\u0307\u0323"), "\u1e0c\u0307");
  EXPECT_EQ(normalize_nfc("\u212b\u2126"), "\u00c5\u03a9");
  EXPECT_EQ(normalize_nfc("\u1112\u1161\u11ab"), "\ud55c");
  EXPECT_EQ(normalize_nfc("\u0958"), "\u0915\u093c");
  EXPECT_EQ(normalize_nfc("\U0001d15e"), "\U0001d157\U0001d165");
  EXPECT_EQ(normalize_nfc("a\u0315\u0300\u05ae\u0062"), "\u00e0\u05ae\u0315b");
}

TEST(Normalization, LeavesBytesThatAreNotUtf8AndWhatIsComposed) {
  EXPECT_EQ(normalize_nfc("plain \u00e9 text"), "plain \u00e9 text");
  EXPECT_EQ(normalize_nfc("e\xff\u0301"), "e\xff\u0301");
  EXPECT_EQ(normalize_nfc("\xcc"
                          "e\u0301\xf0\x9f"),
            "\xcc"
            "\u00e9\xf0\x9f");
  EXPECT_EQ(normalize_nfc(std::string("e\0\u0301", 4)), std::string("e\0\u0301", 4));
  EXPECT_EQ(normalize_nfc(""), "");
}

TEST(Utf8, ReplacesEachMaximalBrokenPart) {
  EXPECT_EQ(replace_invalid_utf8("a\xe2\x82"), "a\ufffd");
  EXPECT_EQ(replace_invalid_utf8("\xf0\x9f\x98z"), "\ufffdz");
  EXPECT_EQ(replace_invalid_utf8("\xc0\xaf"), "\ufffd\ufffd");
  EXPECT_EQ(replace_invalid_utf8("\xed\xa0\x80"), "\ufffd\ufffd\ufffd");
  EXPECT_EQ(replace_invalid_utf8("\xf4\x90\x80\x80"), "\ufffd\ufffd\ufffd\ufffd");
  EXPECT_EQ(replace_invalid_utf8("\u00e9\xff"), "\u00e9\ufffd");
  EXPECT_EQ(find_invalid_utf8("\u00e9\U0001f600 ok"), std::nullopt);
  EXPECT_EQ(find_invalid_utf8("ok \u00e9\x80"), 5u);
}

}  // namespace trireme::data
