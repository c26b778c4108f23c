#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "data/tokenizer/documents.h"
#include "data/tokenizer/encode_corpus.h"
#include "data/tokenizer/json_line.h"
#include "tests/data/tokenizer_json.h"

namespace trireme::data {

namespace {
using testing::EndsWith;
using testing::HasSubstr;
namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

std::string read_line(std::string_view line, bool replace = false) {
  return read_json_text(line, {"text", replace}, "notes.jsonl:17");
}
std::string refusal(std::string_view line) {
  return error_of([&] { read_line(line); });
}

class Documents : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path write(const std::string& name, std::string_view text) {
    core::write_whole(folder_ / name, text, true);
    return folder_ / name;
  }
  static Texts read(const std::vector<fs::path>& inputs, const DocumentOptions& options = {}) {
    RecordReader reader(inputs, options);
    Texts texts;
    Record record;
    while (reader.next(record)) texts.push_back(take_text(record, options));
    return texts;
  }
  fs::path folder_ = fs::path(testing::TempDir()) /
                     (std::string("documents-") + testing::UnitTest::GetInstance()->current_test_info()->name());
};

struct Corpus {
  std::vector<std::vector<std::int32_t>> documents;
  EncodeSummary summary;
};

Corpus encode(const std::vector<fs::path>& inputs, const Tokenizer& tokenizer, const EncodeOptions& options) {
  Corpus corpus;
  corpus.summary = encode_corpus(inputs, tokenizer, options, [&](std::span<const std::int32_t> ids) {
    corpus.documents.emplace_back(ids.begin(), ids.end());
  });
  return corpus;
}
}  // namespace

TEST(JsonLine, ReadsTheTextUnderAKey) {
  EXPECT_EQ(read_line(R"({"text": "a\n\"\\\/\u00e9\ud83d\ude00"})"), "a\n\"\\/\u00e9\U0001f600");
  EXPECT_EQ(read_line(R"( { "id" : -1.5e+3 , "meta":{"text":[1,{}, [] ,true,false,null]}, "text":"x" } )"), "x");
  EXPECT_EQ(read_line(R"({"te\u0078t":"x"})"), "x");
  EXPECT_EQ(read_line(R"({"text":"a","text":"b"})"), "b");
  EXPECT_EQ(read_line("{\"text\":\"\xff\xe2\x82\"}"), "\xff\xe2\x82");
  EXPECT_EQ(read_line("{\"text\":\"\"}"), "");
}

TEST(JsonLine, SaysWhereALineIsNoObject) {
  const std::string line = R"({"id": 12345678, "body": "a", "text": "abc)";
  EXPECT_EQ(refusal(line), "notes.jsonl:17: not a JSON object (column 39: unterminated string)");
  EXPECT_THAT(refusal("[1]"), HasSubstr("notes.jsonl:17: not a JSON object (column 1: "));
  EXPECT_THAT(refusal("{\"text\":\"a\"} x"), HasSubstr("column 14: text after the object"));
  EXPECT_THAT(refusal("{\"text\":\"a\",}"), HasSubstr("column 13: "));
  EXPECT_THAT(refusal("{\"text\":\"a\""), HasSubstr("column 12: the line ends too early"));
  EXPECT_THAT(refusal("{\"text\":\"a\tb\"}"), HasSubstr("column 11: a control character"));
  EXPECT_THAT(refusal(R"({"a":"\q","text":"a"})"), HasSubstr("column 7: unknown escape"));
  EXPECT_THAT(refusal(R"({"a":"\u12g4","text":"a"})"), HasSubstr("column 7: \\u needs four"));
  EXPECT_THAT(refusal("{\"a\":\"\\"), HasSubstr("not a JSON object"));
  for (const char* value : {"01", "1.", "-", "+1", ".5", "1e", "tru", "nul", "'a'", "NaN", ""})
    EXPECT_THAT(refusal(fmt::format("{{\"a\":{},\"text\":\"\"}}", value)), HasSubstr("not a JSON object")) << value;
  EXPECT_THAT(refusal("{\"a\":" + std::string(100000, '[')), HasSubstr("nested too deeply"));
}

TEST(JsonLine, AgreesWithAnotherParserOnWhatIsAnObject) {
  const std::string whole = R"({"a":[1,-2.5e3,true,null,{"b":"\u00e9\n"}],"text":"x\\y","c":{}})";
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    for (const char* inserted : {"", ",", "\"", "}", "1", " ", "\\", "]"}) {
      const std::string line = whole.substr(0, cut) + inserted + whole.substr(cut);
      const bool accepted = nlohmann::json::accept(line);
      ASSERT_EQ(refusal(line).find("not a JSON object") == std::string::npos, accepted) << line;
    }
  }
}

TEST(JsonLine, NamesTheKeysOfAnObjectWithoutText) {
  EXPECT_EQ(refusal(R"({"body":"x","id":1})"), "notes.jsonl:17: no key \"text\" (has: body, id)");
  EXPECT_EQ(refusal("{}"), "notes.jsonl:17: no key \"text\" (has: none)");
  EXPECT_EQ(refusal(R"({"text":7})"), "notes.jsonl:17: \"text\" is a number");
  EXPECT_EQ(refusal(R"({"text":null})"), "notes.jsonl:17: \"text\" is null");
  EXPECT_EQ(refusal(R"({"text":["a"]})"), "notes.jsonl:17: \"text\" is an array");
  EXPECT_EQ(refusal(R"({"text":{}})"), "notes.jsonl:17: \"text\" is an object");
  EXPECT_EQ(refusal(R"({"text":true})"), "notes.jsonl:17: \"text\" is a boolean");
}

TEST(JsonLine, TakesALoneSurrogateOnlyToReplaceIt) {
  for (const char* escape : {R"(\ud83d)", R"(\ude00)", R"(\ud83d\u0041)", R"(\ud83d\\)"}) {
    const std::string line = fmt::format(R"({{"text":"a{}"}})", escape);
    EXPECT_THAT(refusal(line), HasSubstr("notes.jsonl:17: \"text\" has the lone surrogate \\u")) << line;
    EXPECT_THAT(read_line(line, true), testing::StartsWith("a\ufffd"));
  }
}

TEST_F(Documents, ReadsLinesThatEndInALineFeedOnly) {
  const fs::path file =
      write("a.jsonl", "\xef\xbb\xbf{\"text\":\"1\"}\r\n\n  \t\n{\"text\":\"\u2028\"}\n{\"text\":\"3\"}");
  EXPECT_EQ(read({file}), (Texts{"1", "\u2028", "3"}));
  const fs::path bad = write("b.jsonl", "\n\n{\"text\":\"1\"}\n{\"body\":1}\n");
  EXPECT_EQ(error_of([&] { read({bad}); }), bad.string() + ":4: no key \"text\" (has: body)");
}

TEST_F(Documents, CutsPlainTextAtASeparator) {
  const fs::path file = write("a.txt", "\xef\xbb\xbfone<>two<><>three<>");
  EXPECT_EQ(read({file}), (Texts{"one<>two<><>three<>"}));
  EXPECT_EQ(read({file}, {.separator = "<>"}), (Texts{"one", "two", "", "three"}));
  const fs::path json = write("b.txt", "{\"t\":\"x\"}\n");
  EXPECT_EQ(read({json, json}, {.jsonl = true, .key = "t"}), (Texts{"x", "x"}));
}

TEST_F(Documents, FindsSeparatorsAcrossBlocks) {
  // Blocks are 4 MiB: the separator stands across the first border, by 1 to 6 of its 7 bytes.
  constexpr std::size_t kBlock = std::size_t{4} << 20;
  for (std::size_t before = 1; before < 7; ++before) {
    const std::string first(kBlock - before, 'a');
    const std::string second(kBlock + 5, 'b');
    const fs::path file = write("a.txt", first + "==cut==" + second + "==cut==c");
    EXPECT_EQ(read({file}, {.separator = "==cut=="}), (Texts{first, second, "c"})) << before;
  }
}

TEST_F(Documents, TreatsBytesThatAreNotUtf8AsAsked) {
  const fs::path text = write("notes.txt", "\xef\xbb\xbf" + std::string(809, 'a') + "\xe2\x82z");
  EXPECT_THAT(read({text}).front(), EndsWith("a\xe2\x82z"));
  EXPECT_THAT(read({text}, {.invalid = InvalidUtf8::replace}).front(), EndsWith("a\ufffdz"));
  EXPECT_EQ(error_of([&] { read({text}, {.invalid = InvalidUtf8::error}); }),
            text.string() + ": byte 812 is not UTF-8");
  const fs::path lines = write("notes.jsonl", "{\"text\":\"a\"}\n{\"text\":\"\xff\"}\n");
  EXPECT_EQ(read({lines}), (Texts{"a", "\xff"}));
  EXPECT_EQ(read({lines}, {.invalid = InvalidUtf8::replace}), (Texts{"a", "\ufffd"}));
  EXPECT_EQ(error_of([&] { read({lines}, {.invalid = InvalidUtf8::error}); }),
            lines.string() + ":2: byte 22 is not UTF-8");
}

TEST_F(Documents, EncodesWithTheEndOfDocumentOnTheAskedSide) {
  const Tokenizer tokenizer = Tokenizer::parse(small_tokenizer().dump(), "T.json");
  const fs::path file =
      write("a.jsonl", "{\"text\":\"\"}\n{\"text\":\"a\"}\n{\"text\":\"\"}\n{\"text\":\"bc\"}\n{\"text\":\"\"}\n");
  using Lists = std::vector<std::vector<std::int32_t>>;
  const Corpus at_end = encode({file}, tokenizer, {.end_of_document = 900});
  EXPECT_EQ(at_end.documents, (Lists{{'a', 900}, {'b', 'c', 900}}));
  EXPECT_EQ(at_end.summary.empty, 3);
  EXPECT_EQ(at_end.summary.tokens, 5);
  const Corpus at_start = encode({file}, tokenizer, {.end_of_document = 900, .end_comes_first = true});
  EXPECT_EQ(at_start.documents, (Lists{{900, 'a'}, {900, 'b', 'c'}}));
  EXPECT_EQ(encode({file}, tokenizer, {}).documents, (Lists{{'a'}, {'b', 'c'}}));
}

TEST_F(Documents, CountsParsedSpecialTokens) {
  nlohmann::json content = small_tokenizer();
  content["added_tokens"] = {added_token("<|endoftext|>", 256)};
  const Tokenizer tokenizer = Tokenizer::parse(content.dump(), "T.json");
  const fs::path file = write("a.txt", "a<|endoftext|>b<|endoftext|>");
  EXPECT_EQ(encode({file}, tokenizer, {.end_of_document = 256}).summary.special, 2);
  EXPECT_EQ(encode({file}, tokenizer, {.special = SpecialText::text}).summary.special, 0);
}

TEST_F(Documents, GivesTheSameFromOneThreadAndSeveral) {
  const Tokenizer tokenizer = Tokenizer::parse(small_tokenizer({"a b", "ab ab"}).dump(), "T.json");
  std::string large;
  std::string lines;
  for (int i = 0; large.size() < 3'000'000; ++i) large += i % 7 == 0 ? "\n\n abab" : fmt::format(" abab{} ab", i);
  for (int i = 0; lines.size() < 3'000'000; ++i) lines += fmt::format("{{\"text\":\"ab {} abab\"}}\n", i);
  const std::vector<fs::path> inputs{write("a.jsonl", lines), write("b.txt", large), write("c.jsonl", lines)};
  const Corpus one = encode(inputs, tokenizer, {.end_of_document = 900, .threads = 1});
  const Corpus five = encode(inputs, tokenizer, {.end_of_document = 900, .threads = 5});
  EXPECT_EQ(one.documents, five.documents);
  EXPECT_GT(one.documents.size(), 100'000u);
  std::vector<std::int32_t> whole = tokenizer.encode(large);
  whole.push_back(900);
  EXPECT_TRUE(std::find(five.documents.begin(), five.documents.end(), whole) != five.documents.end());
}

TEST_F(Documents, ReportsTheFirstErrorWhateverTheThreads) {
  const Tokenizer tokenizer = Tokenizer::parse(small_tokenizer().dump(), "T.json");
  std::string lines;
  for (int i = 0; i < 200'000; ++i) lines += i >= 60'000 && i % 10 == 0 ? "{\"text\":1}\n" : "{\"text\":\"abc def\"}\n";
  const fs::path file = write("a.jsonl", lines);
  for (const int threads : {1, 4})
    EXPECT_EQ(error_of([&] { encode({file}, tokenizer, {.threads = threads}); }),
              file.string() + ":60001: \"text\" is a number");
}

TEST_F(Documents, RefusesInputsWithoutDocuments) {
  const Tokenizer tokenizer = Tokenizer::parse(small_tokenizer().dump(), "T.json");
  const fs::path empty = write("a.txt", "");
  const fs::path blank = write("b.jsonl", "\n\n");
  EXPECT_THAT(error_of([&] { encode({empty, blank, empty}, tokenizer, {}); }), HasSubstr("no documents in 3 inputs"));
  EXPECT_THAT(error_of([&] { encode({folder_ / "absent.txt"}, tokenizer, {}); }), HasSubstr("absent.txt"));
}

TEST_F(Documents, NamesFileAndPlaceOfACharacterThatTheVocabularyLacks) {
  nlohmann::json content = small_tokenizer();
  content["model"]["vocab"].erase("q");
  const Tokenizer tokenizer = Tokenizer::parse(content.dump(), "T.json");
  const fs::path text = write("a.txt",
                              "\xef\xbb\xbf"
                              "one quiz");
  EXPECT_EQ(error_of([&] { encode({text}, tokenizer, {}); }),
            text.string() + ": byte 7 (U+0071) is not in the tokenizer's vocabulary");
  const fs::path lines = write("a.jsonl", "{\"text\":\"a\"}\n{\"text\":\"\\nq\"}\n");
  EXPECT_EQ(error_of([&] { encode({lines}, tokenizer, {}); }),
            lines.string() + ":2: byte 1 of \"text\" (U+0071) is not in the tokenizer's vocabulary");
}

}  // namespace trireme::data
