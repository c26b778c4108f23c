#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>

#include "core/file.h"
#include "data/tokenizer/bpe_learner.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/trainer.h"
#include "tests/data/tokenizer_json.h"

namespace trireme::data {

namespace {
using nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

class Training : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path write(const std::string& name, std::string_view text) {
    core::write_whole(folder_ / name, text, true);
    return folder_ / name;
  }
  Texts merges(std::string_view text, std::int64_t vocabulary) {
    const TrainedTokenizer trained = train_bpe({write("text.txt", text)}, {.vocabulary = vocabulary});
    return json::parse(trained.json)["model"]["merges"].get<Texts>();
  }
  fs::path folder_ = fs::path(testing::TempDir()) /
                     (std::string("training-") + testing::UnitTest::GetInstance()->current_test_info()->name());
};

// The rule as it is written, counting everything anew for each merge.
Texts learn_plainly(const std::vector<CountedPiece>& pieces, std::size_t vocabulary) {
  std::map<std::string, int> ids;
  std::vector<std::string> alphabet;
  for (int byte = 0; byte < 256; ++byte) alphabet.push_back(name_of_bytes(std::string(1, static_cast<char>(byte))));
  std::sort(alphabet.begin(), alphabet.end());  // names sort like their code points
  for (const std::string& name : alphabet) ids.emplace(name, static_cast<int>(ids.size()));
  std::vector<Texts> words;
  for (const CountedPiece& piece : pieces) {
    Texts& word = words.emplace_back();
    for (const char c : piece.bytes) word.push_back(name_of_bytes(std::string(1, c)));
  }
  Texts merges;
  while (ids.size() < vocabulary) {
    std::map<std::pair<int, int>, std::int64_t> counts;
    for (std::size_t w = 0; w < words.size(); ++w)
      for (std::size_t i = 1; i < words[w].size(); ++i)
        counts[{ids.at(words[w][i - 1]), ids.at(words[w][i])}] += pieces[w].count;
    auto best = counts.end();
    for (auto pair = counts.begin(); pair != counts.end(); ++pair)
      if (pair->second >= 2 && (best == counts.end() || pair->second > best->second)) best = pair;
    if (best == counts.end()) break;
    std::map<int, std::string> names;
    for (const auto& [name, id] : ids) names[id] = name;
    const std::string left = names[best->first.first];
    const std::string right = names[best->first.second];
    const std::string merge = left + " " + right;
    std::erase(merges, merge);
    merges.push_back(merge);
    ids.emplace(left + right, static_cast<int>(ids.size()));
    for (Texts& word : words) {
      Texts merged;
      for (std::size_t i = 0; i < word.size(); ++i) {
        const bool here = i + 1 < word.size() && word[i] == left && word[i + 1] == right;
        merged.push_back(here ? left + right : word[i]);
        i += here;
      }
      word = std::move(merged);
    }
  }
  return merges;
}
}  // namespace

TEST_F(Training, NumbersBytesInTheOrderOfTheirCodePoints) {
  const TrainedTokenizer trained = train_bpe({write("text.txt", "ab")}, {.vocabulary = 257});
  const json vocabulary = json::parse(trained.json)["model"]["vocab"];
  EXPECT_EQ(vocabulary["!"], 0);
  EXPECT_EQ(vocabulary[name_of_bytes(std::string(1, '\0'))], 188);
  EXPECT_EQ(vocabulary["\u0143"], 255);
  EXPECT_EQ(vocabulary["<|endoftext|>"], 256);
  EXPECT_EQ(trained.vocabulary, 257);
  EXPECT_EQ(Tokenizer::parse(trained.json, "T.json").end_of_document(), 256);
}

TEST_F(Training, CountsEveryAdjacentPositionAndMergesFromTheLeft) {
  // "aaa" holds (a, a) twice, "bc" (b, c) once: with 1 and 1 pieces only the first can be merged.
  EXPECT_EQ(merges("aaa bc", 300), (Texts{"a a"}));
  // 2 x (x, y) and 2 x (a, b) in 4 pieces: the smaller left id first.
  EXPECT_EQ(merges("xy.ab.xy.ab.", 300), (Texts{"a b", "x y"}));
  // Equal left ids: the smaller right id.
  EXPECT_EQ(merges("ac.ab.ac.ab.", 300), (Texts{"a b", "a c"}));
  EXPECT_EQ(merges("ab.cd", 300), Texts{});
}

TEST_F(Training, MergesAsCountingAnewDoes) {
  std::mt19937 random(8);
  for (int round = 0; round < 30; ++round) {
    std::vector<CountedPiece> pieces;
    for (int i = 0; i < 25; ++i) {
      std::string piece;
      const std::size_t length = random() % 14 + 1;
      for (std::size_t j = 0; j < length; ++j) piece += "aaabbc "[random() % 7];
      pieces.push_back({piece, static_cast<std::int64_t>(random() % 5 + 1)});
    }
    TokenizerDefinition definition;
    learn_bpe(pieces, 320, definition, nullptr);
    Texts learned;
    for (const Merge& merge : definition.merges)
      learned.push_back(definition.vocabulary[merge.left].name + " " + definition.vocabulary[merge.right].name);
    ASSERT_EQ(learned, learn_plainly(pieces, 320)) << round;
  }
}

TEST_F(Training, DependsOnTheTextsAloneNotOnOrderOrThreads) {
  std::mt19937 random(4);
  std::vector<fs::path> files;
  for (int f = 0; f < 3; ++f) {
    std::string text;
    while (text.size() < (f == 1 ? 2'500'000u : 300'000u))
      text += fmt::format("{}w{}{}", " \n"[random() % 2], random() % 50 * (random() % 40), random() % 9 ? "" : "...'s");
    files.push_back(write(fmt::format("{}.txt", f), text));
  }
  const std::string one = train_bpe(files, {.vocabulary = 600, .threads = 1}).json;
  std::reverse(files.begin(), files.end());
  EXPECT_EQ(train_bpe(files, {.vocabulary = 600, .threads = 8}).json, one);
  EXPECT_NE(train_bpe(files, {.vocabulary = 601, .threads = 8}).json, one);
}

TEST_F(Training, StopsWithASmallerVocabularyWhenNothingRepeats) {
  const TrainedTokenizer trained = train_bpe({write("text.txt", "abab")}, {.vocabulary = 1000});
  EXPECT_EQ(trained.vocabulary, 258);
  EXPECT_EQ(Tokenizer::parse(trained.json, "T.json").end_of_document(), 257);
}

TEST_F(Training, RefusesFewerThan257IdsAndNoText) {
  const fs::path file = write("text.txt", "abab");
  EXPECT_THAT(error_of([&] { train_bpe({file}, {.vocabulary = 256}); }, core::ExitCode::usage), HasSubstr("257"));
  const fs::path empty = write("empty.txt", "");
  EXPECT_THAT(error_of([&] { train_bpe({empty}, {.vocabulary = 300}); }), HasSubstr("no text in 1 input"));
}

TEST_F(Training, KeepsEachPatternInItsFile) {
  const fs::path file = write("text.txt", "It's 12345 e\u0301 e\u0301 x\n\n");
  for (const Pattern pattern : {Pattern::gpt2, Pattern::llama3, Pattern::qwen}) {
    const TrainedTokenizer trained = train_bpe({file}, {.vocabulary = 300, .pattern = pattern});
    const TokenizerDefinition definition = parse_tokenizer_json(trained.json, "T.json");
    EXPECT_EQ(definition.pattern, pattern);
    EXPECT_EQ(definition.nfc, pattern == Pattern::qwen);
  }
}

TEST_F(Training, GivesEachCharacterAnId) {
  const fs::path file = write("text.txt", "b\u00e9a\nb\u4e2d");
  const TrainedTokenizer trained = train_characters({file}, {.threads = 2});
  EXPECT_EQ(trained.vocabulary, 5);
  const Tokenizer tokenizer = Tokenizer::parse(trained.json, "T.json");
  EXPECT_EQ(tokenizer.encode("\nab\u00e9\u4e2d"), (std::vector<std::int32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(tokenizer.decode(std::vector<std::int32_t>{4, 3}), "\u4e2d\u00e9");
  EXPECT_EQ(error_of([&] { tokenizer.encode("ab\u00e8"); }), "byte 2 of the text (U+00E8) is not in the vocabulary");
  EXPECT_EQ(error_of([&] { tokenizer.encode("a\u20ac"); }), "byte 1 of the text (U+20AC) is not in the vocabulary");
  const fs::path broken = write("broken.txt", "ab\xff");
  EXPECT_EQ(error_of([&] { train_characters({broken}, {}); }), broken.string() + ": byte 2 is not UTF-8");
}

}  // namespace trireme::data
