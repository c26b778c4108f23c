#include <array>
#include <cmath>
#include <cstring>

#include "core/parallel_for.h"
#include "model/ops/adamw.h"
#include "model/ops/vector_math.h"

namespace trireme::model {

namespace {

using core::Tensor;

constexpr std::int64_t kGrain = 16384;
// Sums of squares are formed over this many fixed parts, then in order: no dependence on threads.
constexpr std::size_t kParts = 64;

template <class T>
void update(const AdamwStep& step, const AdamwRange& range) {
  using Sum = core::accumulate_t<T>;
  const auto beta1 = static_cast<Sum>(step.beta1), beta2 = static_cast<Sum>(step.beta2);
  const auto rest1 = static_cast<Sum>(1 - step.beta1), rest2 = static_cast<Sum>(1 - step.beta2);
  const auto count = static_cast<double>(step.update);
  const auto rate = static_cast<Sum>(step.lr / (1 - std::pow(step.beta1, count)));
  const auto root = static_cast<Sum>(1 / std::sqrt(1 - std::pow(step.beta2, count)));
  const auto keep = static_cast<Sum>(1 - step.lr * step.weight_decay);
  const auto scale = static_cast<Sum>(step.gradient_scale), eps = static_cast<Sum>(step.eps);
  Sum* gradient = range.gradient.as<Sum>();
  Sum* m = range.m.as<Sum>();
  Sum* v = range.v.as<Sum>();
  Sum* master = range.master.as<Sum>();
  T* weight = range.weight ? range.weight.as<T>() : nullptr;
  core::parallel_for(range.gradient.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      const Sum g = gradient[i] * scale;
      gradient[i] = 0;
      m[i] = beta1 * m[i] + rest1 * g;
      v[i] = beta2 * v[i] + rest2 * g * g;
      master[i] = master[i] * keep - rate * m[i] / (std::sqrt(v[i]) * root + eps);
    }
    if (!weight) return;
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) weight[i] = narrow<T>(master[i]);
  });
}

template <class T>
double squares(const T* x, std::int64_t n) {
  std::array<double, kParts> sums{};
  core::parallel_for(static_cast<std::int64_t>(kParts), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = n * part / std::int64_t{kParts}; i < n * (part + 1) / std::int64_t{kParts}; ++i) {
        const auto value = static_cast<double>(widen(x[i]));
        sum += value * value;
      }
      sums[static_cast<std::size_t>(part)] = sum;
    }
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace

void adamw(const AdamwStep& step, const AdamwRange& range) {
  const core::Shape& shape = range.gradient.shape;
  core::check(range.m.shape == shape && range.v.shape == shape && range.master.shape == shape &&
                  (!range.weight || range.weight.shape == shape),
              "adamw: ranges of different sizes, gradient {}", shape.text());
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
      using From = decltype(source);
      using To = decltype(target);
      const From* x = from.as<From>();
      To* y = to.as<To>();
      core::parallel_for(from.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) y[i] = narrow<To>(static_cast<core::accumulate_t<To>>(widen(x[i])));
      });
    });
  });
}

void set_zero(const Tensor& values) {
  core::parallel_for(static_cast<std::int64_t>(values.bytes()), kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::memset(static_cast<char*>(values.data) + begin, 0, static_cast<std::size_t>(end - begin));
  });
}

}  // namespace trireme::model
