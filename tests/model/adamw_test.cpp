#include "model/ops/adamw.h"

#include <type_traits>

#include "tests/model/operator_values.h"

namespace trireme::model {
namespace {

using core::bf16;
using core::view;

/// A parameter of n elements in compute type T; weight apart from master for bf16 only.
template <class T>
struct Parameter {
  using S = core::accumulate_t<T>;
  std::int64_t n;
  std::vector<S> gradient, m, v, master;
  std::vector<T> weight;

  explicit Parameter(std::int64_t n_) : n(n_), weight(static_cast<std::size_t>(n)) {
    m.resize(weight.size()), v.resize(weight.size());
    master = random_values<S>(n, 1);
  }
  AdamwRange range() {
    const auto of = [&](auto& values) { return view(values.data(), {n}); };
    const bool apart = !std::is_same_v<T, S>;
    return {of(gradient), of(m), of(v), of(master), apart ? of(weight) : core::Tensor()};
  }
};

/// The definition, for one element, in double.
struct Reference {
  double p, m = 0, v = 0;
  void update(const AdamwStep& step, double gradient) {
    const double g = gradient * step.gradient_scale, k = static_cast<double>(step.update);
    m = step.beta1 * m + (1 - step.beta1) * g;
    v = step.beta2 * v + (1 - step.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(step.beta1, k)), v_hat = v / (1 - std::pow(step.beta2, k));
    p = p * (1 - step.lr * step.weight_decay) - step.lr * m_hat / (std::sqrt(v_hat) + step.eps);
  }
};

template <class T>
class Adamw : public ::testing::Test {};
TYPED_TEST_SUITE(Adamw, ComputeTypes);

TYPED_TEST(Adamw, FollowsTheDefinitionOverSeveralSteps) {
  using T = TypeParam;
  using S = core::accumulate_t<T>;
  for (const std::int64_t n : {1, 7, 33, 2048, 5000, 40001}) {
    Parameter<T> parameter(n);
    std::vector<Reference> references;
    for (const S p : parameter.master) references.push_back({static_cast<double>(p)});
    for (int k = 1; k <= 6; ++k) {
      const AdamwStep step{.lr = 1e-2 / k, .weight_decay = 0.1, .update = k, .gradient_scale = 0.25};
      parameter.gradient = random_values<S>(n, static_cast<unsigned>(10 + k), 3);
      for (std::size_t i = 0; i < references.size(); ++i)
        references[i].update(step, static_cast<double>(parameter.gradient[i]));
      adamw(step, parameter.range());
      for (const S g : parameter.gradient) ASSERT_EQ(g, 0);
    }
    std::vector<double> master, m, v;
    for (const Reference& r : references) master.push_back(r.p), m.push_back(r.m), v.push_back(r.v);
    const double tolerance = std::is_same_v<S, double> ? 1e-14 : 5e-7;
    expect_near(parameter.master, master, tolerance);
    expect_near(parameter.m, m, tolerance);
    expect_near(parameter.v, v, tolerance);
    if constexpr (std::is_same_v<T, bf16>) {
      for (std::size_t i = 0; i < master.size(); ++i)
        ASSERT_EQ(parameter.weight[i].bits, bf16(parameter.master[i]).bits) << i;
    }
  }
}

TYPED_TEST(Adamw, FirstUpdateMovesByTheRateAgainstTheGradient) {
  using T = TypeParam;
  using S = core::accumulate_t<T>;
  Parameter<T> parameter(4);
  parameter.master = {1, 1, 1, 1};
  parameter.gradient = {S(3), S(-0.001), S(1000), 0};
  adamw({.lr = 0.125, .eps = 1e-12}, parameter.range());
  expect_near(parameter.master, {0.875, 1.125, 0.875, 1}, 1e-6);
}

TYPED_TEST(Adamw, DecayAloneShrinksByItsProduct) {
  using T = TypeParam;
  using S = core::accumulate_t<T>;
  Parameter<T> parameter(3);
  parameter.master = {S(1), S(-2), S(0)};
  parameter.gradient.assign(3, S(0));
  adamw({.lr = 0.5, .weight_decay = 0.25}, parameter.range());
  expect_near(parameter.master, {0.875, -1.75, 0}, 1e-7);
}

TYPED_TEST(Adamw, NonFiniteGradientsShow) {
  using T = TypeParam;
  using S = core::accumulate_t<T>;
  Parameter<T> parameter(40);
  parameter.gradient = random_values<S>(40, 2);
  parameter.gradient[3] = static_cast<S>(kNan);
  parameter.gradient[30] = std::numeric_limits<S>::infinity();
  adamw({.lr = 0.5}, parameter.range());
  for (std::size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(std::isnan(parameter.master[i]), i == 3 || i == 30) << i;
    if constexpr (std::is_same_v<T, bf16>) {
      EXPECT_EQ(std::isnan(static_cast<float>(parameter.weight[i])), i == 3 || i == 30) << i;
    }
  }
}

TYPED_TEST(Adamw, ThreadsDoNotChangeBits) {
  using T = TypeParam;
  using S = core::accumulate_t<T>;
  EXPECT_TRUE(same_for_all_threads([] {
    Parameter<T> parameter(100003);
    for (int k = 1; k <= 3; ++k) {
      parameter.gradient = random_values<S>(parameter.n, static_cast<unsigned>(k));
      adamw({.lr = 1e-2, .weight_decay = 0.1, .update = k, .gradient_scale = 0.3}, parameter.range());
    }
    return parameter.master;
  }));
}

TEST(Adamw, RefusesRangesOfOtherSizes) {
  Parameter<float> parameter(5);
  parameter.gradient.resize(5);
  AdamwRange range = parameter.range();
  range.m.shape = {4};
  EXPECT_THROW(adamw({}, range), core::Error);
}

template <class T>
class SumOfSquares : public ::testing::Test {};
TYPED_TEST_SUITE(SumOfSquares, ComputeTypes);

TYPED_TEST(SumOfSquares, IsTheSumInDouble) {
  using T = TypeParam;
  for (const std::int64_t n : {0, 1, 7, 63, 64, 65, 1000, 300007}) {
    std::vector<T> x = random_values<T>(n, 3, 100);
    long double sum = 0;
    for (const double value : doubles(x)) sum += static_cast<long double>(value) * value;
    const auto expected = static_cast<double>(sum);
    EXPECT_NEAR(sum_of_squares(view(x.data(), {n})), expected, 1e-13 * expected) << n;
  }
}

TYPED_TEST(SumOfSquares, ThreadsDoNotChangeBits) {
  using T = TypeParam;
  std::vector<T> x = random_values<T>(300007, 3, 100);
  EXPECT_TRUE(same_for_all_threads([&] { return std::vector<double>{sum_of_squares(view(x.data(), {300007}))}; }));
}

TYPED_TEST(SumOfSquares, ShowsNanAndDoesNotOverflow) {
  using T = TypeParam;
  std::vector<T> x(1000, of<T>(1e30));
  EXPECT_NEAR(sum_of_squares(view(x.data(), {1000})) / 1e63, 1, 0.01);
  x[777] = of<T>(kNan);
  EXPECT_TRUE(std::isnan(sum_of_squares(view(x.data(), {1000}))));
}

TEST(Convert, RoundsToNearestEven) {
  std::vector<float> x{1.0f, 1.00390625f, 1.01171875f, 1.00390637f, -0.0f, 3.4e38f, kNan, 1e-41f};
  std::vector<bf16> y(8);
  convert(view(x.data(), {8}), view(y.data(), {8}));
  const std::vector<std::uint16_t> bits{0x3f80, 0x3f80, 0x3f82, 0x3f81, 0x8000, 0x7f80, 0x7fc0, 0x0000};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(y[i].bits, bits[i]) << x[i];
}

TEST(Convert, FromDoubleToBf16RoundsOnce) {
  const double half = 1.00390625, bit = std::ldexp(1.0, -40);  // half way between two bf16
  std::vector<double> x{half, half + bit, half - bit, -half - bit, 1e300, -1e300, kNan, 1.5};
  std::vector<bf16> y(8);
  convert(view(x.data(), {8}), view(y.data(), {8}));
  const std::vector<std::uint16_t> bits{0x3f80, 0x3f81, 0x3f80, 0xbf81, 0x7f80, 0xff80, 0x7fc0, 0x3fc0};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(y[i].bits, bits[i]) << x[i];
}

TEST(Convert, WidensExactlyAndNarrowsBack) {
  std::vector<bf16> x(65536), back(65536);
  for (std::size_t i = 0; i < x.size(); ++i) x[i].bits = static_cast<std::uint16_t>(i);
  std::vector<float> wide(65536);
  std::vector<double> wider(65536);
  convert(view(x.data(), {65536}), view(wide.data(), {65536}));
  convert(view(wide.data(), {65536}), view(wider.data(), {65536}));
  convert(view(wider.data(), {65536}), view(back.data(), {65536}));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool nan = (i & 0x7fff) > 0x7f80;
    EXPECT_EQ(std::isnan(wide[i]), nan);
    if (!nan)
      ASSERT_EQ(back[i].bits, x[i].bits);
    else
      ASSERT_TRUE(std::isnan(static_cast<float>(back[i])));
  }
}

TEST(SetZero, ClearsEveryByteAndNoMore) {
  for (const std::int64_t n : {1, 33, 100003}) {
    std::vector<bf16> x(static_cast<std::size_t>(n + 1), bf16(1.0f));
    set_zero(view(x.data(), {n}));
    for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(x[static_cast<std::size_t>(i)].bits, 0);
    EXPECT_EQ(x.back().bits, 0x3f80);
  }
}

}  // namespace
}  // namespace trireme::model
