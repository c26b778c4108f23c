#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/parallel_for.h"
#include "model/ops/adamw.h"
#include "model/ops/vector_math.h"

namespace trireme::model {

namespace {

using core::Tensor;

constexpr std::int64_t kGrain = 16384;  // elements worth a thread
constexpr std::int64_t kBlock = 2048;   // elements whose master is still in the first cache when it is rounded
// Squares are summed over this many fixed parts, then in order: no dependence on threads.
constexpr std::int64_t kParts = 64;

/// The step's constants in the type of the arithmetic. The decay is subtracted, since 1 - lr wd would be rounded.
template <class S>
struct Factors {
  explicit Factors(const AdamwStep& step)
      : beta1(static_cast<S>(step.beta1)),
        beta2(static_cast<S>(step.beta2)),
        rest1(static_cast<S>(1 - step.beta1)),
        rest2(static_cast<S>(1 - step.beta2)),
        rate(static_cast<S>(step.lr / (1 - std::pow(step.beta1, static_cast<double>(step.update))))),
        root(static_cast<S>(1 / std::sqrt(1 - std::pow(step.beta2, static_cast<double>(step.update))))),
        decay(static_cast<S>(step.lr * step.weight_decay)),
        scale(static_cast<S>(step.gradient_scale)),
        eps(static_cast<S>(step.eps)) {}
  S beta1, beta2, rest1, rest2, rate, root, decay, scale, eps;
};

template <class S>
void update_block(const Factors<S>& f, S* gradient, S* m, S* v, S* master, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const S g = gradient[i] * f.scale;
    const S first = f.beta1 * m[i] + f.rest1 * g;
    const S second = f.beta2 * v[i] + f.rest2 * (g * g);
    gradient[i] = 0;
    m[i] = first;
    v[i] = second;
    master[i] -= f.decay * master[i] + f.rate * first / (std::sqrt(second) * f.root + f.eps);
  }
}

template <class T>
void update(const AdamwStep& step, const AdamwRange& range) {
  using S = core::accumulate_t<T>;
  const Factors<S> factors(step);
  S* const gradient = range.gradient.as<S>();
  S* const m = range.m.as<S>();
  S* const v = range.v.as<S>();
  S* const master = range.master.as<S>();
  T* const weight = range.weight ? range.weight.as<T>() : nullptr;
  core::parallel_for(range.gradient.elements(), kGrain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += kBlock) {
      const std::int64_t n = std::min(kBlock, end - i);
      update_block(factors, gradient + i, m + i, v + i, master + i, n);
      if (!weight) continue;
#pragma omp simd
      for (std::int64_t j = i; j < i + n; ++j) weight[j] = narrow<T>(master[j]);
    }
  });
}

template <class T>
TRIREME_ONE_COPY double squares_between(const T* begin, const T* end) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (const T* x = begin; x < end; ++x) {
    const auto value = static_cast<double>(widen(*x));
    sum += value * value;
  }
  return sum;
}

template <class T>
double squares(const T* x, std::int64_t n) {
  std::array<double, kParts> sums{};
  const std::int64_t grain = std::max<std::int64_t>(1, kParts * kGrain / std::max<std::int64_t>(1, n));
  core::parallel_for(kParts, grain, [&sums, x, n](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part)
      sums[static_cast<std::size_t>(part)] = squares_between(x + n * part / kParts, x + n * (part + 1) / kParts);
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

template <class To, class From>
inline To rounded(From x) {
  return static_cast<To>(widen(x));
}
/// Through a float that keeps in its last bit that something was cut off, so that the second rounding is right.
template <>
inline core::bf16 rounded<core::bf16, double>(double x) {
  const auto near = static_cast<float>(x);
  auto bits = std::bit_cast<std::uint32_t>(near);
  if (std::abs(static_cast<double>(near)) > std::abs(x)) --bits;
  const auto cut = std::bit_cast<float>(bits);
  return core::bf16(static_cast<double>(cut) == x || x != x ? cut : std::bit_cast<float>(bits | 1u));
}

}  // namespace

void adamw(const AdamwStep& step, const AdamwRange& range) {
  const core::Shape& shape = range.gradient.shape;
  core::check(range.m.shape == shape && range.v.shape == shape && range.master.shape == shape &&
                  (!range.weight || range.weight.shape == shape),
              "adamw: ranges of different sizes, gradient {}", shape.text());
  core::check(step.update >= 1, "adamw: update {}", step.update);
  const core::DType compute = range.weight ? range.weight.dtype : range.master.dtype;
  with_type(compute, [&](auto type) { update<decltype(type)>(step, range); });
}

double sum_of_squares(const Tensor& values) {
  return with_type(values.dtype, [&](auto type) { return squares(values.as<decltype(type)>(), values.elements()); });
}

void convert(const Tensor& from, const Tensor& to) {
  core::check(from.elements() == to.elements(), "convert: {} to {}", from.shape.text(), to.shape.text());
  with_type(from.dtype, [&](auto source) {
    with_type(to.dtype, [&](auto target) {
      using To = decltype(target);
      const auto* x = from.as<decltype(source)>();
      To* y = to.as<To>();
      core::parallel_for(from.elements(), kGrain, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) y[i] = rounded<To>(x[i]);
      });
    });
  });
}

void set_zero(const Tensor& values) {
  auto* const bytes = static_cast<char*>(values.data);
  core::parallel_for(static_cast<std::int64_t>(values.bytes()), 4 * kGrain, [=](std::int64_t begin, std::int64_t end) {
    std::memset(bytes + begin, 0, static_cast<std::size_t>(end - begin));
  });
}

}  // namespace trireme::model
