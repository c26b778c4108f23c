#include "model/ops/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/parallel_for.h"

namespace trireme::model {
namespace {

using core::bf16;
using core::Tensor;
using core::view;

template <class T>
std::vector<T> random_values(std::int64_t n, unsigned seed, float range = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> values(-range, range);
  std::vector<T> out(static_cast<std::size_t>(n));
  for (T& value : out) value = T(values(generator));
  return out;
}

std::string text(const AttentionShape& shape) {
  return fmt::format("s {} b {} a {} g {} d {}", shape.s, shape.b, shape.a, shape.g, shape.d);
}

/// Runs the operators on data of type T with scratch memory full of NaN.
template <class T>
struct Operators {
  using Sum = core::accumulate_t<T>;
  AttentionShape shape;
  std::vector<std::int32_t> starts;
  Dropout dropout;
  std::vector<T> qkv, out, dout, dqkv;
  std::vector<Sum> lse;
  Context context;
  core::Arena arena;

  explicit Operators(const AttentionShape& shape_)
      : shape(shape_), arena(attention_scratch_bytes(shape_, core::dtype_of<T>), "attention") {
    const std::int64_t tokens = shape.s * shape.b;
    qkv = random_values<T>(tokens * shape.row(), 1, 2);
    dout = random_values<T>(tokens * shape.a * shape.d, 2);
    out.resize(dout.size());
    dqkv.resize(qkv.size());
    lse.resize(static_cast<std::size_t>(shape.b * shape.a * shape.s));
  }
  const std::int32_t* document_start() const { return starts.empty() ? nullptr : starts.data(); }
  Tensor qkv_view(std::vector<T>& values) { return view(values.data(), {shape.s, shape.b, shape.row()}); }
  Tensor out_view(std::vector<T>& values) { return view(values.data(), {shape.s, shape.b, shape.a * shape.d}); }
  Tensor lse_view() { return view(lse.data(), {shape.b, shape.a, shape.s}); }
  void spoil_scratch() {
    const core::ArenaScope scope(arena);
    const auto bytes = static_cast<std::int64_t>(attention_scratch_bytes(shape, core::dtype_of<T>));
    std::memset(arena.allocate(core::DType::i32, {bytes / 4}).data, 0xff, static_cast<std::size_t>(bytes));
  }
  void forward() {
    spoil_scratch();
    attention_forward(context, shape, qkv_view(qkv), document_start(), dropout, out_view(out), lse_view(), arena);
  }
  void backward() {
    spoil_scratch();
    attention_backward(context, shape, {qkv_view(qkv), out_view(out), lse_view()}, out_view(dout), document_start(),
                       dropout, qkv_view(dqkv), arena);
  }
};

/// Factor of a probability by the contract's words.
double kept(const Dropout& dropout, std::int64_t head, std::int64_t query, std::int64_t key, std::int64_t sample) {
  if (!dropout.active()) return 1;
  const std::int64_t channel = head * (std::int64_t{1} << 22) + key;
  const auto words = dropout.words(static_cast<std::uint32_t>(channel / 4), static_cast<std::uint32_t>(query), sample);
  return words[static_cast<std::size_t>(channel % 4)] < dropout.threshold() ? 0 : 1 / (1 - dropout.rate);
}

struct Reference {
  std::vector<double> out, lse;
};

/// Attention by its formula, in double.
Reference reference(const AttentionShape& n, const std::vector<double>& qkv, const std::int32_t* starts,
                    const Dropout& dropout) {
  Reference result{std::vector<double>(static_cast<std::size_t>(n.s * n.b * n.a * n.d)),
                   std::vector<double>(static_cast<std::size_t>(n.b * n.a * n.s))};
  const auto at = [&](std::int64_t position, std::int64_t sample, std::int64_t part) {
    return qkv.data() + (position * n.b + sample) * n.row() + part * n.d;
  };
  for (std::int64_t b = 0; b < n.b; ++b)
    for (std::int64_t head = 0; head < n.a; ++head)
      for (std::int64_t q = 0; q < n.s; ++q) {
        const std::int64_t group = head / (n.a / n.g), first = starts ? starts[b * n.s + q] : 0;
        std::vector<double> weights;
        double total = 0;
        for (std::int64_t k = first; k <= q; ++k) {
          double score = 0;
          for (std::int64_t i = 0; i < n.d; ++i) score += at(q, b, head)[i] * at(k, b, n.a + group)[i];
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(n.d))));
          total += weights.back();
        }
        result.lse[(b * n.a + head) * n.s + q] = std::log(total);
        double* out = result.out.data() + ((q * n.b + b) * n.a + head) * n.d;
        for (std::int64_t k = first; k <= q; ++k)
          for (std::int64_t i = 0; i < n.d; ++i)
            out[i] += weights[k - first] / total * kept(dropout, head, q, k, b) * at(k, b, n.a + n.g + group)[i];
      }
  return result;
}

template <class T>
std::vector<double> in_double(const std::vector<T>& values) {
  std::vector<double> out;
  for (const T value : values) out.push_back(double(value));
  return out;
}

/// Largest difference, relative to the largest expected value.
template <class T>
double difference(const std::vector<T>& values, const std::vector<double>& expected) {
  double most = 0, largest = 1e-300;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double apart = std::abs(double(values[i]) - expected[i]);
    most = apart <= most ? most : apart;  // NaN is kept
    largest = std::max(largest, std::abs(expected[i]));
  }
  return most / largest;
}

template <class T>
bool same_bits(const std::vector<T>& one, const std::vector<T>& other) {
  return one.size() == other.size() && std::memcmp(one.data(), other.data(), one.size() * sizeof(T)) == 0;
}

std::vector<std::int32_t> two_documents(const AttentionShape& shape, std::int64_t second) {
  std::vector<std::int32_t> starts(static_cast<std::size_t>(shape.b * shape.s), 0);
  for (std::int64_t b = 0; b < shape.b; ++b)
    for (std::int64_t q = second + b; q < shape.s; ++q) starts[b * shape.s + q] = static_cast<std::int32_t>(second + b);
  return starts;
}

Dropout some_dropout(double rate) { return {.rate = rate, .seed = 0x123456789abcdef, .first_position = 7, .site = 4}; }

// Lengths around and across blocks, grouped heads, head sizes that fit tiles and that do not.
const AttentionShape kShapes[] = {{1, 1, 1, 1, 8},    {7, 2, 2, 1, 64},    {65, 1, 4, 2, 80}, {96, 2, 3, 3, 20},
                                  {130, 2, 4, 2, 64}, {200, 1, 6, 2, 128}, {293, 1, 2, 1, 7}};

template <class T>
class Attention : public testing::Test {};
using Types = testing::Types<float, bf16, double>;
TYPED_TEST_SUITE(Attention, Types);

/// fp32 sums of a few hundred terms; bf16 has 8 bits, in the result only.
template <class T>
constexpr double kTolerance = std::is_same_v<T, double>  ? 1e-12
                              : std::is_same_v<T, float> ? 2e-6
                                                         : 1.0 / 256;

TYPED_TEST(Attention, ForwardEqualsTheFormula) {
  for (const AttentionShape& shape : kShapes)
    for (const bool documents : {false, true})
      for (const double rate : {0.0, 0.3}) {
        Operators<TypeParam> run(shape);
        if (documents) run.starts = two_documents(shape, shape.s / 2);
        run.dropout = some_dropout(rate);
        run.forward();
        const Reference expected = reference(shape, in_double(run.qkv), run.document_start(), run.dropout);
        EXPECT_LT(difference(run.out, expected.out), kTolerance<TypeParam>) << text(shape) << documents << rate;
        EXPECT_LT(difference(run.lse, expected.lse), (std::is_same_v<TypeParam, double> ? 1e-12 : 2e-6)) << text(shape);
      }
}

double loss(Operators<double>& run) {
  run.forward();
  double sum = 0;
  for (std::size_t i = 0; i < run.out.size(); ++i) sum += run.out[i] * run.dout[i];
  return sum;
}

TEST(AttentionBackward, EqualsFiniteDifferencesInDouble) {
  for (const AttentionShape& shape : kShapes)
    for (const double rate : {0.0, 0.3}) {
      Operators<double> run(shape);
      run.starts = two_documents(shape, shape.s / 3);
      run.dropout = some_dropout(rate);
      run.forward();
      run.backward();
      std::mt19937 generator(3);
      for (int probe = 0; probe < 10; ++probe) {
        const std::size_t at = generator() % run.qkv.size();
        const double value = run.qkv[at], step = 1e-4;
        run.qkv[at] = value + step;
        const double above = loss(run);
        run.qkv[at] = value - step;
        const double below = loss(run);
        run.qkv[at] = value;
        ASSERT_NEAR(run.dqkv[at], (above - below) / (2 * step), 1e-6) << text(shape) << " at " << at;
      }
    }
}

template <class T>
class AttentionNarrow : public testing::Test {};
using NarrowTypes = testing::Types<float, bf16>;
TYPED_TEST_SUITE(AttentionNarrow, NarrowTypes);

TYPED_TEST(AttentionNarrow, BackwardEqualsDouble) {
  for (const AttentionShape& shape : kShapes)
    for (const double rate : {0.0, 0.3}) {
      Operators<TypeParam> run(shape);
      Operators<double> exact(shape);
      exact.qkv = in_double(run.qkv);
      exact.dout = in_double(run.dout);
      run.starts = exact.starts = two_documents(shape, shape.s / 2);
      run.dropout = exact.dropout = some_dropout(rate);
      run.forward();
      run.backward();
      exact.forward();
      exact.backward();
      // The rounded output enters the gradient once more.
      EXPECT_LT(difference(run.dqkv, exact.dqkv), 2 * kTolerance<TypeParam>) << text(shape) << " " << rate;
    }
}

TYPED_TEST(Attention, BitsDependNeitherOnTheRunNorOnThreads) {
  for (const AttentionShape& shape : {AttentionShape{293, 1, 2, 1, 64}, AttentionShape{130, 3, 4, 2, 16}}) {
    std::vector<TypeParam> out, dqkv;
    for (const int threads : {2, 2, 1, 5}) {
      core::set_thread_count(threads);
      Operators<TypeParam> run(shape);
      run.dropout = some_dropout(0.1);
      run.forward();
      run.backward();
      if (out.empty()) out = run.out, dqkv = run.dqkv;
      EXPECT_TRUE(same_bits(run.out, out)) << threads;
      EXPECT_TRUE(same_bits(run.dqkv, dqkv)) << threads;
      run.qkv.back() = TypeParam(float(run.qkv.back()) + 1);
      run.forward();
      EXPECT_FALSE(same_bits(run.out, out));
    }
    core::set_thread_count(2);
  }
}

TYPED_TEST(Attention, ASecondDocumentDoesNotSeeTheFirst) {
  const AttentionShape shape{250, 1, 2, 1, 16};
  constexpr std::int64_t kSecond = 110;
  const auto results = [&](unsigned seed, bool masked) {
    Operators<TypeParam> run(shape);
    const auto other = random_values<TypeParam>(kSecond * shape.row(), seed, 2);
    std::copy(other.begin(), other.end(), run.qkv.begin());
    if (masked) run.starts = two_documents(shape, kSecond);
    run.forward();
    run.backward();
    std::vector<TypeParam> result(run.out.begin() + kSecond * shape.a * shape.d, run.out.end());
    result.insert(result.end(), run.dqkv.begin() + kSecond * shape.row(), run.dqkv.end());
    return result;
  };
  EXPECT_TRUE(same_bits(results(10, true), results(11, true)));
  EXPECT_FALSE(same_bits(results(10, false), results(11, false)));
}

TEST(AttentionDropout, KeepsTheMean) {
  const AttentionShape shape{300, 1, 4, 4, 8};
  Operators<float> run(shape);
  std::fill(run.qkv.begin(), run.qkv.end(), 1.0f);  // every value is 1: outputs are the kept share of each row
  run.dropout = some_dropout(0.25);
  run.forward();
  double sum = 0;
  for (const float value : run.out) sum += value;
  // The share of a row of q + 1 keys deviates by sqrt(1/3 / (q + 1)); the mean of 1200 rows by less than 0.005.
  EXPECT_NEAR(sum / static_cast<double>(run.out.size()), 1, 0.02);
}

TEST(AttentionScores, OfHugeSizeDoNotOverflow) {
  Operators<float> run({100, 1, 1, 1, 64});
  for (float& value : run.qkv) value *= 1000;
  run.forward();
  const Reference plain = reference(run.shape, in_double(run.qkv), nullptr, run.dropout);
  EXPECT_FALSE(std::isfinite(plain.lse[99])) << "the scores do not overflow a plain exponential";
  for (const float value : run.out) ASSERT_TRUE(std::isfinite(value));
  run.backward();
  for (const float value : run.dqkv) ASSERT_TRUE(std::isfinite(value));
}

TEST(AttentionScratch, GrowsLinearlyWithLength) {
  const auto bytes = [](std::int64_t s) {
    return static_cast<double>(attention_scratch_bytes({s, 1, 8, 8, 64}, core::DType::bf16));
  };
  EXPECT_LT(bytes(1 << 20) / bytes(1 << 19), 2.01);
  EXPECT_LT(bytes(1 << 17), 1e9);  // a row of scores a position would take 64 GiB
}

TEST(AttentionChecks, ShapesThatDoNotFitAreRefused) {
  Operators<float> run({8, 1, 2, 1, 8});
  const auto forward = [&](const AttentionShape& shape) {
    attention_forward(run.context, shape, run.qkv_view(run.qkv), nullptr, run.dropout, run.out_view(run.out),
                      run.lse_view(), run.arena);
  };
  EXPECT_NO_THROW(forward({8, 1, 2, 1, 8}));
  EXPECT_THROW(forward({8, 1, 2, 2, 8}), core::Error);
  EXPECT_THROW(forward({8, 1, 3, 2, 8}), core::Error);
  EXPECT_THROW(
      attention_backward(run.context, run.shape, {run.qkv_view(run.qkv), run.out_view(run.out), run.lse_view()},
                         run.out_view(run.dout), nullptr, run.dropout, run.qkv_view(run.qkv), run.arena),
      core::Error);
}

}  // namespace
}  // namespace trireme::model
