#include "data/sample_order.h"

#include <gtest/gtest.h>

#include <set>

namespace trireme::data {

std::vector<std::int64_t> order(std::uint32_t epoch, std::uint32_t corpus, std::int64_t n) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < n; ++i) out.push_back(permute(1234, epoch, corpus, n, i));
  return out;
}

TEST(Permutation, EqualsTheSpecifiedOrders) {
  using List = std::vector<std::int64_t>;
  EXPECT_EQ(order(0, 0, 10), (List{7, 3, 6, 0, 8, 2, 4, 5, 1, 9}));
  EXPECT_EQ(order(1, 0, 10), (List{2, 6, 9, 3, 7, 5, 8, 1, 0, 4}));
  EXPECT_EQ(order(0, 1, 10), (List{4, 6, 7, 9, 3, 8, 0, 1, 5, 2}));
  EXPECT_EQ(order(0, 0, 5), (List{2, 3, 4, 0, 1}));
  const std::int64_t begin[] = {26113, 95009, 37949, 64590};
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(permute(1234, 0, 0, 100000, i), begin[i]);
}

TEST(Permutation, VisitsEachSampleOnce) {
  for (const std::int64_t n : {1, 2, 3, 16, 17, 1000}) {
    const auto all = order(3, 2, n);
    EXPECT_EQ(std::set<std::int64_t>(all.begin(), all.end()).size(), static_cast<std::size_t>(n));
  }
}

TEST(Blend, PicksTheFirstTwentyAsSpecified) {
  Blend blend({0.3, 0.7});
  const std::size_t expected[] = {1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 1, 0, 1, 1, 0, 1, 1};
  for (const std::size_t corpus : expected) EXPECT_EQ(blend.next(), corpus);
}

TEST(Blend, KeepsSharesWithinOneSample) {
  Blend blend({0.001, 0.999});
  for (int i = 0; i < 5000; ++i) blend.next();
  EXPECT_NEAR(static_cast<double>(blend.counts()[0]), 5, 1);
}

TEST(Blend, ReplayEqualsStepping) {
  Blend stepped({1, 2, 3}), replayed({1, 2, 3});
  for (int i = 0; i < 777; ++i) stepped.next();
  replayed.advance_to(777);
  EXPECT_EQ(replayed.counts(), stepped.counts());
}

}  // namespace trireme::data
