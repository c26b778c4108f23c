#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "core/parallel_for.h"
#include "core/tensor.h"

// Values for tests of operators, and comparisons with references in double.
namespace trireme::model {

using ComputeTypes = ::testing::Types<float, core::bf16, double>;

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// What an operator of type T may differ from a double reference, relative to max(1, |reference|): a few roundings of
/// fp32 sums, or one rounding to bf16 (half of 2^-7) and the fp32 error before it.
template <class T>
inline constexpr double kTolerance = std::is_same_v<T, double>  ? 1e-12
                                     : std::is_same_v<T, float> ? 2e-6
                                                                : 0.004;

template <class T>
std::vector<T> random_values(std::int64_t n, unsigned seed, double range = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> values(-range, range);
  std::vector<T> out(static_cast<std::size_t>(n));
  for (T& value : out) value = static_cast<T>(static_cast<core::accumulate_t<T>>(values(generator)));
  return out;
}

template <class T>
std::vector<double> doubles(const std::vector<T>& values) {
  std::vector<double> out;
  for (const T& value : values) out.push_back(static_cast<double>(value));
  return out;
}

template <class T>
T of(double value) {
  return static_cast<T>(static_cast<core::accumulate_t<T>>(value));
}

template <class T>
void expect_near(const std::vector<T>& actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double value = static_cast<double>(actual[i]);
    ASSERT_LE(std::abs(value - expected[i]), tolerance * std::max(1.0, std::abs(expected[i])))
        << "element " << i << " is " << value << ", expected " << expected[i];
  }
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// d value / d x by central differences of order four.
template <class Value>
std::vector<double> finite_differences(std::vector<double>& x, const Value& value) {
  constexpr double kStep = 1e-3;
  std::vector<double> out;
  for (double& element : x) {
    const double kept = element;
    const auto at = [&](double offset) {
      element = kept + offset;
      return value();
    };
    out.push_back((8 * (at(kStep) - at(-kStep)) - (at(2 * kStep) - at(-2 * kStep))) / (12 * kStep));
    element = kept;
  }
  return out;
}
inline constexpr double kDifferenceTolerance = 1e-9;

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Runs with this many threads while alive.
class Threads {
 public:
  explicit Threads(int count) : before_(core::thread_count()) { core::set_thread_count(count); }
  ~Threads() { core::set_thread_count(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

/// Whether `compute()`, a vector, has the same bits with 1, 2 and 5 threads.
template <class Compute>
bool same_for_all_threads(const Compute& compute) {
  const auto with = [&](int count) {
    const Threads threads(count);
    return compute();
  };
  const auto one = with(1);
  return same_bits(one, with(2)) && same_bits(one, with(5));
}

}  // namespace trireme::model
