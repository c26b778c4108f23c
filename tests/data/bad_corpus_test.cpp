#include <gmock/gmock.h>

#include "data/token_file.h"
#include "tests/data/corpus_bytes.h"

// What each kind of bad corpus is refused with.
namespace trireme::data {

namespace {
using testing::HasSubstr;

class BadCorpus : public CorpusTest {
 protected:
  static std::string opened(const std::string& path, const std::string& format = "auto") {
    return refusal([&] {
      Corpus corpus({.path = path, .format = format, .key = "data.train[0].path", .vocab_size = 50257});
      corpus.scan();
    });
  }
  /// A .bin of six tokens beside this index.
  std::string pair(const std::string& index, int tokens = 6) const {
    put("x.bin", u16_bytes(counting(tokens, 100)));
    put("x.idx", index);
    return opened(path("x"));
  }
  std::string raw(const std::string& name, const std::string& bytes, const std::string& format = "auto") const {
    return opened(put(name, bytes), format);
  }
};
}  // namespace

TEST_F(BadCorpus, NothingOrHalfAPair) {
  EXPECT_EQ(opened(path("x")), fmt::format("data.train[0].path: no corpus at {0} (looked for {0}.idx, {0}.bin, "
                                           "{0}/*.bin)",
                                           path("x")));
  EXPECT_THAT(opened(folder_.string()), HasSubstr("no corpus at"));
  EXPECT_THAT(opened(path("x*.bin")), HasSubstr("no corpus at"));
  put("x.idx", packed_index({1}));
  for (const char* name : {"x", "x.idx"})
    EXPECT_EQ(opened(path(name)), fmt::format("{0}.bin: not found beside {0}.idx", path("x")));
  put("y.bin", u16_bytes({1}));
  for (const char* name : {"y", "y.idx"})
    EXPECT_EQ(opened(path(name)), fmt::format("{0}.idx: not found beside {0}.bin", path("y")));
  EXPECT_EQ(opened(path("y.bin"), "indexed"), fmt::format("{0}.idx: not found beside {0}.bin", path("y")));
  EXPECT_THAT(opened(path("z.bin"), "indexed"), HasSubstr("no corpus at"));
}

TEST_F(BadCorpus, TextIsSentToTokenize) {
  EXPECT_THAT(raw("x.txt", "text"), HasSubstr("trireme tokenize"));
  EXPECT_THAT(raw("x.jsonl", "{}"), HasSubstr("trireme tokenize"));
}

TEST_F(BadCorpus, MagicVersionAndType) {
  EXPECT_THAT(pair(""), HasSubstr("x.idx: not an indexed dataset"));
  EXPECT_THAT(pair("MMIDIDY" + packed_index({6}).substr(7)), HasSubstr("x.idx: not an indexed dataset"));
  EXPECT_THAT(pair(packed_index({6}).substr(0, 33)), HasSubstr("x.idx: the header needs 34 bytes, the file has 33"));
  IndexParts parts{.lengths = {6}, .offsets = {0}, .boundaries = {0, 1}, .version = 2};
  EXPECT_THAT(pair(index_bytes(parts)), HasSubstr("x.idx: version 2, only 1 is known"));
  parts.version = 1;
  parts.type = 7;
  EXPECT_THAT(pair(index_bytes(parts)), HasSubstr("x.idx: token type 7 (f32) is not an integer"));
  parts.type = 6;
  EXPECT_THAT(pair(index_bytes(parts)), HasSubstr("x.idx: token type 6 (f64) is not an integer"));
  for (const int type : {0, 9, 255}) {
    parts.type = static_cast<std::uint8_t>(type);
    EXPECT_THAT(pair(index_bytes(parts)), HasSubstr(fmt::format("x.idx: token type {} is unknown", type)));
  }
}

TEST_F(BadCorpus, CountsThatDoNotFitTheIndex) {
  IndexParts parts{.lengths = {3, 2}, .offsets = {0, 6}, .boundaries = {0, 1, 2}, .sequences = 3, .documents = 9};
  EXPECT_THAT(pair(index_bytes(parts)),
              HasSubstr("x.idx: N = 3 sequences and D = 9 boundaries need 142 bytes, the file has 82"));
  const std::string good = packed_index({6});
  EXPECT_THAT(pair(good.substr(0, good.size() - 1)), HasSubstr("need 62 bytes, the file has 61"));
  EXPECT_THAT(pair(good + "\1"), HasSubstr("need 62 bytes, the file has 63"));
  for (const std::uint64_t wrap : {std::uint64_t{1} << 63, (std::uint64_t{1} << 62) + 1, ~std::uint64_t{0}}) {
    parts.sequences = wrap;
    parts.documents = 2;
    EXPECT_THAT(pair(index_bytes(parts)), HasSubstr(fmt::format("N = {} sequences", wrap)));
    parts.sequences = 2;
    parts.documents = wrap;
    EXPECT_THAT(pair(index_bytes(parts)), HasSubstr(fmt::format("D = {} boundaries", wrap)));
  }
}

TEST_F(BadCorpus, OffsetsAndLengths) {
  IndexParts parts{.lengths = {3, 3}, .offsets = {0, 4}, .boundaries = {0, 1, 2}};
  EXPECT_THAT(pair(index_bytes(parts)), HasSubstr("x.idx: sequence 1 starts at byte 4, sequence 0 ends at 6"));
  parts.offsets = {0, 7};
  EXPECT_THAT(pair(index_bytes(parts)), HasSubstr("x.idx: sequence 1 starts at byte 7, not a multiple"));
  parts.offsets = {0, -294967296};
  EXPECT_THAT(pair(index_bytes(parts)), HasSubstr("x.idx: sequence 1 starts at byte -294967296"));
  parts.offsets = {0, std::numeric_limits<std::int64_t>::min()};
  EXPECT_THAT(pair(index_bytes(parts)), HasSubstr("x.idx: sequence 1 starts at byte -9223372036854775808"));
  parts.offsets = {0, 6};
  parts.lengths = {3, -1};
  EXPECT_THAT(pair(index_bytes(parts)), HasSubstr("x.idx: sequence 1 has length -1"));
}

TEST_F(BadCorpus, TokensThatAreMissingOrBelongToNobody) {
  EXPECT_THAT(pair(packed_index({3, 3}), 5), HasSubstr("x.bin: sequence 1 ends at byte 12, the file has 10"));
  EXPECT_THAT(pair(packed_index({3, 2})),
              HasSubstr("x.bin: 2 bytes at offset 10 belong to no sequence (data.allow_unused_bytes accepts them)"));
  EXPECT_THAT(pair(index_bytes({.lengths = {3, 2}, .offsets = {0, 8}, .boundaries = {0, 1, 2}})),
              HasSubstr("x.bin: 2 bytes at offset 6 belong to no sequence"));
  EXPECT_THAT(pair(index_bytes({.lengths = {6}, .offsets = {2}, .boundaries = {0, 1}})),
              HasSubstr("x.bin: 2 bytes at offset 0 belong to no sequence"));
}

TEST_F(BadCorpus, DocumentBoundaries) {
  IndexParts parts{.lengths = {1, 1, 1, 1, 1, 1}, .offsets = {0, 2, 4, 6, 8, 10}, .boundaries = {0, 3, 5}};
  EXPECT_THAT(pair(index_bytes(parts)), HasSubstr("x.idx: last document boundary is 5, there are 6 sequences"));
  parts.boundaries = {0, 3, 7};
  EXPECT_THAT(pair(index_bytes(parts)), HasSubstr("x.idx: last document boundary is 7, there are 6 sequences"));
  parts.boundaries = {0, 3, 4, 2, 6};
  EXPECT_THAT(pair(index_bytes(parts)), HasSubstr("x.idx: boundary 3 is 2 after 4"));
  parts.boundaries = {0, 9, 6};
  EXPECT_THAT(pair(index_bytes(parts)), HasSubstr("x.idx: document boundary 1 is 9, there are 6 sequences"));
  parts.boundaries = {1, 6};
  EXPECT_THAT(pair(index_bytes(parts)), HasSubstr("x.idx: first document boundary is 1"));
  parts.boundaries = {};
  EXPECT_THAT(pair(index_bytes(parts)), HasSubstr("x.idx: no document boundary"));
}

TEST_F(BadCorpus, IdsOutsideTheVocabulary) {
  for (const int id : {50257, 50258, 65535}) {
    put("x.bin", u16_bytes({1, 2, 3, id, 5}));
    put("x.idx", index_bytes({.lengths = {2, 3}, .offsets = {0, 4}, .boundaries = {0, 1, 1, 2}}));
    EXPECT_EQ(opened(path("x")),
              fmt::format("{}: token 3 (document 2) is {}, model.vocab_size is 50257", path("x.bin"), id));
  }
  put("n.bin", bytes_of<std::int32_t>({1, -1}));
  put("n.idx", packed_index({2}, 4, 4));
  EXPECT_THAT(opened(path("n")), HasSubstr("n.bin: token 1 (document 0) is -1, model.vocab_size is 50257"));
  put("l.bin", bytes_of<std::int64_t>({1, std::int64_t{1} << 32}));
  put("l.idx", packed_index({2}, 8, 5));
  EXPECT_THAT(opened(path("l")), HasSubstr("l.bin: token 1 (document 0) is 4294967296, model.vocab_size is 50257"));
  put("s1.bin", llmc_bytes({1, 2}));
  put("s2.bin", llmc_bytes({50257}));
  EXPECT_THAT(opened(path("s*.bin")), HasSubstr("s2.bin: token 0 is 50257, model.vocab_size is 50257"));
  put("ok.bin", u16_bytes({50256}));
  put("ok.idx", packed_index({1}));
  EXPECT_EQ(opened(path("ok")), "accepted");
}

TEST_F(BadCorpus, Shards) {
  EXPECT_THAT(raw("s.bin", llmc_bytes(counting(988, 9), 20240520, 1, 1000)),
              HasSubstr("s.bin: header says 1000 tokens = 3024 bytes, the file has 3000"));
  EXPECT_THAT(raw("s.bin", llmc_bytes({})), HasSubstr("s.bin: header says 0 tokens"));
  EXPECT_THAT(raw("s.bin", llmc_bytes({1}, 20240520, 1, -1)), HasSubstr("s.bin: header says -1 tokens"));
  EXPECT_THAT(raw("s.bin", llmc_bytes({1}, 20240520, 7)), HasSubstr("s.bin: version 7, only 1 is known"));
  EXPECT_THAT(raw("s.bin", llmc_bytes({1}, 20240801, 1)), HasSubstr("s.bin: version 1, only 7 is known"));
  EXPECT_THAT(raw("s.bin", llmc_bytes({1}, 123), "llmc"), HasSubstr("s.bin: magic 123"));
  EXPECT_THAT(raw("s.bin", llmc_bytes({1}).substr(0, 1000)),
              HasSubstr("s.bin: the header needs 1024 bytes, the file has 1000"));
  put("s.bin", llmc_bytes({1}));
  put("t.bin", llmc_bytes({1}, 20240801, 7));
  EXPECT_THAT(opened(folder_.string()), HasSubstr("t.bin: u32 tokens, the shards before have u16"));
}

TEST_F(BadCorpus, UnknownKindsAndOddSizes) {
  EXPECT_EQ(raw("x.bin", u16_bytes({1, 2, 3})),
            path("x.bin") + ": unknown kind; a plain uint16 array needs data.format = \"raw-u16\"");
  EXPECT_THAT(raw("x.bin", ""), HasSubstr("x.bin: unknown kind"));
  EXPECT_THAT(raw("x.bin", "1234567", "raw-u16"), HasSubstr("x.bin: 7 bytes are not whole uint16 tokens"));
  put("x.bin", u16_bytes({1}));
  put("x.idx", packed_index({1}));
  EXPECT_THAT(opened(folder_.string()), HasSubstr("x.bin: belongs to an indexed dataset"));
}

TEST_F(BadCorpus, DescriptionsThatDisagree) {
  const auto described = [&](const char* text) {
    put("x.json", text);
    return pair(packed_index({3, 3}));
  };
  EXPECT_EQ(described(R"({"documents": 2, "tokens": 6, "vocab_size": 50257})"), "accepted");
  EXPECT_EQ(described(R"({"documents": 2, "tokens": 6, "vocab_size": 151669})"),
            path("x.json") + ": tokenised with 151669 ids, model.vocab_size is 50257");
  EXPECT_THAT(described(R"({"documents": 2, "tokens": 7, "vocab_size": 5})"),
              HasSubstr("x.json: tokens = 7, the index has 6"));
  EXPECT_THAT(described(R"({"documents": 3, "tokens": 6, "vocab_size": 5})"),
              HasSubstr("x.json: documents = 3, the index has 2"));
  EXPECT_THAT(described(R"({"documents": 2, "vocab_size": 5})"), HasSubstr("x.json: no whole number \"tokens\""));
  EXPECT_THAT(described("[]"), HasSubstr("x.json: not a JSON object"));
  EXPECT_THAT(described("{\"documents\": 2, "), HasSubstr("x.json: not a JSON object"));
}

}  // namespace trireme::data
