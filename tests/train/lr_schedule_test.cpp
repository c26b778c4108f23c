#include "train/lr_schedule.h"

#include <gtest/gtest.h>

namespace trireme::train {

constexpr std::int64_t kAt[] = {0, 1, 9, 10, 50, 80, 90, 99};

void expect_rates(const char* kind, const std::vector<double>& rates) {
  const ScheduleConfig schedule{.kind = kind, .warmup_steps = 10, .min_lr = 1e-4};
  for (std::size_t i = 0; i < rates.size(); ++i)
    EXPECT_NEAR(learning_rate(schedule, 1e-3, 100, kAt[i]), rates[i], 5e-7 * rates[i]) << kind << " at " << kAt[i];
}

TEST(LearningRate, FollowsTheSpecifiedCosine) {
  expect_rates("cosine", {1.0e-4, 2.0e-4, 1.0e-3, 1.0e-3, 6.281417e-4, 2.052800e-4, 1.271383e-4, 1.002741e-4});
}

TEST(LearningRate, FollowsTheSpecifiedLine) {
  expect_rates("linear", {1.0e-4, 2.0e-4, 1.0e-3, 1.0e-3, 6.0e-4, 3.0e-4, 2.0e-4, 1.1e-4});
}

TEST(LearningRate, OfWsdStaysUntilItsDecay) {
  ScheduleConfig schedule{.kind = "wsd", .warmup_steps = 10, .min_lr = 0};
  EXPECT_EQ(learning_rate(schedule, 1, 100, 79), 1);
  EXPECT_EQ(learning_rate(schedule, 1, 100, 80), 1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1, 100, 85), 0.5);  // 1 - sqrt(5 / 20)
  schedule.decay_shape = "linear";
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1, 100, 85), 0.75);
}

TEST(LearningRate, IsAboveZeroAtTheFirstStepOfAnyWarmUp) {
  for (const std::int64_t warmup : {0, 1, 5, 1000})
    EXPECT_GT(learning_rate({.kind = "cosine", .warmup_steps = warmup}, 1e-3, 2000, 0), 0);
}

}  // namespace trireme::train
