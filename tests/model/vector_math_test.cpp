#include "model/ops/vector_math.h"

#include "tests/model/operator_values.h"

namespace trireme::model {
namespace {

TEST(OperatorValues, ComparisonsSeeOneBit) {
  const std::vector<float> a = random_values<float>(10, 1);
  std::vector<float> b = a;
  EXPECT_TRUE(same_bits(a, b));
  b[7] = std::nextafter(b[7], 2.0f);
  EXPECT_FALSE(same_bits(a, b));
  EXPECT_FALSE(same_for_all_threads([] { return std::vector<int>{core::thread_count()}; }));
}

TEST(Exponential, IsRightToOneAndAHalfUlp) {
  double worst = 0;
  for (float x = -87.33f; x < 88.72f; x += 0.000713f) {
    const double exact = std::exp(static_cast<double>(x));
    const auto near = static_cast<float>(exact);
    const double ulp = static_cast<double>(std::nextafter(near, std::numeric_limits<float>::infinity())) - near;
    worst = std::max(worst, std::abs(static_cast<double>(exponential(x)) - exact) / ulp);
  }
  EXPECT_LT(worst, 1.5);
  EXPECT_GT(worst, 0.4) << "no float function is better than half an ulp: the comparison does not compare";
}

TEST(Exponential, HasTheRightLimits) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exponential(0.0f), 1.0f);
  EXPECT_EQ(exponential(-0.0f), 1.0f);
  EXPECT_EQ(exponential(-infinity), 0.0f);
  EXPECT_EQ(exponential(-87.4f), 0.0f);
  EXPECT_EQ(exponential(-3e38f), 0.0f);
  EXPECT_EQ(exponential(infinity), infinity);
  EXPECT_EQ(exponential(88.73f), infinity);
  EXPECT_EQ(exponential(3e38f), infinity);
  EXPECT_LT(exponential(88.72f), infinity);
  EXPECT_GT(exponential(88.72f), 3.3e38f);
}

TEST(Exponential, KeepsEveryNan) {
  for (const std::uint32_t bits : {0x7fc00000u, 0xffc00000u, 0xffffffffu, 0x7f800001u, 0x7fc00001u, 0x7fc001ffu})
    EXPECT_TRUE(std::isnan(exponential(std::bit_cast<float>(bits)))) << std::hex << bits;
}

TEST(Logistic, GoesFromZeroToOne) {
  EXPECT_EQ(logistic(0.0f), 0.5f);
  EXPECT_EQ(logistic(-200.0f), 0.0f);
  EXPECT_EQ(logistic(200.0f), 1.0f);
  EXPECT_TRUE(std::isnan(logistic(kNan)));
  for (float x = -20; x < 20; x += 0.37f)
    EXPECT_NEAR(logistic(x), 1 / (1 + std::exp(-static_cast<double>(x))), 1e-7) << x;
}

}  // namespace
}  // namespace trireme::model
