#include "model/parameter.h"

#include <gtest/gtest.h>

namespace trireme::model {

TEST(InitialWeights, EqualTheSpecifiedValues) {
  const char* embedding = "token_embedding.weight";
  const double expected[] = {0.0251814649, 0.026824398, 0.0200787466, 0.0110608079, 0.0391958728};
  for (std::uint64_t j = 0; j < 5; ++j) EXPECT_NEAR(initial_normal(1234, embedding, j, 0.02), expected[j], 1e-9) << j;
  EXPECT_NEAR(initial_normal(1234, embedding, 1'000'003, 0.02), -0.00716375327, 1e-9);
  const char* query = "blocks.0.attention.query.weight";
  const double expected_query[] = {-0.0262405835, -0.00339560118, -0.00119622273, -0.0126760621, 0.0423354954};
  for (std::uint64_t j = 0; j < 5; ++j) EXPECT_NEAR(initial_normal(1234, query, j, 0.02), expected_query[j], 1e-9) << j;
  EXPECT_NEAR(initial_normal(1234, query, 1'000'003, 0.02), 0.0454752818, 1e-9);
}

TEST(ParameterCount, EqualsThePublishedCounts) {
  EXPECT_EQ(parameter_count(preset("gpt2-124m")), 124'439'808);
  EXPECT_EQ(parameter_count(preset("gpt2-1558m")), 1'557'611'200);
  EXPECT_EQ(parameter_count(preset("llama3-8b")), 8'030'261'248);
}

TEST(ParameterCount, OfTheTableEqualsTheFormula) {
  for (const std::string& name : preset_names())
    EXPECT_EQ(ParameterTable(preset(name)).count(), parameter_count(preset(name))) << name;
}

TEST(FlopsPerToken, EqualTheSpecifiedFigures) {
  EXPECT_EQ(flops_per_token(preset("gpt2-124m")), 797'815'296);
  EXPECT_EQ(flops_per_token(preset("gpt2-124m"), true), 854'438'400);
  EXPECT_EQ(flops_per_token(preset("gpt2-1558m")), 9'801'686'400);
}

}  // namespace trireme::model
