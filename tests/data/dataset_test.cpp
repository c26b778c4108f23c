#include "data/dataset.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "data/loader.h"
#include "tests/data/corpus_bytes.h"

namespace trireme::data {

namespace {
using core::ExitCode;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Data : public CorpusTest {
 protected:
  std::string corpus(const std::string& name, int tokens, int vocabulary = 100) const {
    return put_pair(name, {counting(tokens, vocabulary)});
  }
  static DatasetOptions of(std::int64_t sequence) { return {.sequence = sequence, .vocab_size = 100, .seed = 1234}; }
  static std::string refused(const DataConfig& config, std::int64_t sequence, ExitCode code = ExitCode::bad_data) {
    return refusal([&] { Dataset(config, of(sequence)); }, code);
  }
};
}  // namespace

TEST(Validation, TakesTheLastTokensRoundedUp) {
  EXPECT_EQ(validation_tokens(1'115'394, 0.1), 111'540);
  EXPECT_EQ(validation_tokens(100, 0.01), 1);
  EXPECT_EQ(validation_tokens(101, 0.01), 2);
  EXPECT_EQ(validation_tokens(1'000'000'000'000'000'000, 0.7), 700'000'000'000'000'000);
  EXPECT_EQ(validation_tokens(1000, 0), 0);
}

TEST_F(Data, ASampleNeedsOneTokenMoreThanItsInputs) {
  EXPECT_EQ(refused({.train = {{corpus("x", 16)}}}, 16),
            path("x") + ": 16 tokens, one sample needs 17 (model.sequence_length + 1)");
  EXPECT_EQ(Dataset({.train = {{corpus("y", 17)}}}, of(16)).samples(0), 1);
  const Dataset enough({.train = {{corpus("z", 33)}}}, of(16));
  EXPECT_EQ(enough.samples(0), 2);
}

TEST_F(Data, WeightsMustBeFiniteAndPositive) {
  const std::string x = corpus("x", 50);
  EXPECT_EQ(refused({.train = {{x}, {x, -0.3}}}, 4, ExitCode::usage),
            "data.train[1].weight: -0.3 must be a finite number above 0");
  for (const double weight : {0.0, std::nan(""), HUGE_VAL})
    EXPECT_THAT(refused({.train = {{x, weight}}}, 4, ExitCode::usage), HasSubstr("data.train[0].weight: "));
  EXPECT_THAT(refused({.train = {{x, 1e308}, {x, 1e308}}}, 4, ExitCode::usage), HasSubstr("sum of the weights"));
  EXPECT_THAT(refused({}, 4, ExitCode::usage), HasSubstr("data.train: no corpus"));
}

TEST_F(Data, ContradictionsOfTheConfigurationAreNamed) {
  const std::string x = corpus("x", 50);
  EXPECT_THAT(problems({.train = {{x}}, .valid = {{x}}, .valid_fraction = 0.1}),
              ElementsAre("data.valid: give corpora or a fraction, not both"));
  EXPECT_THAT(problems({.train = {{x, 1, "bin"}}}), ElementsAre(HasSubstr("data.train[0].format: \"bin\" is none of")));
  EXPECT_THAT(problems({.train = {{x, 0.5, "indexed"}}, .valid_fraction = 0.1}), IsEmpty());
  EXPECT_THAT(refused({.train = {{x}}, .separator_id = 100}, 4, ExitCode::usage),
              HasSubstr("data.separator_id: 100 is not an id, model.vocab_size is 100"));
  put("s.bin", llmc_bytes(counting(50, 10)));
  EXPECT_THAT(refused({.train = {{path("s.bin")}}, .document_mask = true}, 4, ExitCode::usage),
              HasSubstr("data.document_mask"));
}

TEST_F(Data, AFractionMustLeaveTwoTokensForValidation) {
  EXPECT_EQ(refused({.train = {{corpus("x", 100)}}, .valid_fraction = 0.01}, 4),
            "data.valid = 0.01: " + path("x") + " leaves 1 token for validation, needs at least 2");
  const Dataset split({.train = {{corpus("y", 101)}}, .valid_fraction = 0.01}, of(4));
  EXPECT_EQ(split.training()[0].tokens, 99);
  EXPECT_EQ(split.validation()[0].begin, 99);
  EXPECT_EQ(split.validation()[0].tokens, 2);
  EXPECT_THAT(refused({.train = {{path("y")}}, .valid = {{corpus("v", 1)}}}, 4), HasSubstr("needs at least 2"));
}

TEST_F(Data, NoTokenOfTheValidationPartIsTrainedOn) {
  std::vector<int> ids = counting(900, 50);
  ids.insert(ids.end(), 100, 99);
  const Dataset split({.train = {{put_pair("x", {ids})}}, .valid_fraction = 0.1}, of(7));
  ASSERT_EQ(split.training()[0].tokens, 900);
  TrainLoader loader(split, 4, 0);
  for (std::int64_t i = 0; i < 2 * split.samples(0); i += 4) {
    const Batch& batch = loader.next();
    for (std::int64_t k = 0; k < 4 * 7; ++k) ASSERT_TRUE(batch.tokens[k] < 50 && batch.targets[k] < 50);
  }
  ValidLoader valid(split.validation()[0], 7, 4, 0, false);
  while (const Batch* batch = valid.next())
    for (std::int64_t k = 0; k < 4 * 7; ++k) ASSERT_TRUE(batch->targets[k] == 99 || batch->targets[k] == -1);
}

TEST_F(Data, EveryEpochHasEverySampleOnceInAnOrderOfItsOwn) {
  const Dataset data({.train = {{corpus("x", 211), 0.3}, {corpus("y", 101), 0.7}}}, of(10));
  Blend blend(data.weights());
  std::vector<std::vector<std::int64_t>> drawn(2);
  for (int q = 0; q < 200; ++q) {
    const std::size_t c = blend.next();
    const SampleId id = data.sample(c, blend.counts()[c] - 1);
    EXPECT_EQ(id.epoch, std::ssize(drawn[c]) / data.samples(c));
    drawn[c].push_back(id.sample);
  }
  for (std::size_t c = 0; c < 2; ++c) {
    const auto n = static_cast<std::size_t>(data.samples(c));
    ASSERT_GE(drawn[c].size(), 2 * n);
    const std::vector<std::int64_t> first(drawn[c].begin(), drawn[c].begin() + data.samples(c));
    const std::vector<std::int64_t> second(drawn[c].begin() + data.samples(c), drawn[c].begin() + 2 * data.samples(c));
    EXPECT_EQ(std::set<std::int64_t>(first.begin(), first.end()).size(), n);
    EXPECT_EQ(std::set<std::int64_t>(second.begin(), second.end()).size(), n);
    EXPECT_NE(first, second);
  }
}

TEST_F(Data, TheStartSaysTokensSamplesAndExpectedEpochs) {
  const Dataset data({.train = {{corpus("x", 211), 1}, {corpus("y", 101), 3}}, .valid_fraction = 0.05}, of(10));
  EXPECT_THAT(
      data.describe(200),
      ElementsAre(
          fmt::format("train {}: 200 tokens, 1 documents, 19 samples, share 0.25, 2.63 epochs expected", path("x")),
          fmt::format("train {}: 95 tokens, 1 documents, 9 samples, share 0.75, 16.7 epochs expected", path("y")),
          fmt::format("valid {}: 11 tokens, 10 targets", path("x")),
          fmt::format("valid {}: 6 tokens, 5 targets", path("y"))));
  EXPECT_EQ(data.epoch_progress({26, 9}), "epochs 1.37, 1.00");
}

TEST_F(Data, WarningsNameWhatIsLeftOut) {
  const std::string exact = corpus("x", 41), empty = put_pair("e", {counting(41, 9), {}, {}}), left = corpus("l", 44);
  EXPECT_THAT(Dataset({.train = {{exact}}}, of(10)).warnings(100), IsEmpty());
  EXPECT_THAT(Dataset({.train = {{empty}}}, of(10)).warnings(100), ElementsAre(empty + ": 2 empty documents"));
  EXPECT_THAT(Dataset({.train = {{left}}}, of(10)).warnings(100),
              ElementsAre(left + ": 3 tokens after the last whole sample"));
}

TEST_F(Data, AWeightIsWarnedOfExactlyWhenItGetsNoSample) {
  const std::string x = corpus("x", 41);
  const Dataset data({.train = {{x, 0.3}, {x, 0.7}}}, of(10));
  EXPECT_THAT(data.warnings(1), ElementsAre("data.train[0].weight: 0.3 gets no sample among the 1 of this run"));
  EXPECT_THAT(data.warnings(2), IsEmpty());
  // By the rule, the second corpus is drawn at q = 1 and from then on the third one, which stays nearly 1 behind.
  EXPECT_THAT(Dataset({.train = {{x, 1e-9}, {x, 2e-9}, {x, 1}}}, of(10)).warnings(1000),
              ElementsAre("data.train[0].weight: 1e-09 gets no sample among the 1000 of this run"));
}

TEST_F(Data, CorporaOfDifferentTokenizersAreWarnedOf) {
  const std::string x = corpus("x", 41), y = corpus("y", 41);
  const auto describe = [&](const char* name, const char* sum) {
    put(name, json{{"tokens", 41}, {"documents", 1}, {"vocab_size", 100}, {"tokenizer_sha256", sum}}.dump());
  };
  describe("x.json", "aaa");
  describe("y.json", "aaa");
  EXPECT_THAT(Dataset({.train = {{x}, {y}}}, of(10)).warnings(100), IsEmpty());
  describe("y.json", "bbb");
  EXPECT_THAT(Dataset({.train = {{x}, {y}}}, of(10)).warnings(100),
              ElementsAre(fmt::format("{}: made with another tokenizer (SHA-256 bbb) than {} (aaa)", y, x)));
}

TEST_F(Data, EqualDataHaveNoDifferencesWhateverTheyAreCalled) {
  const Dataset a({.train = {{corpus("x", 100)}}, .valid_fraction = 0.1}, of(10));
  const Dataset b({.train = {{corpus("renamed", 100)}}, .valid_fraction = 0.1}, of(10));
  EXPECT_THAT(Dataset::differences(a.state(0), b.state(77)), IsEmpty());
  EXPECT_THAT(Dataset::differences(json::parse(a.state(5).dump()), a.state(5)), IsEmpty());
}

TEST_F(Data, EachDifferenceIsSaidWithBothValues) {
  const DataConfig config{.train = {{corpus("x", 100), 0.1}}, .valid_fraction = 0.1};
  const json before = Dataset(config, of(10)).state(0);
  const auto now = [&](const DataConfig& changed, DatasetOptions options) {
    return Dataset::differences(before, Dataset(changed, options).state(0));
  };
  EXPECT_THAT(now(config, {.sequence = 10, .vocab_size = 100, .seed = 5}), ElementsAre("run.seed was 1234, is 5"));
  EXPECT_THAT(now(config, of(9)), ElementsAre("model.sequence_length was 10, is 9"));
  DataConfig changed = config;
  changed.valid_fraction = 0.2;
  EXPECT_THAT(now(changed, of(10)), ElementsAre("data.valid was 0.1, is 0.2"));
  changed = config;
  changed.train[0].weight = 0.2;
  EXPECT_THAT(now(changed, of(10)), ElementsAre("data.train[0] weight was 0.1, is 0.2"));
  changed.train.push_back(config.train[0]);
  EXPECT_THAT(now(changed, of(10)), ElementsAre("the number of data.train was 1, is 2"));
}

TEST_F(Data, ARewrittenAddedOrRemovedShardIsADifference) {
  put("s1.bin", llmc_bytes(counting(40, 9)));
  put("s2.bin", llmc_bytes(counting(40, 9)));
  const DataConfig config{.train = {{path("s*.bin")}}};
  const json before = Dataset(config, of(10)).state(0);
  const auto differences = [&] { return Dataset::differences(before, Dataset(config, of(10)).state(0)); };
  EXPECT_THAT(differences(), IsEmpty());
  const std::string old = before["corpora"][0]["fingerprint"];
  put("s2.bin", llmc_bytes(counting(40, 8)));
  EXPECT_THAT(differences(), ElementsAre(HasSubstr(fmt::format("data.train[0] fingerprint was \"{}\", is", old))));
  put("s2.bin", llmc_bytes(counting(40, 9)));
  put("s3.bin", llmc_bytes({1}));
  EXPECT_THAT(differences(), ElementsAre(HasSubstr("fingerprint"), "data.train[0] tokens was 80, is 81"));
  std::filesystem::remove(path("s3.bin"));
  EXPECT_THAT(differences(), IsEmpty());
}

TEST_F(Data, OpeningLargeFilesCanBeStopped) {
  DatasetOptions options = of(10);
  options.between = [] { core::fail(ExitCode::stopped, "stopped"); };
  EXPECT_EQ(refusal([&] { Dataset({.train = {{corpus("x", 100)}}}, options); }, ExitCode::stopped), "stopped");
}

}  // namespace trireme::data
