#include "train/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace trireme::train {

using testing::HasSubstr;

constexpr std::string_view kSmallest = R"([run]
steps = 10
[model]
layers = 2
hidden = 8
heads = 2
vocab_size = 11
sequence_length = 4
[batch]
global = 2
[data]
train = [{ path = "corpus" }]
)";

Config parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_config(text, "c.toml", "/runs", overrides);
}

/// The message of the error that `text` gives; its exit code must be 64.
std::string message(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse(text, overrides);
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ExitCode::usage);
    return error.what();
  }
  return "accepted";
}

std::string smallest_with(const std::string& more) { return std::string(kSmallest) + more; }

TEST(Configuration, ReportsEveryProblemAtOnceWithLineAndNearestName) {
  const std::string text = message(
      "[run]\nstpes = 10\n[modle]\nlayers = 2\n[optimizer]\nlr = \"fast\"\nbeta1 = 1.0\n[batch]\nglobal = true\n");
  EXPECT_THAT(text, HasSubstr("5 problems in c.toml"));
  EXPECT_THAT(text, HasSubstr("c.toml:2: run.stpes: unknown key; did you mean run.steps?"));
  EXPECT_THAT(text, HasSubstr("c.toml:3: modle: unknown section; did you mean [model]?"));
  EXPECT_THAT(text, HasSubstr("c.toml:6: optimizer.lr: is a string, must be a number"));
  EXPECT_THAT(text, HasSubstr("c.toml:7: optimizer.beta1: 1 is not a finite number >= 0 and < 1"));
  EXPECT_THAT(text, HasSubstr("c.toml:9: batch.global: is a boolean, must be an integer"));
}

TEST(Configuration, RefusesAKeyGivenTwiceWithItsLine) {
  EXPECT_THAT(message("[run]\nsteps = 1\nsteps = 2\n"), HasSubstr("c.toml:3:"));
}

TEST(Configuration, AKeyGivenTwiceHidesNoOtherProblem) {
  const std::string text =
      message("[run]\nsteps = 1\nsteps = 2\nstpes = 3\n[modle]\n[optimizer]\nlr = 1e-3\nlr = 2e-3\nbeta1 = \"fast\"\n");
  EXPECT_THAT(text, HasSubstr("5 problems in c.toml"));
  EXPECT_THAT(text, HasSubstr("c.toml:3: "));
  EXPECT_THAT(text, HasSubstr("c.toml:4: run.stpes: unknown key; did you mean run.steps?"));
  EXPECT_THAT(text, HasSubstr("c.toml:5: modle: unknown section; did you mean [model]?"));
  EXPECT_THAT(text, HasSubstr("c.toml:8: "));
  EXPECT_THAT(text, HasSubstr("c.toml:9: optimizer.beta1: is a string, must be a number"));
}

TEST(Configuration, ASectionGivenTwiceIsTheOnlyProblemSaid) {
  const std::string text = message("[run]\nstpes = 1\n[model]\n[run]\nseed = 2\n");
  EXPECT_THAT(text, HasSubstr("c.toml:4: "));
  EXPECT_THAT(text, testing::Not(HasSubstr("problems")));
}

TEST(Configuration, ReportsContradictionsBesideOtherProblems) {
  const std::string text = message(smallest_with("[optimizer]\nrl = 1.0\n"), {"batch.global=6", "batch.micro=4"});
  EXPECT_THAT(text, HasSubstr("2 problems in c.toml"));
  EXPECT_THAT(text, HasSubstr("optimizer.rl: unknown key"));
  EXPECT_THAT(text, HasSubstr("batch.global = 6 is not a multiple of batch.micro = 4"));
}

TEST(Configuration, RefusesNumbersOutOfRange) {
  for (const char* bad : {"optimizer.lr=-1", "optimizer.lr=nan", "optimizer.lr=inf", "optimizer.eps=0.0",
                          "optimizer.beta1=1.0", "model.dropout=1.0", "optimizer.clip=-1.0", "model.layers=1000000000",
                          "model.hidden=1099511627776", "batch.global=-1"}) {
    const std::string key(bad, std::string_view(bad).find('='));
    const std::string text = message(std::string(kSmallest), {bad});
    EXPECT_THAT(text, HasSubstr(key + ": ")) << bad;
    EXPECT_THAT(text, HasSubstr(" is not ")) << bad;
  }
}

TEST(Configuration, RefusesShapesThatContradictThemselves) {
  EXPECT_THAT(message(std::string(kSmallest), {"model.heads=6", "model.kv_heads=4", "model.hidden=12"}),
              HasSubstr("heads = 6 is not a multiple of kv_heads = 4"));
  EXPECT_THAT(message(std::string(kSmallest), {"model.heads=3"}),
              HasSubstr("hidden = 8 is not a multiple of heads = 3"));
  EXPECT_THAT(message(std::string(kSmallest), {"batch.global=6", "batch.micro=4"}),
              HasSubstr("batch.global = 6 is not a multiple of batch.micro = 4"));
}

TEST(Configuration, RefusesSchedulesThatDoNotFit) {
  EXPECT_THAT(message(std::string(kSmallest), {"schedule.warmup_steps=10"}),
              HasSubstr("10 is not below the run's 10 steps"));
  EXPECT_THAT(message(std::string(kSmallest), {"schedule.min_lr=1.0"}), HasSubstr("schedule.min_lr: 1 is above"));
  EXPECT_THAT(
      message(std::string(kSmallest), {"schedule.kind=wsd", "schedule.warmup_steps=5", "schedule.decay_steps=6"}),
      HasSubstr("do not fit in 10 steps"));
}

TEST(Configuration, TakesOverridesOfEveryType) {
  const Config config =
      parse(std::string(kSmallest), {"run.name=\"a b\"", "run.seed=7", "model.bias=false", "optimizer.lr=2e-3",
                                     "parallel.stage_layers=[1, 1]", "eval.sample_prompts=[]", "model.norm=rmsnorm",
                                     "data.train=[{path=\"/x\", weight=2}, {path=\"/y\"}]", "data.valid=0.25"});
  EXPECT_EQ(config.run.name, "a b");
  EXPECT_EQ(config.run.seed, 7);
  EXPECT_FALSE(config.model.bias);
  EXPECT_EQ(config.optimizer.lr, 2e-3);
  EXPECT_EQ(config.parallel.stage_layers, (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(config.model.norm, "rmsnorm");
  ASSERT_EQ(config.data.train.size(), 2u);
  EXPECT_EQ(config.data.train[0].weight, 2);
  EXPECT_EQ(config.data.valid_fraction, 0.25);
}

TEST(Configuration, NamesOverridesThatItDoesNotKnow) {
  EXPECT_THAT(message(std::string(kSmallest), {"optimizer.rl=1"}),
              HasSubstr("--optimizer.rl: unknown key; did you mean --optimizer.lr?"));
  EXPECT_THAT(message(std::string(kSmallest), {"optimizer.lr=[1"}), HasSubstr("not a TOML value"));
}

TEST(Configuration, TakesRelativePathsFromTheFilesFolder) {
  const Config config = parse(smallest_with("[checkpoint]\ndirectory = \"../saves\"\n"));
  EXPECT_EQ(config.data.train[0].path, "/runs/corpus");
  EXPECT_EQ(config.checkpoint.directory, "/saves");
  EXPECT_EQ(config.run.directory, "/runs/run");
}

TEST(Configuration, LetsKeysChangeAPreset) {
  const Config config = parse(
      "[run]\nsteps = 1\n[model]\npreset = \"gpt2-124m\"\nlayers = 3\n[batch]\nglobal = 1\n"
      "[data]\ntrain = [{ path = \"c\" }]\n");
  EXPECT_EQ(config.model.layers, 3);
  EXPECT_EQ(config.model.hidden, 768);
  EXPECT_THAT(message("[model]\npreset = \"gpt2-125m\"\n"), HasSubstr("did you mean \"gpt2-124m\"?"));
}

TEST(Configuration, RefusesABadCorpusEntry) {
  EXPECT_THAT(message(std::string(kSmallest), {"data.train=[{path=\"x\", weight=-0.3}]"}),
              HasSubstr("data.train[0]: weight: -0.3 must be a finite number above 0"));
  EXPECT_THAT(message(std::string(kSmallest), {"data.train=[{pth=\"x\"}]"}), HasSubstr("did you mean path?"));
}

TEST(Configuration, OfEveryShippedFilePrintsToItsOwnEqual) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TRIREME_TEST_CONFIGS)) {
    const std::string printed = print_config(load_config(entry.path(), {}));
    EXPECT_EQ(print_config(parse(printed)), printed) << entry.path();
    EXPECT_NE(print_config(parse(printed, {"run.seed=99"})), printed) << "the comparison must be able to fail";
    ++files;
  }
  EXPECT_GE(files, 10);
}

TEST(Configuration, TakesMinutesBetweenSavesAsWordOrNumber) {
  const auto minutes = [](const char* value) {
    return parse(smallest_with(fmt::format("[checkpoint]\nevery_minutes = {}\n", value))).checkpoint.every_minutes;
  };
  EXPECT_EQ(minutes("\"auto\""), "auto");
  EXPECT_EQ(minutes("0"), "0");
  EXPECT_EQ(minutes("2.5"), "2.5");
  for (const char* bad : {"true", "-1", "\"often\"", "nan"})
    EXPECT_THAT(message(smallest_with(fmt::format("[checkpoint]\nevery_minutes = {}\n", bad))),
                HasSubstr("checkpoint.every_minutes"))
        << bad;
}

TEST(ConfigurationHelp, NamesEveryKeyOfThePrint) {
  const std::string help = config_help();
  for (const char* key : {"run.steps", "model.rope_theta", "data.train", "fault.skip_nonfinite", "optimizer.lr"})
    EXPECT_THAT(help, HasSubstr(key));
}

}  // namespace trireme::train
