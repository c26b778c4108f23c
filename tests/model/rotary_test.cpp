#include "model/ops/rotary.h"

#include "tests/model/operator_values.h"

namespace trireme::model {
namespace {

using core::view;

/// Rotation by the formula of complex numbers, in double; direction -1 turns back.
void rotate(const AttentionShape& n, double theta, const std::int32_t* starts, int direction,
            std::vector<double>& qkv) {
  for (std::int64_t s = 0; s < n.s; ++s)
    for (std::int64_t b = 0; b < n.b; ++b)
      for (std::int64_t head = 0; head < n.a + n.g; ++head)
        for (std::int64_t i = 0; i < n.d / 2; ++i) {
          const double position = static_cast<double>(s - (starts ? starts[b * n.s + s] : 0));
          const double angle = direction * position * std::pow(theta, -2.0 * static_cast<double>(i) / n.d);
          double& first = qkv[static_cast<std::size_t>((s * n.b + b) * n.row() + head * n.d + i)];
          double& second = (&first)[n.d / 2];
          const double x = first, y = second;
          first = x * std::cos(angle) - y * std::sin(angle);
          second = y * std::cos(angle) + x * std::sin(angle);
        }
}

template <class T>
struct Rotation {
  using S = core::accumulate_t<T>;
  AttentionShape shape;
  std::vector<S> table;
  std::vector<T> qkv;

  explicit Rotation(const AttentionShape& n) : shape(n), table(static_cast<std::size_t>(n.s * n.d)) {
    rotary_table(10000, view(table.data(), {n.s, n.d}));
    qkv = random_values<T>(n.s * n.b * n.row(), 1, 2);
  }
  void forward(const std::int32_t* starts = nullptr) {
    rotary_forward(shape, view(table.data(), {shape.s, shape.d}), starts,
                   view(qkv.data(), {shape.s, shape.b, shape.row()}));
  }
  void backward(const std::int32_t* starts = nullptr) {
    rotary_backward(shape, view(table.data(), {shape.s, shape.d}), starts,
                    view(qkv.data(), {shape.s, shape.b, shape.row()}));
  }
};

const AttentionShape kShapes[] = {{.s = 1, .b = 1, .a = 1, .g = 1, .d = 2},
                                  {.s = 7, .b = 2, .a = 4, .g = 2, .d = 6},
                                  {.s = 40, .b = 3, .a = 6, .g = 1, .d = 64},
                                  {.s = 7, .b = 1, .a = 2, .g = 2, .d = 130}};

template <class T>
class Rotary : public ::testing::Test {};
TYPED_TEST_SUITE(Rotary, ComputeTypes);

TYPED_TEST(Rotary, TurnsQueriesAndKeysByTheFormulaAndLeavesValues) {
  using T = TypeParam;
  for (const AttentionShape& shape : kShapes) {
    Rotation<T> rotation(shape);
    std::vector<double> expected = doubles(rotation.qkv);
    rotate(shape, 10000, nullptr, 1, expected);
    rotation.forward();
    expect_near(rotation.qkv, expected, kTolerance<T>);
  }
}

TYPED_TEST(Rotary, GradientIsTurnedBack) {
  using T = TypeParam;
  for (const AttentionShape& shape : kShapes) {
    Rotation<T> rotation(shape);
    std::vector<double> expected = doubles(rotation.qkv);
    rotate(shape, 10000, nullptr, -1, expected);
    rotation.backward();
    expect_near(rotation.qkv, expected, kTolerance<T>);
  }
}

TYPED_TEST(Rotary, PositionsRestartWithEachDocument) {
  using T = TypeParam;
  const AttentionShape shape{.s = 7, .b = 2, .a = 4, .g = 2, .d = 6};
  const std::vector<std::int32_t> starts{0, 0, 0, 3, 3, 3, 6, 0, 1, 1, 1, 1, 1, 1};
  Rotation<T> rotation(shape), plain(shape);
  std::vector<double> expected = doubles(rotation.qkv);
  rotate(shape, 10000, starts.data(), 1, expected);
  rotation.forward(starts.data());
  plain.forward();
  expect_near(rotation.qkv, expected, kTolerance<T>);
  EXPECT_FALSE(same_bits(rotation.qkv, plain.qkv));
}

TYPED_TEST(Rotary, ThreadsDoNotChangeBits) {
  using T = TypeParam;
  EXPECT_TRUE(same_for_all_threads([] {
    Rotation<T> rotation({.s = 301, .b = 3, .a = 3, .g = 1, .d = 26});
    rotation.forward();
    return rotation.qkv;
  }));
}

TYPED_TEST(Rotary, NanStaysInItsPair) {
  using T = TypeParam;
  Rotation<T> rotation({.s = 7, .b = 1, .a = 1, .g = 1, .d = 6});
  rotation.qkv[18 * 4 + 1] = of<T>(kNan);
  rotation.forward();
  for (std::size_t i = 0; i < rotation.qkv.size(); ++i)
    EXPECT_EQ(std::isnan(static_cast<double>(rotation.qkv[i])), i == 18 * 4 + 1 || i == 18 * 4 + 4) << i;
}

TEST(RotaryTable, IsExactToFp32AtPositionsInTheThousands) {
  const std::int64_t s = 9000, d = 128;
  std::vector<float> table(static_cast<std::size_t>(s * d));
  rotary_table(1e6, view(table.data(), {s, d}));
  for (const std::int64_t position : {0, 1, 257, 4095, 8999})
    for (std::int64_t i = 0; i < d / 2; ++i) {
      const long double angle = position * std::pow(1e6L, -2.0L * i / d);
      const float* row = table.data() + position * d;
      EXPECT_NEAR(row[i], std::cos(angle), 6.1e-8) << position << " " << i;
      EXPECT_NEAR(row[d / 2 + i], std::sin(angle), 6.1e-8) << position << " " << i;
    }
}

TEST(RotaryForward, MakesScoresDependOnDistanceAlone) {
  const AttentionShape shape{.s = 30, .b = 1, .a = 1, .g = 1, .d = 8};
  Rotation<double> rotation(shape);
  for (std::size_t i = 24; i < rotation.qkv.size(); ++i) rotation.qkv[i] = rotation.qkv[i % 24];
  rotation.forward();
  const auto score = [&](std::int64_t query, std::int64_t key) {
    double sum = 0;
    for (std::int64_t i = 0; i < 8; ++i)
      sum += rotation.qkv[static_cast<std::size_t>(query * 24 + i)] *
             rotation.qkv[static_cast<std::size_t>(key * 24 + 8 + i)];
    return sum;
  };
  EXPECT_NEAR(score(7, 2), score(29, 24), 1e-12);
  EXPECT_GT(std::abs(score(7, 2) - score(7, 3)), 1e-6);
}

TEST(RotaryForward, RefusesATableTooShort) {
  Rotation<float> rotation({.s = 7, .b = 1, .a = 1, .g = 1, .d = 6});
  EXPECT_THROW(rotary_forward(rotation.shape, view(rotation.table.data(), {6, 6}), nullptr,
                              view(rotation.qkv.data(), {7, 1, 18})),
               core::Error);
}

}  // namespace
}  // namespace trireme::model
