#include "model/ops/dropout.h"

#include "tests/model/operator_values.h"

namespace trireme::model {
namespace {

using core::view;

/// Which of 32 channels of one token are kept, as text of 0 and 1.
std::string kept_channels(std::int64_t q, std::uint32_t site, std::int64_t token) {
  const Dropout dropout{.rate = 0.1, .seed = 1234, .first_position = q, .site = site};
  std::vector<float> x(static_cast<std::size_t>((token + 1) * 32), 1.0f);
  apply_dropout(dropout, view(x.data(), {token + 1, 1, 32}), view(x.data(), {token + 1, 1, 32}));
  std::string text;
  for (std::int64_t i = 0; i < 32; ++i) text += x[static_cast<std::size_t>(token * 32 + i)] != 0 ? '1' : '0';
  return text;
}

TEST(Dropout, KeepsTheGoldenChannels) {
  EXPECT_EQ(kept_channels(0, 0, 0), "11111011111110111111111111011111");
  EXPECT_EQ(kept_channels(7, 2, 3), "10111111111111101111111111111110");
  EXPECT_NE(kept_channels(7, 2, 2), "10111111111111101111111111111110");
}

TEST(Dropout, AllBitsOfAPositionCount) {
  const auto at = [](std::int64_t q) { return kept_channels(q, 0, 40); };
  EXPECT_NE(at(3), at(3 + (std::int64_t{1} << 32)));
  EXPECT_NE(at(3), at(3 + (std::int64_t{1} << 47)));
  EXPECT_EQ(at(3), at(3));
}

TEST(Dropout, DropsItsShare) {
  std::vector<float> x(1 << 18, 1.0f);
  apply_dropout({.rate = 0.25, .seed = 5}, view(x.data(), {64, 4, 1024}), view(x.data(), {64, 4, 1024}));
  double kept = 0;
  for (const float value : x) {
    ASSERT_TRUE(value == 0 || value == static_cast<float>(1 / 0.75));
    kept += value != 0;
  }
  EXPECT_NEAR(kept / (1 << 18), 0.75, 0.004);  // 4.7 standard deviations
}

template <class T>
struct Residual {
  std::int64_t s, b, h;
  Dropout dropout;
  std::vector<T> residual, branch, out;

  Residual(std::int64_t s_, std::int64_t b_, std::int64_t h_, double rate) : s(s_), b(b_), h(h_) {
    dropout = {.rate = rate, .seed = 42, .first_position = 1000, .site = 5};
    residual = random_values<T>(s * b * h, 1), branch = random_values<T>(s * b * h, 2);
    out.resize(residual.size());
  }
  core::Tensor tensor(std::vector<T>& values) { return view(values.data(), {s, b, h}); }
  void add(std::vector<T>& into) { add_residual(dropout, tensor(residual), tensor(branch), tensor(into)); }
  double factor(std::int64_t token, std::int64_t sample, std::int64_t channel) const {
    const auto words =
        dropout.words(static_cast<std::uint32_t>(channel / 4), static_cast<std::uint32_t>(token), sample);
    if (!dropout.active()) return 1;
    return words[static_cast<std::size_t>(channel % 4)] < dropout.threshold() ? 0 : 1 / (1 - dropout.rate);
  }
  /// first + factor x second, element by element.
  std::vector<double> expected(const std::vector<double>& first, const std::vector<double>& second) const {
    std::vector<double> sums;
    for (std::int64_t token = 0; token < s; ++token)
      for (std::int64_t sample = 0; sample < b; ++sample)
        for (std::int64_t i = 0; i < h; ++i)
          sums.push_back(first[sums.size()] + factor(token, sample, i) * second[sums.size()]);
    return sums;
  }
};

template <class T>
class DropoutOf : public ::testing::Test {};
TYPED_TEST_SUITE(DropoutOf, ComputeTypes);

TYPED_TEST(DropoutOf, ResidualPlusWhatIsKept) {
  using T = TypeParam;
  for (const std::int64_t h : {1, 5, 33, 64, 67, 768, 1000})
    for (const double rate : {0.0, 0.1, 0.5}) {
      SCOPED_TRACE(fmt::format("h {} rate {}", h, rate));
      Residual<T> n(7, 3, h, rate);
      const std::vector<double> expected = n.expected(doubles(n.residual), doubles(n.branch));
      n.add(n.out);
      expect_near(n.out, expected, kTolerance<T>);
      const std::vector<T> residual = n.residual;
      n.add(n.residual);
      EXPECT_TRUE(same_bits(n.residual, n.out));
      n.residual = residual;
      n.add(n.branch);
      EXPECT_TRUE(same_bits(n.branch, n.out));
    }
}

TYPED_TEST(DropoutOf, GradientDropsTheSameElements) {
  using T = TypeParam;
  for (const std::int64_t h : {1, 5, 33, 67, 768}) {
    Residual<T> n(7, 3, h, 0.3);
    const std::vector<double> zero(n.branch.size());
    const std::vector<double> expected = n.expected(zero, doubles(n.branch));
    apply_dropout(n.dropout, n.tensor(n.branch), n.tensor(n.out));
    expect_near(n.out, expected, kTolerance<T>);
    apply_dropout(n.dropout, n.tensor(n.branch), n.tensor(n.branch));
    EXPECT_TRUE(same_bits(n.branch, n.out));
  }
}

TYPED_TEST(DropoutOf, ThreadsDoNotChangeBits) {
  using T = TypeParam;
  for (const double rate : {0.0, 0.3})
    EXPECT_TRUE(same_for_all_threads([&] {
      Residual<T> n(211, 3, 99, rate);
      n.add(n.out);
      return n.out;
    }));
}

TYPED_TEST(DropoutOf, NanStays) {
  using T = TypeParam;
  for (const double rate : {0.0, 0.3}) {
    Residual<T> n(3, 1, 40, rate);
    n.branch[50] = of<T>(kNan);
    n.add(n.out);
    for (std::size_t i = 0; i < n.out.size(); ++i) EXPECT_EQ(std::isnan(static_cast<double>(n.out[i])), i == 50) << i;
  }
}

}  // namespace
}  // namespace trireme::model
