#include "data/token_file.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <fstream>

#include "tests/data/corpus_bytes.h"

namespace trireme::data {

namespace {
using testing::HasSubstr;
using Ids = std::vector<std::int32_t>;
namespace fs = std::filesystem;

class TokenFile : public CorpusTest {
 protected:
  static Corpus open(const std::string& path, const std::string& format = "auto", std::int64_t vocabulary = 100) {
    return Corpus({.path = path, .format = format, .key = "data.train[0].path", .vocab_size = vocabulary});
  }
  static Ids read(const Corpus& corpus, std::int64_t begin, std::int64_t count) {
    Ids ids(static_cast<std::size_t>(count));
    corpus.read(begin, ids);
    return ids;
  }
  static Ids all(const Corpus& corpus) { return read(corpus, 0, corpus.tokens()); }
  static Ids starts(const Corpus& corpus, std::int64_t begin, std::int64_t count) {
    Ids first(static_cast<std::size_t>(count));
    corpus.mark_documents(begin, read(corpus, begin, count), first);
    return first;
  }
};
}  // namespace

TEST_F(TokenFile, TheGoldenPairIsReadByPrefixByBinAndByIdx) {
  put("x.bin", std::string("\x01\0\x02\0\x03\0\x04\0\x05\0", 10));
  put("x.idx", packed_index({3, 2}));
  for (const char* name : {"x", "x.bin", "x.idx"}) {
    const Corpus corpus = open(path(name));
    EXPECT_EQ(corpus.format(), "indexed");
    EXPECT_EQ(corpus.documents(), 2);
    EXPECT_EQ(all(corpus), (Ids{1, 2, 3, 4, 5}));
  }
}

TEST_F(TokenFile, EveryIntegerTypeOfAnIndexIsRead) {
  const auto check = [&](std::uint8_t type, std::int64_t width, const std::string& bytes) {
    put("t.bin", bytes);
    put("t.idx", packed_index({2, 1}, width, type));
    EXPECT_EQ(all(open(path("t"))), (Ids{7, 0, 99})) << int{type};
  };
  check(1, 1, bytes_of<std::uint8_t>({7, 0, 99}));
  check(2, 1, bytes_of<std::int8_t>({7, 0, 99}));
  check(3, 2, bytes_of<std::int16_t>({7, 0, 99}));
  check(4, 4, bytes_of<std::int32_t>({7, 0, 99}));
  check(5, 8, bytes_of<std::int64_t>({7, 0, 99}));
  check(8, 2, bytes_of<std::uint16_t>({7, 0, 99}));
}

TEST_F(TokenFile, DocumentsOfSeveralSequencesHaveOneStart) {
  put("m.bin", u16_bytes({1, 2, 3, 4, 5, 6}));
  put("m.idx", index_bytes({.lengths = {2, 1, 3}, .offsets = {0, 4, 6}, .boundaries = {0, 2, 3}}));
  const Corpus corpus = open(path("m"));
  EXPECT_EQ(corpus.documents(), 2);
  EXPECT_EQ(starts(corpus, 0, 6), (Ids{0, 0, 0, 3, 3, 3}));
  EXPECT_EQ(starts(corpus, 1, 4), (Ids{0, 0, 2, 2}));
}

TEST_F(TokenFile, EmptyDocumentsAreCountedAndStartNothing) {
  put("e.bin", u16_bytes({1, 2, 3}));
  put("e.idx", index_bytes({.lengths = {2, 0, 1}, .offsets = {0, 4, 4}, .boundaries = {0, 0, 1, 2, 3, 3}}));
  const Corpus corpus = open(path("e"));
  EXPECT_EQ(corpus.documents(), 5);
  EXPECT_EQ(corpus.empty_documents(), 3);
  EXPECT_EQ(starts(corpus, 0, 3), (Ids{0, 0, 2}));
}

TEST_F(TokenFile, UnusedBytesAreSkippedWhereTheyAreAccepted) {
  put("g.bin", u16_bytes({1, 2, 90, 3, 91}));
  put("g.idx", index_bytes({.lengths = {2, 0, 1}, .offsets = {0, 6, 6}, .boundaries = {0, 1, 3}}));
  const Corpus corpus({.path = path("g"), .vocab_size = 10, .allow_unused_bytes = true});
  EXPECT_EQ(all(corpus), (Ids{1, 2, 3}));
}

TEST_F(TokenFile, ShardsAreOneStreamInByteOrderOfTheirNames) {
  put("s_10.bin", llmc_bytes({3, 4}));
  put("s_9.bin", llmc_bytes({5}));
  put("s_1.bin", llmc_bytes({1, 2}));
  put("other.txt", "not a shard");
  for (const std::string& name : {path("s_*.bin"), folder_.string()}) {
    const Corpus corpus = open(name);
    EXPECT_EQ(corpus.format(), "llmc");
    EXPECT_EQ(all(corpus), (Ids{1, 2, 3, 4, 5})) << name;
    EXPECT_EQ(read(corpus, 1, 3), (Ids{2, 3, 4}));
  }
  EXPECT_EQ(all(open(path("s_9.bin"))), (Ids{5}));
}

TEST_F(TokenFile, MoreShardsThanTheLimitOfOpenFilesAreRead) {
  for (int i = 0; i < 300; ++i) std::ofstream(path(fmt::format("s{:03}.bin", i)), std::ios::binary) << llmc_bytes({i});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{.rlim_cur = 200, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_EQ(read(open(folder_.string(), "auto", 300), 298, 2), (Ids{298, 299}));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST_F(TokenFile, WideShardsAndPlainArraysAreRead) {
  put("w.bin", llmc_bytes({70000, 1}, 20240801, 7));
  EXPECT_EQ(all(open(path("w.bin"), "auto", 70001)), (Ids{70000, 1}));
  put("r.bin", u16_bytes({65535, 2}));
  EXPECT_EQ(all(open(path("r.bin"), "raw-u16", 65536)), (Ids{65535, 2}));
}

TEST_F(TokenFile, SeparatorsStartDocumentsInShardsAndEndThemInPlainArrays) {
  put("a.bin", llmc_bytes({0, 1, 2, 0, 3}));
  const Corpus shard({.path = path("a.bin"), .vocab_size = 9, .separator_id = 0});
  EXPECT_EQ(starts(shard, 0, 5), (Ids{0, 0, 0, 3, 3}));
  put("b.bin", u16_bytes({1, 2, 0, 3, 0}));
  const CorpusOptions plain{.path = path("b.bin"), .format = "raw-u16", .vocab_size = 9, .separator_id = 0};
  EXPECT_EQ(starts(Corpus(plain), 0, 5), (Ids{0, 0, 0, 3, 3}));
  CorpusOptions said = plain;
  said.separator_at = "start";
  EXPECT_EQ(starts(Corpus(said), 0, 5), (Ids{0, 0, 2, 2, 4}));
}

TEST_F(TokenFile, TheLastDocumentOfASparseFileOfFiveGigabytesIsRead) {
  const std::uint64_t bytes = 5'000'000'000;
  put("big.bin", "");
  fs::resize_file(path("big.bin"), bytes - 6);
  std::ofstream(path("big.bin"), std::ios::app | std::ios::binary) << u16_bytes({7, 8, 9});
  put("big.idx", packed_index({2'000'000'000, 499'999'997, 3}));
  const Corpus corpus = open(path("big"));
  EXPECT_EQ(corpus.tokens(), 2'500'000'000);
  EXPECT_FALSE(corpus.scanned_at_start());
  EXPECT_EQ(read(corpus, 2'499'999'995, 5), (Ids{0, 0, 7, 8, 9}));
  EXPECT_EQ(starts(corpus, 2'499'999'995, 5), (Ids{0, 0, 2, 2, 2}));
  std::fstream(path("big.bin"), std::ios::in | std::ios::out | std::ios::binary).seekp(4'000'000'000)
      << u16_bytes({100});
  EXPECT_THAT(refusal([&] { read(corpus, 1'999'999'000, 1025); }),
              HasSubstr("big.bin: token 2000000000 (document 1) is 100, model.vocab_size is 100"));
}

TEST_F(TokenFile, OpeningLeavesNothingBesideTheFiles) {
  put_pair("x", {{1, 2}, {3}});
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  const Corpus corpus = open(path("x"));
  corpus.scan();
  corpus.fingerprint(true);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 2);
  fs::permissions(folder_, fs::perms::owner_all);
}

TEST_F(TokenFile, AFileThatShrinksInUseIsSaid) {
  put("x.bin", llmc_bytes(counting(8000, 100)));
  const Corpus corpus = open(path("x.bin"));
  fs::resize_file(path("x.bin"), 4096);
  EXPECT_EQ(read(corpus, 0, 4).size(), 4u);
  EXPECT_THAT(refusal([&] { read(corpus, (4096 - 1024) / 2, 1025); }),
              HasSubstr("x.bin: wanted 2050 bytes at 4096, got 0: the file changed while in use"));
}

TEST_F(TokenFile, TheFingerprintIsOfContentNotOfNames) {
  const std::string first = open(put_pair("x", {{1, 2}, {3}})).fingerprint(false);
  EXPECT_EQ(open(put_pair("y", {{1, 2}, {3}})).fingerprint(false), first);
  EXPECT_NE(open(put_pair("y", {{1, 2}, {4}})).fingerprint(false), first);
  EXPECT_NE(open(put_pair("y", {{1}, {2, 3}})).fingerprint(false), first);
  put("a.bin", llmc_bytes({1, 2, 3}));
  EXPECT_NE(open(path("a.bin")).fingerprint(false), first);
}

TEST_F(TokenFile, BeyondAGibibyteOnlyTheFullFingerprintSeesEveryToken) {
  const std::int64_t bytes = (std::int64_t{1} << 30) + 2;
  put("x.bin", "");
  fs::resize_file(path("x.bin"), static_cast<std::uintmax_t>(bytes));
  const Corpus corpus = open(path("x.bin"), "raw-u16");
  const auto change = [&](std::int64_t at) {
    std::fstream(path("x.bin"), std::ios::in | std::ios::out | std::ios::binary).seekp(at) << u16_bytes({1});
  };
  const std::string sampled = corpus.fingerprint(false), full = corpus.fingerprint(true);
  change(5 << 20);
  EXPECT_EQ(corpus.fingerprint(false), sampled);
  EXPECT_NE(corpus.fingerprint(true), full);
  change(bytes - 2);
  EXPECT_NE(corpus.fingerprint(false), sampled);
}

TEST_F(TokenFile, DescriptionSaysDocumentsTokensAndIds) {
  const std::string text = describe_corpus(put_pair("x", {{5, 2}, {}, {9}}), "auto", true);
  for (const char* part : {"indexed, u16 tokens", "tokens      3", "documents   3 (1 empty)", "ids         2 to 9"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(text, HasSubstr(open(path("x")).fingerprint(true)));
}

}  // namespace trireme::data
