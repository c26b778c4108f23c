#include "model/ops/activation.h"

#include "tests/model/operator_values.h"

namespace trireme::model {
namespace {

using core::view;

const core::Shape kShapes[] = {{1, 1}, {1, 5}, {7, 33}, {7, 768}, {3, 1000}, {1, 20011}};

double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x))); }
double silu(double x) { return x / (1 + std::exp(-x)); }

std::vector<double> gelu_in_double(std::vector<double>& x) {
  std::vector<double> y(x.size());
  const core::Shape shape{static_cast<std::int64_t>(x.size())};
  gelu_forward(view(x.data(), shape), view(y.data(), shape));
  return y;
}

/// y [rows, f] of gate_up [rows, 2f].
std::vector<double> swiglu_reference(const std::vector<double>& gate_up, std::int64_t rows, std::int64_t f) {
  std::vector<double> y;
  for (std::int64_t t = 0; t < rows; ++t)
    for (std::int64_t i = 0; i < f; ++i)
      y.push_back(silu(gate_up[static_cast<std::size_t>(t * 2 * f + i)]) *
                  gate_up[static_cast<std::size_t>(t * 2 * f + f + i)]);
  return y;
}

template <class T>
class Activation : public ::testing::Test {};
TYPED_TEST_SUITE(Activation, ComputeTypes);

TYPED_TEST(Activation, GeluIsItsTanhForm) {
  using T = TypeParam;
  for (const core::Shape& shape : kShapes) {
    std::vector<T> x = random_values<T>(shape.elements(), 1, 6), y(x.size());
    gelu_forward(view(x.data(), shape), view(y.data(), shape));
    std::vector<double> expected;
    for (const double value : doubles(x)) expected.push_back(gelu(value));
    expect_near(y, expected, kTolerance<T>);
  }
}

TYPED_TEST(Activation, GeluGradientIsThatOfDouble) {
  using T = TypeParam;
  for (const core::Shape& shape : kShapes) {
    std::vector<T> x = random_values<T>(shape.elements(), 1, 6), dy = random_values<T>(shape.elements(), 2), dx(dy);
    gelu_backward(view(x.data(), shape), view(dy.data(), shape), view(dx.data(), shape));
    std::vector<double> wide = doubles(x), gradient = doubles(dy);
    gelu_backward(view(wide.data(), shape), view(gradient.data(), shape), view(gradient.data(), shape));
    expect_near(dx, gradient, kTolerance<T>);
    gelu_backward(view(x.data(), shape), view(dy.data(), shape), view(dy.data(), shape));
    EXPECT_TRUE(same_bits(dx, dy)) << "in place";
  }
}

TYPED_TEST(Activation, SwigluIsSiluTimesUp) {
  using T = TypeParam;
  for (const core::Shape& shape : kShapes) {
    const std::int64_t rows = shape[0], f = shape[1];
    std::vector<T> x = random_values<T>(rows * 2 * f, 3, 6), y(static_cast<std::size_t>(rows * f));
    swiglu_forward(view(x.data(), {rows, 2 * f}), view(y.data(), shape));
    expect_near(y, swiglu_reference(doubles(x), rows, f), kTolerance<T>);
  }
}

TYPED_TEST(Activation, SwigluGradientIsThatOfDouble) {
  using T = TypeParam;
  for (const core::Shape& shape : kShapes) {
    const std::int64_t rows = shape[0], f = shape[1];
    std::vector<T> x = random_values<T>(rows * 2 * f, 3, 6), dy = random_values<T>(rows * f, 4), dx(x.size());
    swiglu_backward(view(x.data(), {rows, 2 * f}), view(dy.data(), shape), view(dx.data(), {rows, 2 * f}));
    std::vector<double> wide = doubles(x), gradient = doubles(dy), expected(x.size());
    swiglu_backward(view(wide.data(), {rows, 2 * f}), view(gradient.data(), shape),
                    view(expected.data(), {rows, 2 * f}));
    expect_near(dx, expected, kTolerance<T>);
  }
}

TYPED_TEST(Activation, ThreadsDoNotChangeBits) {
  using T = TypeParam;
  const std::int64_t rows = 211, f = 317;
  std::vector<T> x = random_values<T>(rows * 2 * f, 5, 4), dy = random_values<T>(rows * 2 * f, 6);
  const core::Shape all{rows, 2 * f}, half{rows, f};
  EXPECT_TRUE(same_for_all_threads([&] {
    std::vector<T> y(x.size());
    gelu_forward(view(x.data(), all), view(y.data(), all));
    return y;
  }));
  EXPECT_TRUE(same_for_all_threads([&] {
    std::vector<T> dx(x.size());
    gelu_backward(view(x.data(), all), view(dy.data(), all), view(dx.data(), all));
    return dx;
  }));
  EXPECT_TRUE(same_for_all_threads([&] {
    std::vector<T> y(x.size());
    swiglu_forward(view(x.data(), all), view(y.data(), half));
    return y;
  }));
  EXPECT_TRUE(same_for_all_threads([&] {
    std::vector<T> dx(x.size());
    swiglu_backward(view(x.data(), all), view(dy.data(), half), view(dx.data(), all));
    return dx;
  }));
}

TYPED_TEST(Activation, NanStaysAndSpoilsNothingElse) {
  using T = TypeParam;
  const core::Shape shape{40}, half{20};
  std::vector<T> x = random_values<T>(40, 1), y(40), dx(40), dy = random_values<T>(40, 2);
  x[3] = of<T>(kNan);
  gelu_forward(view(x.data(), shape), view(y.data(), shape));
  gelu_backward(view(x.data(), shape), view(dy.data(), shape), view(dx.data(), shape));
  for (std::size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(std::isnan(static_cast<double>(y[i])), i == 3) << i;
    EXPECT_EQ(std::isnan(static_cast<double>(dx[i])), i == 3) << i;
  }
  swiglu_forward(view(x.data(), shape), view(y.data(), half));
  swiglu_backward(view(x.data(), shape), view(dy.data(), half), view(dx.data(), shape));
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(std::isnan(static_cast<double>(y[i])), i == 3) << i;
    EXPECT_EQ(std::isnan(static_cast<double>(dx[i])), i == 3) << i;
    EXPECT_EQ(std::isnan(static_cast<double>(dx[20 + i])), i == 3) << i;
  }
}

TEST(Gelu, GradientMatchesFiniteDifferences) {
  std::vector<double> x = random_values<double>(50, 7, 4), weights = random_values<double>(50, 8), dx(50);
  gelu_backward(view(x.data(), {50}), view(weights.data(), {50}), view(dx.data(), {50}));
  expect_near(dx, finite_differences(x, [&] { return dot(gelu_in_double(x), weights); }), kDifferenceTolerance);
}

TEST(Swiglu, GradientMatchesFiniteDifferences) {
  std::vector<double> x = random_values<double>(60, 7, 4), weights = random_values<double>(30, 8), dx(60), y(30);
  swiglu_backward(view(x.data(), {3, 20}), view(weights.data(), {3, 10}), view(dx.data(), {3, 20}));
  expect_near(dx,
              finite_differences(x,
                                 [&] {
                                   swiglu_forward(view(x.data(), {3, 20}), view(y.data(), {3, 10}));
                                   return dot(y, weights);
                                 }),
              kDifferenceTolerance);
}

TEST(Gelu, IsTheIdentityOrZeroFarOut) {
  std::vector<float> x{1e4f, -1e4f, 40, -40, 1e30f, -1e30f, 3e38f, -3e38f}, one(8, 1.0f), y(8), dx(8);
  gelu_forward(view(x.data(), {8}), view(y.data(), {8}));
  gelu_backward(view(x.data(), {8}), view(one.data(), {8}), view(dx.data(), {8}));
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(y[i], i % 2 ? 0 : x[i]) << x[i];
    EXPECT_EQ(dx[i], i % 2 ? 0 : 1) << x[i];
  }
}

TEST(Activations, RefuseOtherShapes) {
  std::vector<float> x(12);
  EXPECT_THROW(gelu_forward(view(x.data(), {12}), view(x.data(), {11})), core::Error);
  EXPECT_THROW(swiglu_forward(view(x.data(), {2, 6}), view(x.data(), {3, 2})), core::Error);
}

}  // namespace
}  // namespace trireme::model
