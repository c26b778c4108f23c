#include "train/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tests/train/huggingface_files.h"

namespace trireme::train {

using nlohmann::ordered_json;

class Metrics : public testing::Test {
 protected:
  std::filesystem::path path() const { return scratch_ / "metrics.jsonl"; }
  std::vector<std::string> lines() const {
    std::ifstream in(path());
    std::vector<std::string> out;
    for (std::string line; std::getline(in, line);) out.push_back(line);
    return out;
  }
  std::vector<std::string> keys(const std::string& line) const {
    std::vector<std::string> out;
    const auto record = ordered_json::parse(line);
    for (const auto& entry : record.items()) out.push_back(entry.key());
    return out;
  }

 private:
  Scratch scratch_;
};

TEST_F(Metrics, OfAStepHaveTheSpecifiedKeysKindFirst) {
  MetricsFile(path()).step({.step = 3, .loss = 2.5});
  ASSERT_EQ(lines().size(), 1u);
  EXPECT_THAT(keys(lines()[0]),
              testing::ElementsAre("kind", "step", "loss", "grad_norm", "lr", "tokens", "samples", "step_seconds",
                                   "tokens_per_second", "tokens_per_second_per_device", "mfu", "memory_bytes_peak",
                                   "data_wait_seconds", "skipped"));
}

TEST_F(Metrics, OfOtherKindsHaveTheSpecifiedKeys) {
  MetricsFile file(path());
  file.eval(5, 1.5, 4.48, 100);
  file.checkpoint(5, 1000, 0.25, true);
  file.run("start", 0, "new");
  const auto found = lines();
  ASSERT_EQ(found.size(), 3u);
  EXPECT_THAT(keys(found[0]), testing::ElementsAre("kind", "step", "loss", "perplexity", "tokens"));
  EXPECT_THAT(keys(found[1]),
              testing::ElementsAre("kind", "step", "bytes", "stall_seconds", "total_seconds", "committed"));
  EXPECT_THAT(keys(found[2]), testing::IsSupersetOf({"kind", "event", "reason", "layout"}));
}

TEST_F(Metrics, ReadBackExactly) {
  const double values[] = {0.1, 1.0 / 3, 5e-324, std::nextafter(1.0, 2.0), std::numeric_limits<double>::max()};
  {
    MetricsFile file(path());
    for (const double value : values) file.step({.loss = value, .lr = value});
  }
  const auto found = lines();
  ASSERT_EQ(found.size(), std::size(values));
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(ordered_json::parse(found[i])["loss"].get<double>(), values[i]);
    EXPECT_EQ(ordered_json::parse(found[i])["lr"].get<double>(), values[i]);
  }
}

TEST_F(Metrics, AreAppendedToThoseOfTheRunBefore) {
  MetricsFile(path()).step({.step = 1});
  MetricsFile(path()).step({.step = 2});
  ASSERT_EQ(lines().size(), 2u);
  EXPECT_EQ(ordered_json::parse(lines()[0])["step"], 1);
  EXPECT_EQ(ordered_json::parse(lines()[1])["step"], 2);
}

TEST_F(Metrics, CloseALineTornByAKill) {
  std::ofstream(path()) << "{\"kind\":\"train\",\"step\":1}\n{\"kind\":\"tra";
  MetricsFile(path()).step({.step = 2});
  const auto found = lines();
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[1], "{\"kind\":\"tra");
  EXPECT_EQ(ordered_json::parse(found[2])["step"], 2);
}

TEST_F(Metrics, ThatCannotBeOpenedAreAnErrorOfTheRunDirectory) {
  try {
    MetricsFile file(path() / "below");
    FAIL() << "opened";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ExitCode::run_directory);
    EXPECT_THAT(error.what(), testing::HasSubstr(path().string()));
  }
}

StepRecord example() {
  return {.step = 120,
          .steps = 2000,
          .loss = 3.48121,
          .grad_norm = 0.8351,
          .lr = 5.9e-4,
          .step_seconds = 0.4123,
          .tokens_per_second = 39812,
          .mfu = 0.41249,
          .eta_seconds = 725};
}

TEST(ConsoleLine, IsTheOneSpecified) {
  EXPECT_EQ(console_line(example()),
            "step 120/2000 | loss 3.4812 | norm 0.84 | lr 5.9e-4 | 412 ms | 39.8k tok/s | MFU 41.2 % | eta 12m");
}

TEST(ConsoleLine, ChoosesUnitsBySize) {
  const auto with = [](double seconds, double rate, double eta) {
    StepRecord record = example();
    record.step_seconds = seconds;
    record.tokens_per_second = rate;
    record.eta_seconds = eta;
    return console_line(record);
  };
  using testing::HasSubstr;
  EXPECT_THAT(with(0.00256, 950, 42), testing::AllOf(HasSubstr("| 2.56 ms | 950 tok/s |"), HasSubstr("eta 42s")));
  EXPECT_THAT(with(12.34, 2.5e6, 7380), testing::AllOf(HasSubstr("| 12.3 s | 2.50M tok/s |"), HasSubstr("eta 2h03m")));
  EXPECT_THAT(with(1, 1, 3599), HasSubstr("eta 1h00m"));
  EXPECT_THAT(with(1, 1, 3 * 86400 + 4 * 3600), HasSubstr("eta 3d04h"));
}

TEST(ConsoleLine, WritesRatesOfAnyExponent) {
  const auto with = [](double lr) {
    StepRecord record = example();
    record.lr = lr;
    return console_line(record);
  };
  EXPECT_THAT(with(0), testing::HasSubstr("| lr 0.0e+0 |"));
  EXPECT_THAT(with(1e-12), testing::HasSubstr("| lr 1.0e-12 |"));
}

}  // namespace trireme::train
