#include "model/ops/product.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/parallel_for.h"
#include "model/ops/product_library.h"
#include "model/ops/product_packed.h"

namespace trireme::model {
namespace {

using core::bf16;
using core::Tensor;
using core::view;

constexpr int kGuard = 77;  // what lies beyond the columns of a product must stay

template <class T>
std::vector<T> random_values(std::int64_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> values(-1, 1);
  std::vector<T> out(static_cast<std::size_t>(n));
  for (T& value : out) value = T(values(generator));
  return out;
}

template <class T>
struct Layer {
  using Sum = core::accumulate_t<T>;
  std::int64_t tokens, inputs, outputs, pitch;
  std::vector<T> x, w, bias, y;
  std::vector<Sum> dw, db;

  Layer(std::int64_t tokens_, std::int64_t inputs_, std::int64_t outputs_, std::int64_t pitch_)
      : tokens(tokens_), inputs(inputs_), outputs(outputs_), pitch(pitch_) {
    x = random_values<T>(tokens * inputs, 1);
    w = random_values<T>(outputs * inputs, 2);
    bias = random_values<T>(outputs, 3);
    y = random_values<T>(tokens * pitch, 4);
    dw = random_values<Sum>(outputs * inputs, 5);
    db = random_values<Sum>(outputs, 6);
  }
  Tensor x_view() { return view(x.data(), {tokens, inputs}); }
  Tensor w_view() { return view(w.data(), {outputs, inputs}); }
  Tensor y_view() { return view(y.data(), {tokens, pitch}); }
  Tensor bias_view() { return view(bias.data(), {outputs}); }
  Tensor dw_view() { return view(dw.data(), {outputs, inputs}); }
  Tensor db_view() { return view(db.data(), {outputs}); }
};

/// Allowed difference of a sum of `terms` products of numbers up to 1: additions in any order, then one rounding.
template <class T>
double tolerance(std::int64_t terms) {
  const double sums = std::is_same_v<T, double> ? 1e-16 : 6e-8;
  return static_cast<double>(terms + 4) * sums * 4;
}
template <class T>
double rounding(double value) {
  return std::is_same_v<T, bf16> ? std::abs(value) / 256 : 0;
}

template <class T>
class Product : public testing::Test {};
using Types = testing::Types<float, bf16, double>;
TYPED_TEST_SUITE(Product, Types);

struct Extents {
  std::int64_t tokens, inputs, outputs, pitch;
};
// Odd extents, one token, one output, padded rows, and depths beyond one and two packed parts.
const Extents kExtents[] = {{1, 1, 1, 1},      {1, 8, 5, 5},      {7, 33, 1, 1},
                            {5, 17, 50, 64},   {65, 70, 43, 48},  {130, 300, 97, 128},
                            {3, 5000, 35, 35}, {9, 5000, 35, 35}, {4099, 13, 11, 16}};

TYPED_TEST(Product, ForwardEqualsPlainLoops) {
  using T = TypeParam;
  for (const Extents& e : kExtents)
    for (const bool with_bias : {false, true}) {
      Layer<T> layer(e.tokens, e.inputs, e.outputs, e.pitch);
      std::fill(layer.y.begin(), layer.y.end(), T(float{kGuard}));
      Context context;
      linear_forward(context, layer.x_view(), layer.w_view(), with_bias ? layer.bias_view() : Tensor{}, layer.y_view());
      for (std::int64_t t = 0; t < e.tokens; ++t)
        for (std::int64_t o = 0; o < e.pitch; ++o) {
          double expected = with_bias && o < e.outputs ? double(layer.bias[o]) : 0;
          for (std::int64_t i = 0; o < e.outputs && i < e.inputs; ++i)
            expected += double(layer.x[t * e.inputs + i]) * double(layer.w[o * e.inputs + i]);
          if (o >= e.outputs) expected = kGuard;
          ASSERT_NEAR(double(layer.y[t * e.pitch + o]), expected, tolerance<T>(e.inputs) + rounding<T>(expected))
              << e.tokens << " x " << e.inputs << " x " << e.outputs << " at " << t << ", " << o;
        }
    }
}

TYPED_TEST(Product, InputGradientEqualsPlainLoops) {
  using T = TypeParam;
  for (const Extents& e : kExtents) {
    Layer<T> layer(e.tokens, e.inputs, e.outputs, e.pitch);
    Context context;
    linear_backward_input(context, layer.y_view(), layer.w_view(), layer.x_view());
    for (std::int64_t t = 0; t < e.tokens; ++t)
      for (std::int64_t i = 0; i < e.inputs; ++i) {
        double expected = 0;
        for (std::int64_t o = 0; o < e.outputs; ++o)
          expected += double(layer.y[t * e.pitch + o]) * double(layer.w[o * e.inputs + i]);
        ASSERT_NEAR(double(layer.x[t * e.inputs + i]), expected, tolerance<T>(e.outputs) + rounding<T>(expected));
      }
  }
}

TYPED_TEST(Product, LongSumsAreRoundedOnceToBf16) {
  using T = TypeParam;
  Layer<T> layer(5, 9, 9000, 9000);
  Context context;
  linear_backward_input(context, layer.y_view(), layer.w_view(), layer.x_view());
  for (std::int64_t t = 0; t < 5; ++t)
    for (std::int64_t i = 0; i < 9; ++i) {
      double expected = 0;
      for (std::int64_t o = 0; o < 9000; ++o) expected += double(layer.y[t * 9000 + o]) * double(layer.w[o * 9 + i]);
      ASSERT_NEAR(double(layer.x[t * 9 + i]), expected, 1e-3 + rounding<T>(expected));
    }
}

TYPED_TEST(Product, WeightAndBiasGradientsAreAddedTo) {
  using T = TypeParam;
  for (const Extents& e : kExtents)
    for (const bool with_bias : {false, true}) {
      Layer<T> layer(e.tokens, e.inputs, e.outputs, e.pitch);
      const auto dw_before = layer.dw;
      const auto db_before = layer.db;
      Context context;
      linear_backward_weight(context, layer.y_view(), layer.x_view(), layer.dw_view(),
                             with_bias ? layer.db_view() : Tensor{});
      for (std::int64_t o = 0; o < e.outputs; ++o) {
        double expected_bias = double(db_before[o]);
        for (std::int64_t t = 0; with_bias && t < e.tokens; ++t) expected_bias += double(layer.y[t * e.pitch + o]);
        ASSERT_NEAR(double(layer.db[o]), expected_bias, tolerance<T>(e.tokens));
        for (std::int64_t i = 0; i < e.inputs; ++i) {
          double expected = double(dw_before[o * e.inputs + i]);
          for (std::int64_t t = 0; t < e.tokens; ++t)
            expected += double(layer.y[t * e.pitch + o]) * double(layer.x[t * e.inputs + i]);
          ASSERT_NEAR(double(layer.dw[o * e.inputs + i]), expected, tolerance<T>(e.tokens));
        }
      }
    }
}

template <class T>
std::vector<T> weight_gradient(int threads, unsigned seed, std::int64_t tokens) {
  core::set_thread_count(threads);
  auto x = random_values<T>(tokens * 70, 1);
  auto dy = random_values<T>(tokens * 90, seed);
  using Sum = core::accumulate_t<T>;
  std::vector<Sum> dw(90 * 70), db(90);
  std::vector<T> y(static_cast<std::size_t>(tokens * 90)), result;
  Context context;
  linear_backward_weight(context, view(dy.data(), {tokens, 90}), view(x.data(), {tokens, 70}),
                         view(dw.data(), {90, 70}), view(db.data(), {90}));
  core::set_thread_count(2);
  for (const Sum value : dw) result.push_back(T(value));
  for (const Sum value : db) result.push_back(T(value));
  return result;
}

TYPED_TEST(Product, BitsDependNeitherOnTheRunNorOnThreads) {
  using T = TypeParam;
  const auto same = [](const std::vector<T>& one, const std::vector<T>& other) {
    return one.size() == other.size() && std::memcmp(one.data(), other.data(), one.size() * sizeof(T)) == 0;
  };
  const auto first = weight_gradient<T>(2, 8, 1000);
  EXPECT_TRUE(same(first, weight_gradient<T>(2, 8, 1000)));
  EXPECT_TRUE(same(first, weight_gradient<T>(1, 8, 1000)));
  EXPECT_FALSE(same(first, weight_gradient<T>(2, 9, 1000)));
}

/// The three forms, by oneDNN and by packed operands.
TEST(ProductLibrary, AgreesWithPackedProducts) {
  constexpr std::int64_t kTokens = 70, kInputs = 90, kOutputs = 50, kPitch = 64;
  const auto x = random_values<bf16>(kTokens * kInputs, 1), w = random_values<bf16>(kOutputs * kInputs, 2);
  const auto bias = random_values<bf16>(kOutputs, 3), dy = random_values<bf16>(kTokens * kPitch, 4);
  constexpr core::DType kType = core::DType::bf16, kSums = core::DType::f32;
  ProductLibrary library;
  PackedWorkspace workspace;
  const auto agree = [&](PackedProduct product, auto start, std::vector<float> sums, double tolerance) {
    auto other = start;
    auto other_sums = sums;
    product.c = start.data();
    product.row_sums = sums.empty() ? nullptr : sums.data();
    if (!library.multiply(product)) return false;
    product.c = other.data();
    product.row_sums = sums.empty() ? nullptr : other_sums.data();
    multiply_packed(workspace, product);
    for (std::size_t i = 0; i < start.size(); ++i)
      EXPECT_NEAR(double(start[i]), double(other[i]), tolerance + std::abs(double(other[i])) * tolerance) << i;
    for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_NEAR(sums[i], other_sums[i], 1e-4);
    return true;
  };
  const PackedProduct forward{.m = kTokens,
                              .n = kOutputs,
                              .k = kInputs,
                              .a = {x.data(), kType, kInputs, 1},
                              .b = {w.data(), kType, 1, kInputs},
                              .c_dtype = kType,
                              .c_pitch = kPitch,
                              .bias = bias.data()};
  const PackedProduct input{.m = kTokens,
                            .n = kInputs,
                            .k = kOutputs,
                            .a = {dy.data(), kType, kPitch, 1},
                            .b = {w.data(), kType, kInputs, 1},
                            .c_dtype = kType,
                            .c_pitch = kInputs};
  const PackedProduct weight{.m = kOutputs,
                             .n = kInputs,
                             .k = kTokens,
                             .a = {dy.data(), kType, 1, kPitch},
                             .b = {x.data(), kType, kInputs, 1},
                             .c_dtype = kSums,
                             .c_pitch = kInputs,
                             .add = true};
  // Both round once to bf16, from sums that differ in the order of additions.
  if (!agree(forward, dy, {}, 1.0 / 128)) GTEST_SKIP() << "oneDNN has no bf16 on this processor";
  EXPECT_TRUE(agree(input, x, {}, 1.0 / 128));
  EXPECT_TRUE(agree(weight, random_values<float>(kOutputs * kInputs, 5), random_values<float>(kOutputs, 6), 1e-4));
}

TEST(ProductChecks, ShapesAndTypesThatDoNotFitAreRefused) {
  Context context;
  Layer<float> layer(4, 8, 6, 6);
  std::vector<double> other(64);
  EXPECT_THROW(linear_forward(context, layer.x_view(), view(layer.w.data(), {6, 7}), {}, layer.y_view()), core::Error);
  EXPECT_THROW(linear_forward(context, layer.x_view(), layer.w_view(), {}, view(other.data(), {4, 6})), core::Error);
  EXPECT_THROW(linear_forward(context, layer.x_view(), layer.w_view(), {}, view(layer.y.data(), {4, 5})), core::Error);
  EXPECT_THROW(linear_backward_weight(context, layer.y_view(), layer.x_view(), view(other.data(), {6, 8}), {}),
               core::Error);
}

TEST(ProductRate, IsMeasured) {
  Context context;
  EXPECT_GT(measure_product_rate(context, core::DType::f32), 1e9);
}

}  // namespace
}  // namespace trireme::model
