#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/file.h"
#include "data/tokenizer/definition.h"
#include "data/tokenizer/tokenizer.h"
#include "tests/data/tokenizer_json.h"

namespace trireme::data {

namespace {
using nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;

Tokenizer parse(const std::string& text) { return Tokenizer::parse(text, "T.json"); }
std::string refusal(const json& content) {
  return error_of([&] { parse(content.dump()); });
}
std::string refusal(const std::string& text) {
  return error_of([&] { parse(text); });
}

// A file with one line of its vocabulary written by hand, which a JSON object cannot hold.
std::string with_entry(const std::string& entry) {
  std::string text = small_tokenizer().dump();
  const std::string start = "\"vocab\":{";
  return text.insert(text.find(start) + start.size(), entry + ",");
}

class TokenizerFolder : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const char* name, std::string_view text) { core::write_whole(folder_ / name, text, true); }
  fs::path folder_ = fs::path(testing::TempDir()) /
                     (std::string("tokenizer-") + testing::UnitTest::GetInstance()->current_test_info()->name());
};
}  // namespace

TEST(TokenizerJson, ReadsMergesAsStringsAndAsPairs) {
  json content = small_tokenizer({"a b", "ab c"});
  const Tokenizer strings = parse(content.dump());
  content["model"]["merges"] = json::array({json::array({"a", "b"}), json::array({"ab", "c"})});
  const Tokenizer pairs = parse(content.dump());
  EXPECT_EQ(strings.encode("abcab"), (std::vector<std::int32_t>{257, 256}));
  EXPECT_EQ(strings.encode("abcab"), pairs.encode("abcab"));
}

TEST(TokenizerJson, RefusesIdsThatAreNone) {
  EXPECT_EQ(refusal(with_entry("\"xx\":-5")),
            "T.json: vocabulary entry \"xx\": -5 is not an id (an integer from 0 to 2147483647)");
  EXPECT_THAT(refusal(with_entry("\"xx\":2147483648")), HasSubstr("\"xx\": 2147483648 is not an id"));
  EXPECT_THAT(refusal(with_entry("\"xx\":18446744073709551616")),
              HasSubstr("\"xx\": 18446744073709551616 is not an id"));
  EXPECT_THAT(refusal(with_entry("\"xx\":1.5")), HasSubstr("\"xx\": 1.5 is not an id"));
  EXPECT_THAT(refusal(with_entry("\"xx\":\"7\"")), HasSubstr("\"xx\": \"7\" is not an id"));
  EXPECT_THAT(refusal(with_entry("\"xx\":null")), HasSubstr("\"xx\": null is not an id"));
  EXPECT_THAT(refusal(with_entry("\"xx\":[1]")), HasSubstr("\"xx\": an array is not an id"));
  EXPECT_THAT(refusal(with_entry("\"xx\":65")), HasSubstr("id 65 is that of"));
  EXPECT_EQ(refusal(with_entry("\"A\":900")), "T.json: vocabulary entry \"A\" is given twice");
}

TEST(TokenizerJson, AcceptsGapsUnreachableEntriesAndTheHighestId) {
  const Tokenizer tokenizer = parse(with_entry("\"<0x-1>\":2147483647,\"\u4e2d\":1000"));
  EXPECT_EQ(tokenizer.vocab_size(), std::int64_t{1} << 31);
  EXPECT_EQ(tokenizer.decode(std::vector<std::int32_t>{1000, 2147483647}), "\u4e2d<0x-1>");
}

TEST(TokenizerJson, RefusesAMergeOfUnknownParts) {
  json content = small_tokenizer({"a b"});
  content["model"]["merges"] = {"a b", "x q"};
  EXPECT_EQ(refusal(content), "T.json: merge 1 \"x q\": \"xq\" is not in the vocabulary");
  content["model"]["merges"] = {"a b", "ab \u4e2d"};
  EXPECT_EQ(refusal(content), "T.json: merge 1 \"ab \u4e2d\": \"\u4e2d\" is not in the vocabulary");
  for (const json& merge : {json("ab"), json("a b c"), json(" b"), json(3), json(nullptr), json::object()}) {
    content["model"]["merges"] = {"a b", merge};
    EXPECT_THAT(refusal(content), HasSubstr("T.json: merge 1: ")) << merge;
  }
  content["model"]["merges"] = json::array({json::array({"a", "b", "c"})});
  EXPECT_THAT(refusal(content), HasSubstr("T.json: merge 0: 3 names"));
}

TEST(TokenizerJson, RefusesWhatIsNotJson) {
  const std::string whole = small_tokenizer({"a b"}).dump();
  for (std::size_t length = 0; length < whole.size(); length += 7)
    ASSERT_THAT(refusal(whole.substr(0, length)), HasSubstr("T.json: not JSON (line 1, column ")) << length;
  EXPECT_THAT(refusal(whole + "x"), HasSubstr("T.json: not JSON (line 1, column "));
  EXPECT_EQ(refusal(std::string("[]")), "T.json: not a JSON object");
  EXPECT_THAT(refusal(std::string("{\"a\":1,\"a\":2}")), HasSubstr("T.json: key \"a\" is given twice"));
}

TEST(TokenizerJson, RefusesNestingBeyond64AndLongNames) {
  const auto nested = [](int depth) {
    json content = small_tokenizer();
    json inner = 0;
    for (int i = 0; i < depth; ++i) inner = json::array({inner});
    content["post_processor"] = inner;
    return content;
  };
  EXPECT_EQ(refusal(nested(63)), "");
  EXPECT_EQ(refusal(nested(64)), "T.json: nested deeper than 64");
  EXPECT_THAT(refusal(std::string(1000000, '[')), HasSubstr("nested deeper than 64"));
  EXPECT_EQ(refusal(with_entry("\"" + std::string(65536, 'x') + "\":900")), "");
  EXPECT_THAT(refusal(with_entry("\"" + std::string(65537, 'x') + "\":900")), HasSubstr("65537 bytes, at most 65536"));
}

TEST(TokenizerJson, RefusesByNameWhatIsNotBuiltIn) {
  const auto with = [](const char* pointer, const json& value) {
    json content = small_tokenizer();
    content[json::json_pointer(pointer)] = value;
    return refusal(content);
  };
  EXPECT_THAT(with("/normalizer", {{"type", "NFKC"}}), HasSubstr("T.json: normalizer.type: \"NFKC\" is not supported"));
  EXPECT_THAT(with("/pre_tokenizer", {{"type", "Metaspace"}}), HasSubstr("pre_tokenizer.type: \"Metaspace\""));
  EXPECT_THAT(with("/pre_tokenizer", nullptr), HasSubstr("T.json: pre_tokenizer: null is not an object"));
  EXPECT_THAT(with("/pre_tokenizer/use_regex", false), HasSubstr("use_regex false is not supported"));
  EXPECT_THAT(with("/decoder", {{"type", "WordPiece"}}), HasSubstr("decoder.type: \"WordPiece\""));
  EXPECT_THAT(with("/model/type", "Unigram"), HasSubstr("model.type: \"Unigram\""));
  EXPECT_THAT(with("/model/byte_fallback", true), HasSubstr("model.byte_fallback: true"));
  EXPECT_THAT(with("/model/unk_token", "<unk>"), HasSubstr("model.unk_token: \"<unk>\""));
  EXPECT_THAT(with("/model/end_of_word_suffix", "</w>"), HasSubstr("model.end_of_word_suffix: \"</w>\""));
  EXPECT_THAT(with("/model/dropout", 0.1), HasSubstr("model.dropout: 0.1"));
  EXPECT_THAT(with("/model/vocab", json::array()), HasSubstr("vocab is missing"));
  EXPECT_THAT(with("/model/novel", 1), HasSubstr("T.json: model: key \"novel\" is not known"));
  EXPECT_THAT(with("/novel", 1), HasSubstr("key \"novel\" is not known"));
  EXPECT_THAT(with("/version", "2.0"), HasSubstr("version: \"2.0\" is not supported"));
  for (const char* key : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"})
    for (const json& unused : {json(nullptr), json(""), json(false)})
      EXPECT_EQ(with((std::string("/model/") + key).c_str(), unused), "") << key << unused;
  EXPECT_EQ(with("/post_processor", {{"type", "TemplateProcessing"}}), "");
  EXPECT_EQ(with("/truncation", {{"max_length", 512}}), "");
}

TEST(TokenizerJson, AcceptsASplitOnlyWithAKnownPattern) {
  const auto with = [](const char* pointer, const json& value) {
    json content = small_tokenizer();
    const json byte_level{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
    const json split{{"type", "Split"},
                     {"pattern", {{"Regex", expression_of(Pattern::llama3)}}},
                     {"behavior", "Isolated"},
                     {"invert", false}};
    content["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, byte_level}}};
    content["pre_tokenizer"][json::json_pointer(pointer)] = value;
    return refusal(content);
  };
  EXPECT_EQ(with("/pretokenizers/0/invert", false), "");
  EXPECT_THAT(with("/pretokenizers/0/pattern/Regex", "\\s+"),
              HasSubstr("T.json: pre_tokenizer.pretokenizers[0].pattern: \"\\s+\" is not a known pattern"));
  EXPECT_THAT(with("/pretokenizers/0/pattern", {{"String", " "}}), HasSubstr("key \"String\" is not known"));
  EXPECT_THAT(with("/pretokenizers/0/behavior", "Removed"), HasSubstr("behavior: \"Removed\" is not supported"));
  EXPECT_THAT(with("/pretokenizers/0/invert", true), HasSubstr("invert true"));
  EXPECT_THAT(with("/pretokenizers/0/type", "Digits"), HasSubstr("type: \"Digits\""));
  EXPECT_THAT(with("/pretokenizers/1/use_regex", true), HasSubstr("use_regex true is not supported"));
}

TEST(TokenizerJson, RefusesAddedTokensThatContradictTheVocabulary) {
  const auto with = [](const json& token) {
    json content = small_tokenizer();
    content["added_tokens"] = {added_token("<x>", 256), token};
    return refusal(content);
  };
  EXPECT_EQ(with(added_token("A", 65)), "");
  EXPECT_THAT(with(added_token("A", 66)), HasSubstr("T.json: added_tokens[1]: \"A\" has id 66"));
  EXPECT_THAT(with(added_token("<y>", 65)), HasSubstr("has id 65, which is that of \"A\""));
  EXPECT_THAT(with(added_token("<y>", 256)), HasSubstr("has id 256, which is that of \"<x>\""));
  EXPECT_THAT(with(added_token("<x>", 256)), HasSubstr("added_tokens[1]: \"<x>\" is given twice"));
  EXPECT_THAT(with(added_token("", 257)), HasSubstr("added_tokens[1].content: 0 bytes"));
  EXPECT_THAT(with(added_token("<y>", -1)), HasSubstr("added_tokens[1].id: -1 of \"<y>\" is not an id"));
  EXPECT_THAT(with(json(7)), HasSubstr("T.json: added_tokens[1]: 7 is not an object"));
  EXPECT_THAT(with({{"id", 300}}), HasSubstr("added_tokens[1]: key \"content\" is missing"));
}

TEST(TokenizerJson, StaysTheSameWhenWrittenAndRead) {
  json content = small_tokenizer({"a b", "ab c"});
  content["normalizer"] = {{"type", "NFC"}};
  content["added_tokens"] = {added_token("<|endoftext|>", 300)};
  const std::string written = write_tokenizer_json(parse_tokenizer_json(content.dump(), "T.json"));
  EXPECT_EQ(write_tokenizer_json(parse_tokenizer_json(written, "W.json")), written);
  EXPECT_EQ(parse(written).encode("abc<|endoftext|>"), (std::vector<std::int32_t>{257, 300}));
  EXPECT_EQ(json::parse(written)["model"]["merges"], content["model"]["merges"]);
}

TEST_F(TokenizerFolder, KeepsTheBytesOfTokenizerJson) {
  const std::string text = small_tokenizer().dump(3) + "\n\n";
  write("tokenizer.json", text);
  core::Sha256 sum;
  sum.update(text);
  const std::string expected = sum.hex();
  for (const fs::path& path : {folder_, folder_ / "tokenizer.json"}) {
    const Tokenizer tokenizer = Tokenizer::load(path);
    EXPECT_EQ(tokenizer.json(), text);
    EXPECT_EQ(tokenizer.sha256(), expected);
  }
}

TEST_F(TokenizerFolder, ReadsVocabularyAndMergesAndLosesNoMerge) {
  json vocabulary = small_tokenizer({"a b", "# #", "#version x"})["model"]["vocab"];
  vocabulary["<|endoftext|>"] = 400;
  write("vocab.json", vocabulary.dump());
  for (const char* merges : {"#version: 0.2\na b\n# #\n", "a b\n# #\n", "a b\r\n# #", "a b\n# #\n\n\n"}) {
    write("merges.txt", merges);
    const Tokenizer tokenizer = Tokenizer::load(folder_);
    EXPECT_EQ(tokenizer.encode("ab ##"), (std::vector<std::int32_t>{256, ' ', 257})) << merges;
    EXPECT_EQ(tokenizer.end_of_document(), 400);
    EXPECT_EQ(Tokenizer::parse(tokenizer.json(), "again").encode("ab"), tokenizer.encode("ab"));
  }
  write("merges.txt", "# #\na b\n");  // a merge that begins with # in the first line
  EXPECT_EQ(Tokenizer::load(folder_).encode("##"), (std::vector<std::int32_t>{257}));
}

TEST_F(TokenizerFolder, NamesFileAndLineOfABadMerge) {
  write("vocab.json", small_tokenizer({"a b"})["model"]["vocab"].dump());
  const auto refusal_of = [&](std::string_view merges) {
    write("merges.txt", merges);
    return error_of([&] { Tokenizer::load(folder_); });
  };
  const std::string file = (folder_ / "merges.txt").string();
  EXPECT_EQ(refusal_of("#version: 0.2\na b\nx q\n"), file + ": line 3 \"x q\": \"xq\" is not in the vocabulary");
  EXPECT_EQ(refusal_of("a b\nab\n"), file + ": line 2: \"ab\" is not \"left right\"");
  EXPECT_EQ(refusal_of("a b\n\na b\n"), file + ": line 2 is blank, merges are \"left right\"");
  write("vocab.json", "[1]");
  EXPECT_EQ(refusal_of("a b\n"), (folder_ / "vocab.json").string() + ": not an object of names and ids");
}

TEST_F(TokenizerFolder, SaysWhatItLookedFor) {
  EXPECT_EQ(error_of([&] { Tokenizer::load(folder_); }),
            folder_.string() + ": no tokenizer (looked for tokenizer.json, and for vocab.json with merges.txt)");
  EXPECT_THAT(error_of([&] { Tokenizer::load(folder_ / "absent.json"); }), HasSubstr("absent.json: cannot be opened"));
}

}  // namespace trireme::data
