#include "data/token_writer.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "data/token_file.h"
#include "tests/data/corpus_bytes.h"

namespace trireme::data {

namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<std::int32_t>;
namespace fs = std::filesystem;

class Writer : public CorpusTest {
 protected:
  TokenWriterOptions options(std::int64_t vocabulary, const std::string& format = "indexed") const {
    return {.prefix = folder_ / "x", .format = format, .vocab_size = vocabulary, .tokenizer_sha256 = "abc"};
  }
  static void write(const TokenWriterOptions& options, const std::vector<Ids>& documents) {
    TokenWriter writer(options);
    for (const Ids& document : documents) writer.add_document(document);
    writer.commit();
  }
  std::string content(const std::string& name) const { return core::read_whole(folder_ / name, 1 << 20); }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_)) found.push_back(entry.path().filename());
    std::sort(found.begin(), found.end());
    return found;
  }
};

std::string sha256(const std::string& bytes) {
  core::Sha256 sum;
  sum.update(bytes);
  return sum.hex();
}
}  // namespace

TEST_F(Writer, MakesTheGoldenPair) {
  write(options(100), {{1, 2, 3}, {4, 5}});
  EXPECT_EQ(content("x.bin"), std::string("\x01\0\x02\0\x03\0\x04\0\x05\0", 10));
  EXPECT_EQ(content("x.idx").size(), 82u);
  EXPECT_EQ(sha256(content("x.idx")), "416ba3f8d9601192c5b0c9424ce7e61d6ac2d9d464dba8e5ee55deb8247de3aa");
  const auto json = nlohmann::json::parse(content("x.json"));
  EXPECT_EQ(json["format"], "indexed");
  EXPECT_EQ(json["tokenizer_sha256"], "abc");
  EXPECT_EQ(json["vocab_size"], 100);
  EXPECT_TRUE(json["eod_id"].is_null());
  EXPECT_EQ(json["documents"], 2);
  EXPECT_EQ(json["tokens"], 5);
}

TEST_F(Writer, WidensIndexedTokensFromTheVocabularyThatReadersExpect) {
  write(options(65499), {{1, 65498}});
  EXPECT_EQ(content("x.bin").size(), 4u);
  TokenWriterOptions wide = options(65500);
  wide.overwrite = true;
  write(wide, {{1, 65499}, {}});
  EXPECT_EQ(content("x.bin"), bytes_of<std::int32_t>({1, 65499}));
  EXPECT_EQ(content("x.idx"), packed_index({2, 0}, 4, 4));
}

TEST_F(Writer, CutsShardsAtTheirSize) {
  TokenWriterOptions shards = options(65536, "llmc");
  shards.shard_tokens = 4;
  write(shards, {{0, 1, 2}, {0, 3, 65535, 4, 5, 6}});
  EXPECT_THAT(names(), ElementsAre("x_000000.bin", "x_000001.bin", "x_000002.bin"));
  EXPECT_EQ(content("x_000000.bin"), llmc_bytes({0, 1, 2, 0}));
  EXPECT_EQ(content("x_000001.bin"), llmc_bytes({3, 65535, 4, 5}));
  EXPECT_EQ(content("x_000002.bin"), llmc_bytes({6}));
}

TEST_F(Writer, AFullLastShardIsNotFollowedByAnEmptyOne) {
  TokenWriterOptions shards = options(65537, "llmc");
  shards.shard_tokens = 2;
  write(shards, {{1, 2, 3, 65536}});
  EXPECT_THAT(names(), ElementsAre("x_000000.bin", "x_000001.bin"));
  EXPECT_EQ(content("x_000001.bin"), llmc_bytes({3, 65536}, 20240801, 7));
}

TEST_F(Writer, ManyShardsNeedFewOpenFiles) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{.rlim_cur = 40, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  TokenWriterOptions shards = options(10, "llmc");
  shards.shard_tokens = 1;
  write(shards, {Ids(60, 3)});
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(names().size(), 60u);
}

TEST_F(Writer, WithoutCommitNothingRemains) {
  for (const char* format : {"indexed", "llmc"}) {
    {
      TokenWriter writer(options(10, format));
      writer.add_document(Ids{1, 2});
    }
    EXPECT_TRUE(names().empty());
  }
}

TEST_F(Writer, ExistingFilesAreRefusedAtOnceAndLeftAsTheyWere) {
  for (const char* name : {"x.bin", "x.idx", "x.json"}) {
    put(name, "mine");
    EXPECT_THAT(refusal([&] { TokenWriter writer(options(10)); }, core::ExitCode::run_directory),
                HasSubstr(std::string(name) + ": exists already (--force replaces it)"));
    EXPECT_EQ(content(name), "mine");
    fs::remove(folder_ / name);
  }
  put("x_000007.bin", "mine");
  EXPECT_THAT(refusal([&] { TokenWriter writer(options(10, "llmc")); }, core::ExitCode::run_directory),
              HasSubstr("x_000007.bin: exists already"));
  EXPECT_THAT(names(), ElementsAre("x_000007.bin"));
}

TEST_F(Writer, ForcedShardsLeaveNoneOfTheOldCorpus) {
  TokenWriterOptions shards = options(10, "llmc");
  shards.shard_tokens = 1;
  write(shards, {{1, 2, 3}});
  put("x_00000a.bin", "no shard");
  put("xx_000000.bin", "another prefix");
  shards.overwrite = true;
  write(shards, {{4, 5}});
  EXPECT_THAT(names(), ElementsAre("x_000000.bin", "x_000001.bin", "x_00000a.bin", "xx_000000.bin"));
  EXPECT_EQ(content("x_000001.bin"), llmc_bytes({5}));
}

TEST_F(Writer, ATemporaryFileOfAKilledProcessIsNoObstacle) {
  put(fmt::format("x.bin.tmp-{}", ::getpid()), "left over");
  write(options(10), {{1}});
  EXPECT_EQ(content("x.bin"), u16_bytes({1}));
}

TEST_F(Writer, WhatItWritesIsReadBack) {
  Ids stream;
  std::vector<Ids> documents;
  for (int i = 0; i < 300; ++i) {
    documents.emplace_back();
    for (int j = 0; j < i * 37 % 101; ++j) documents.back().push_back((i * 131 + j) % 1000);
    stream.insert(stream.end(), documents.back().begin(), documents.back().end());
  }
  for (const char* format : {"indexed", "llmc"}) {
    TokenWriterOptions to = options(1000, format);
    to.shard_tokens = 997;
    write(to, documents);
    const std::string path = (folder_ / (to.format == "llmc" ? "x_*.bin" : "x")).string();
    const Corpus corpus({.path = path, .vocab_size = 1000});
    ASSERT_EQ(corpus.tokens(), std::ssize(stream));
    Ids read(stream.size());
    corpus.read(0, read);
    EXPECT_EQ(read, stream);
  }
}

}  // namespace trireme::data
