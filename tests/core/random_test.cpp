#include "core/random.h"

#include <gtest/gtest.h>

namespace trireme::core {

TEST(Philox, GivesThePublishedWordsForAZeroCounterAndKey) {
  const PhiloxWords expected{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  EXPECT_EQ(philox({0, 0, 0, 0}, 0, 0), expected);
}

}  // namespace trireme::core
