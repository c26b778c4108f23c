#include "model/ops/norm.h"

#include "tests/model/operator_values.h"

namespace trireme::model {
namespace {

using core::Tensor;
using core::view;

/// A norm of [rows, h] values with everything it reads and writes.
template <class T>
struct Norm {
  using S = core::accumulate_t<T>;
  std::int64_t rows, h;
  bool layer_norm;
  std::vector<T> weight, bias, x, y, dy, dresidual, dx;
  std::vector<S> mean, rstd, dweight, dbias;

  Norm(std::int64_t rows_, std::int64_t h_, bool layer_norm_) : rows(rows_), h(h_), layer_norm(layer_norm_) {
    weight = random_values<T>(h, 1, 2);
    bias = random_values<T>(h, 2);
    x = random_values<T>(rows * h, 3, 3);
    dy = random_values<T>(rows * h, 4);
    dresidual = random_values<T>(rows * h, 5);
    y.resize(x.size());
    dx.resize(x.size());
    mean.resize(static_cast<std::size_t>(rows));
    rstd.resize(static_cast<std::size_t>(rows));
    dweight = random_values<S>(h, 6);
    dbias = random_values<S>(h, 7);
  }
  /// The same values in double.
  explicit Norm(const Norm<core::bf16>& other) : Norm(other, 0) {}
  template <class From>
  Norm(const Norm<From>& other, int) : rows(other.rows), h(other.h), layer_norm(other.layer_norm) {
    weight = doubles(other.weight), bias = doubles(other.bias), x = doubles(other.x), y = doubles(other.y);
    dy = doubles(other.dy), dresidual = doubles(other.dresidual), dx = doubles(other.dx);
    mean = doubles(other.mean), rstd = doubles(other.rstd);
    dweight = doubles(other.dweight), dbias = doubles(other.dbias);
  }

  Tensor rows_of(std::vector<T>& values) { return view(values.data(), {rows, h}); }
  NormWeights weights() { return {view(weight.data(), {h}), layer_norm ? view(bias.data(), {h}) : Tensor(), 1e-5}; }
  NormStatistics statistics() { return {layer_norm ? view(mean.data(), {rows}) : Tensor(), view(rstd.data(), {rows})}; }
  NormGradients gradients() { return {view(dweight.data(), {h}), layer_norm ? view(dbias.data(), {h}) : Tensor()}; }
  void forward() { norm_forward(weights(), rows_of(x), rows_of(y), statistics()); }
  void backward(bool residual) {
    norm_backward(weights(), statistics(), rows_of(x), rows_of(dy), residual ? rows_of(dresidual) : Tensor(),
                  rows_of(dx), gradients());
  }
};

/// By the formulas, in double.
std::vector<double> reference(const Norm<double>& n) {
  std::vector<double> y;
  for (std::int64_t t = 0; t < n.rows; ++t) {
    const double* x = n.x.data() + t * n.h;
    double mean = 0, variance = 0;
    for (std::int64_t i = 0; i < n.h; ++i) mean += n.layer_norm ? x[i] / static_cast<double>(n.h) : 0;
    for (std::int64_t i = 0; i < n.h; ++i) variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(n.h);
    for (std::int64_t i = 0; i < n.h; ++i) {
      const auto c = static_cast<std::size_t>(i);
      y.push_back((x[i] - mean) / std::sqrt(variance + 1e-5) * n.weight[c] + (n.layer_norm ? n.bias[c] : 0));
    }
  }
  return y;
}

template <class Check>
void for_all_norms(const Check& check) {
  for (const bool layer_norm : {true, false})
    for (const std::int64_t rows : {1, 7, 70})
      for (const std::int64_t h : {1, 5, 33, 768, 1000}) {
        SCOPED_TRACE(fmt::format("{} [{}, {}]", layer_norm ? "LayerNorm" : "RMSNorm", rows, h));
        check(rows, h, layer_norm);
      }
}

template <class T>
class NormOf : public ::testing::Test {};
TYPED_TEST_SUITE(NormOf, ComputeTypes);

TYPED_TEST(NormOf, ForwardIsTheFormula) {
  using T = TypeParam;
  for_all_norms([](std::int64_t rows, std::int64_t h, bool layer_norm) {
    Norm<T> norm(rows, h, layer_norm);
    norm.forward();
    expect_near(norm.y, reference(Norm<double>(norm, 0)), kTolerance<T>);
  });
}

TYPED_TEST(NormOf, GradientsAreThoseOfDouble) {
  using T = TypeParam;
  for_all_norms([](std::int64_t rows, std::int64_t h, bool layer_norm) {
    if (h == 1) return;  // rstd of 316 and more multiplies the rounding of the difference from the mean
    for (const bool residual : {true, false}) {
      Norm<T> norm(rows, h, layer_norm);
      Norm<double> wide(norm, 0);
      norm.forward(), norm.backward(residual);
      wide.forward(), wide.backward(residual);
      expect_near(norm.dx, wide.dx, 2 * kTolerance<T>);
      const double sums = std::is_same_v<T, double> ? 1e-12 : 1e-5;
      expect_near(norm.dweight, doubles(wide.dweight), sums);
      expect_near(norm.dbias, doubles(wide.dbias), sums);
    }
  });
}

TYPED_TEST(NormOf, SumAndNormInOnePassAreTheTwo) {
  using T = TypeParam;
  for_all_norms([](std::int64_t rows, std::int64_t h, bool layer_norm) {
    Norm<T> norm(rows, h, layer_norm), fused(rows, h, layer_norm);
    std::vector<T> residual = norm.x, branch = norm.dy, expected;
    for (std::size_t i = 0; i < residual.size(); ++i)
      expected.push_back(of<T>(static_cast<double>(residual[i]) + static_cast<double>(branch[i])));
    norm.x = expected;
    norm.forward();
    std::vector<T> sum(residual.size());
    const auto add = [&](std::vector<T>& into) {
      add_norm_forward(fused.weights(), norm.rows_of(residual), norm.rows_of(branch), norm.rows_of(into),
                       norm.rows_of(fused.y), fused.statistics());
      EXPECT_TRUE(same_bits(into, expected) && same_bits(fused.y, norm.y) && same_bits(fused.rstd, norm.rstd));
      EXPECT_TRUE(same_bits(fused.mean, norm.mean));
    };
    add(sum);
    std::vector<T> kept = residual;
    add(residual);
    residual = kept;
    add(branch);
  });
}

TYPED_TEST(NormOf, GradientMayReplaceTheResiduals) {
  using T = TypeParam;
  for (const bool layer_norm : {true, false}) {
    Norm<T> norm(7, 33, layer_norm), other(7, 33, layer_norm);
    norm.forward(), other.forward();
    norm.backward(true);
    norm_backward(other.weights(), other.statistics(), other.rows_of(other.x), other.rows_of(other.dy),
                  other.rows_of(other.dresidual), other.rows_of(other.dresidual), other.gradients());
    EXPECT_TRUE(same_bits(norm.dx, other.dresidual) && same_bits(norm.dweight, other.dweight));
    EXPECT_FALSE(same_bits(norm.dx, norm.dresidual));
  }
}

TYPED_TEST(NormOf, ThreadsDoNotChangeBits) {
  using T = TypeParam;
  for (const bool layer_norm : {true, false}) {
    EXPECT_TRUE(same_for_all_threads([&] {
      Norm<T> norm(1003, 41, layer_norm);
      norm.forward();
      return norm.y;
    }));
    EXPECT_TRUE(same_for_all_threads([&] {
      Norm<T> norm(1003, 41, layer_norm);
      norm.forward(), norm.backward(true);
      std::vector<double> all = doubles(norm.dx), more = doubles(norm.dweight), bias = doubles(norm.dbias);
      all.insert(all.end(), more.begin(), more.end());
      all.insert(all.end(), bias.begin(), bias.end());
      return all;
    }));
  }
}

TYPED_TEST(NormOf, NanSpoilsItsRowAlone) {
  using T = TypeParam;
  for (const bool layer_norm : {true, false}) {
    Norm<T> norm(7, 33, layer_norm);
    norm.x[2 * 33 + 5] = of<T>(kNan);
    norm.forward(), norm.backward(false);
    for (std::size_t i = 0; i < norm.y.size(); ++i) {
      EXPECT_EQ(std::isnan(static_cast<double>(norm.y[i])), i / 33 == 2) << i;
      EXPECT_EQ(std::isnan(static_cast<double>(norm.dx[i])), i / 33 == 2) << i;
    }
    for (const auto d : norm.dweight) EXPECT_TRUE(std::isnan(d));
  }
}

TEST(Norm, GradientsMatchFiniteDifferences) {
  for (const bool layer_norm : {true, false}) {
    Norm<double> n(4, 9, layer_norm);
    const std::vector<double> dweight = n.dweight, dbias = n.dbias;
    n.forward(), n.backward(true);
    const auto value = [&] {
      n.forward();
      return dot(n.y, n.dy) + dot(n.x, n.dresidual);
    };
    expect_near(n.dx, finite_differences(n.x, value), 10 * kDifferenceTolerance);
    std::vector<double> added = finite_differences(n.weight, value);
    for (std::size_t i = 0; i < added.size(); ++i) added[i] += dweight[i];
    expect_near(n.dweight, added, kDifferenceTolerance);
    if (!layer_norm) continue;
    added = finite_differences(n.bias, value);
    for (std::size_t i = 0; i < added.size(); ++i) added[i] += dbias[i];
    expect_near(n.dbias, added, kDifferenceTolerance);
  }
}

TEST(Norm, KeepsItsDigitsFarFromZero) {
  Norm<float> norm(3, 768, true);
  for (float& value : norm.x) value += 4096;
  norm.forward();
  expect_near(norm.y, reference(Norm<double>(norm, 0)), 5e-4);
}

TEST(Norm, RefusesStatisticsOfTheOtherKind) {
  Norm<float> norm(3, 8, true);
  NormStatistics statistics = norm.statistics();
  statistics.mean = {};
  EXPECT_THROW(norm_forward(norm.weights(), norm.rows_of(norm.x), norm.rows_of(norm.y), statistics), core::Error);
}

/// QK-norm of 5 tokens, 4 query and 2 key heads of size d.
template <class T>
struct Heads {
  using S = core::accumulate_t<T>;
  static constexpr std::int64_t kTokens = 5, kQueries = 4, kKeys = 2;
  std::int64_t d;
  std::vector<T> query, key, qkv, raw, dqkv;
  std::vector<S> rstd, dquery, dkey;

  explicit Heads(std::int64_t d_) : d(d_) {
    query = random_values<T>(d, 1, 2), key = random_values<T>(d, 2, 2);
    qkv = random_values<T>(kTokens * (kQueries + 2 * kKeys) * d, 3, 2);
    dqkv = random_values<T>(kTokens * (kQueries + 2 * kKeys) * d, 4);
    raw.resize(static_cast<std::size_t>(kTokens * (kQueries + kKeys) * d));
    rstd.resize(static_cast<std::size_t>(kTokens * (kQueries + kKeys)));
    dquery = random_values<S>(d, 5), dkey = random_values<S>(d, 6);
  }
  HeadNorm norm() { return {kQueries, kKeys, d, view(query.data(), {d}), view(key.data(), {d}), 1e-5}; }
  Tensor packed(std::vector<T>& values) { return view(values.data(), {kTokens, (kQueries + 2 * kKeys) * d}); }
  Tensor raw_view() { return view(raw.data(), {kTokens, (kQueries + kKeys) * d}); }
  Tensor rstd_view() { return view(rstd.data(), {kTokens, kQueries + kKeys}); }
  void forward() { head_norm_forward(norm(), packed(qkv), raw_view(), rstd_view()); }
  void backward() {
    head_norm_backward(norm(), raw_view(), rstd_view(), packed(dqkv), view(dquery.data(), {d}), view(dkey.data(), {d}));
  }
};

TYPED_TEST(NormOf, HeadsOfQueriesAndKeysAreNormedAlone) {
  using T = TypeParam;
  for (const std::int64_t d : {1, 5, 33, 64, 128}) {
    Heads<T> heads(d);
    const std::vector<T> before = heads.qkv;
    heads.forward();
    std::vector<double> expected = doubles(before), raw;
    for (std::int64_t row = 0; row < Heads<T>::kTokens * 8; ++row) {
      if (row % 8 >= 6) continue;
      double* x = expected.data() + row * d;
      raw.insert(raw.end(), x, x + d);
      double squares = 0;
      for (std::int64_t i = 0; i < d; ++i) squares += x[i] * x[i];
      for (std::int64_t i = 0; i < d; ++i)
        x[i] *= static_cast<double>((row % 8 < 4 ? heads.query : heads.key)[static_cast<std::size_t>(i)]) /
                std::sqrt(squares / static_cast<double>(d) + 1e-5);
    }
    expect_near(heads.qkv, expected, kTolerance<T>);
    expect_near(heads.raw, raw, 0);
  }
}

TEST(HeadNorm, GradientsMatchFiniteDifferences) {
  Heads<double> heads(6);
  const std::vector<double> weights = heads.dqkv, dquery = heads.dquery, dkey = heads.dkey;
  std::vector<double> x = heads.qkv;
  heads.forward(), heads.backward();
  const auto value = [&] {
    Heads<double> other = heads;
    other.qkv = x;
    other.forward();
    return dot(other.qkv, weights);
  };
  expect_near(heads.dqkv, finite_differences(x, value), 10 * kDifferenceTolerance);
  std::vector<double> added = finite_differences(heads.query, value);
  for (std::size_t i = 0; i < added.size(); ++i) added[i] += dquery[i];
  expect_near(heads.dquery, added, kDifferenceTolerance);
  added = finite_differences(heads.key, value);
  for (std::size_t i = 0; i < added.size(); ++i) added[i] += dkey[i];
  expect_near(heads.dkey, added, kDifferenceTolerance);
}

}  // namespace
}  // namespace trireme::model
