#include "model/ops/cross_entropy.h"

#include "tests/model/operator_values.h"

namespace trireme::model {
namespace {

using core::view;

template <class T>
struct Losses {
  using S = core::accumulate_t<T>;
  std::int64_t rows, v, columns;
  std::vector<T> logits;
  std::vector<std::int32_t> targets;
  std::vector<S> losses;

  /// Every fifth target is -1; the padding is larger than all logits.
  Losses(std::int64_t rows_, std::int64_t v_, std::int64_t columns_) : rows(rows_), v(v_), columns(columns_) {
    logits = random_values<T>(rows * columns, 1, 5);
    for (std::int64_t t = 0; t < rows; ++t) {
      targets.push_back(t % 5 == 3 ? -1 : static_cast<std::int32_t>((t * 7919 + v - 1) % v));
      for (std::int64_t i = v; i < columns; ++i) logits[static_cast<std::size_t>(t * columns + i)] = of<T>(1e30);
    }
    losses.assign(static_cast<std::size_t>(rows), of<S>(7));
  }
  void run(bool gradient) {
    cross_entropy(view(logits.data(), {rows, columns}), v, targets.data(), gradient, view(losses.data(), {rows}));
  }
};

struct Reference {
  std::vector<double> losses, gradient;
};

template <class T>
Reference reference(const Losses<T>& n) {
  Reference out;
  for (std::int64_t t = 0; t < n.rows; ++t) {
    const std::vector<double> all = doubles(n.logits);
    const double* row = all.data() + t * n.columns;
    const std::int32_t target = n.targets[static_cast<std::size_t>(t)];
    long double total = 0;
    for (std::int64_t i = 0; i < n.v; ++i) total += std::exp(static_cast<long double>(row[i]));
    out.losses.push_back(target < 0 ? 0 : static_cast<double>(std::log(total) - row[target]));
    for (std::int64_t i = 0; i < n.columns; ++i) {
      const bool counted = target >= 0 && i < n.v;
      const auto softmax = counted ? static_cast<double>(std::exp(static_cast<long double>(row[i])) / total) : 0;
      out.gradient.push_back(counted ? softmax - (i == target ? 1 : 0) : 0);
    }
  }
  return out;
}

constexpr std::int64_t kVocabularies[][2] = {{1, 1}, {1, 64}, {5, 5}, {33, 64}, {61, 64}, {1000, 1024}, {5003, 5056}};

template <class T>
class CrossEntropy : public ::testing::Test {};
TYPED_TEST_SUITE(CrossEntropy, ComputeTypes);

TYPED_TEST(CrossEntropy, LossAndGradientAreTheFormulas) {
  using T = TypeParam;
  for (const std::int64_t rows : {1, 7})
    for (const auto& [v, columns] : kVocabularies) {
      SCOPED_TRACE(fmt::format("{} rows of {} in {}", rows, v, columns));
      Losses<T> n(rows, v, columns);
      const Reference expected = reference(n);
      n.run(true);
      expect_near(n.losses, expected.losses, kTolerance<core::accumulate_t<T>>);
      expect_near(n.logits, expected.gradient, kTolerance<T>);
      for (std::size_t i = 0; i < n.logits.size(); ++i)
        ASSERT_TRUE(expected.gradient[i] != 0 || static_cast<double>(n.logits[i]) == 0) << i;
    }
}

TYPED_TEST(CrossEntropy, GradientRowsSumToZero) {
  using T = TypeParam;
  const double tolerance = std::is_same_v<T, double> ? 1e-13 : std::is_same_v<T, float> ? 1e-6 : 4e-3;
  for (const auto& [v, columns] : kVocabularies) {
    Losses<T> n(7, v, columns);
    n.run(true);
    for (std::int64_t t = 0; t < n.rows; ++t) {
      double sum = 0;
      for (std::int64_t i = 0; i < columns; ++i)
        sum += static_cast<double>(n.logits[static_cast<std::size_t>(t * columns + i)]);
      EXPECT_LE(std::abs(sum), tolerance) << v << " row " << t;
    }
  }
}

TYPED_TEST(CrossEntropy, WithoutGradientLogitsStayAndLossesAreTheSame) {
  using T = TypeParam;
  Losses<T> with(7, 1000, 1024), without(7, 1000, 1024);
  const std::vector<T> logits = without.logits;
  with.run(true), without.run(false);
  expect_near(with.losses, doubles(without.losses), kTolerance<typename Losses<T>::S>);
  EXPECT_TRUE(same_bits(without.logits, logits));
  EXPECT_FALSE(same_bits(with.logits, logits));
}

TYPED_TEST(CrossEntropy, ThreadsDoNotChangeBits) {
  using T = TypeParam;
  EXPECT_TRUE(same_for_all_threads([] {
    Losses<T> n(31, 1003, 1024);
    n.run(true);
    std::vector<double> all = doubles(n.logits), losses = doubles(n.losses);
    all.insert(all.end(), losses.begin(), losses.end());
    return all;
  }));
}

TYPED_TEST(CrossEntropy, ExtremeLogitsStayFinite) {
  using T = TypeParam;
  const std::int64_t v = 100;
  const double large = static_cast<double>(of<T>(1e4));
  const auto run = [&](double others, double target, double expected_loss) {
    Losses<T> n(1, v, v);
    n.logits.assign(n.logits.size(), of<T>(others));
    n.logits[static_cast<std::size_t>(n.targets[0])] = of<T>(target);
    const Reference formula = reference(n);
    n.run(true);
    EXPECT_NEAR(static_cast<double>(n.losses[0]), expected_loss, 2e-3);
    double sum = 0;
    for (const T value : n.logits) sum += static_cast<double>(value);
    EXPECT_NEAR(sum, 0, 1e-2);
    return doubles(n.logits);
  };
  EXPECT_EQ(run(0, large, 0)[99], 0) << "the target is certain";
  EXPECT_EQ(run(0, -large, large + std::log(99.0))[99], -1) << "the target is impossible";
  run(-large, large, 0);
  run(large, -large, 2 * large + std::log(99.0));
  for (const double all : {0.0, 1e4, -1e4}) run(all, all, std::log(100.0));
}

TYPED_TEST(CrossEntropy, NanInARowGivesANanLoss) {
  using T = TypeParam;
  for (const std::size_t at : {0u, 63u, 64u, 99u, 130u}) {
    Losses<T> n(3, 131, 192);
    n.logits[192 + at] = of<T>(kNan);
    n.run(true);
    for (std::size_t t = 0; t < 3; ++t) EXPECT_EQ(std::isnan(n.losses[t]), t == 1) << at;
    for (std::size_t i = 0; i < 131; ++i) EXPECT_TRUE(std::isnan(static_cast<double>(n.logits[192 + i]))) << i;
  }
}

TEST(CrossEntropyGradient, MatchesFiniteDifferences) {
  Losses<double> n(4, 13, 16);
  for (double& value : n.logits) value = std::min(value, 5.0);
  std::vector<double> x = n.logits;
  n.run(true);
  expect_near(n.logits,
              finite_differences(x,
                                 [&] {
                                   Losses<double> other(4, 13, 16);
                                   other.logits = x;
                                   other.run(false);
                                   return dot(other.losses, {1, 1, 1, 1});
                                 }),
              kDifferenceTolerance);
}

TEST(CrossEntropyGradient, RefusesTargetsThatAreNoClass) {
  Losses<float> n(3, 61, 64);
  n.targets[2] = 61;
  EXPECT_THROW(n.run(true), core::Error);
}

}  // namespace
}  // namespace trireme::model
