#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/dtype.h"

// For functions whose sums must have the same bits wherever they are called: one compiled copy, so one order.
#ifdef __clang__
#  define TRIREME_ONE_COPY [[gnu::noinline]]
#else
#  define TRIREME_ONE_COPY [[gnu::noinline, gnu::noclone]]
#endif

// Elementary functions that vectorise inside loops: plain arithmetic, no tables, selections instead of branches.
namespace trireme::model {

/// e^x to about 1 ulp; 0 where the result would be subnormal, infinity where it overflows, NaN for NaN. x = k ln 2 + r
/// with |r| <= ln 2 / 2; e^r by a polynomial of degree 6 (Cephes expf), 2^k by adding to the exponent bits.
inline float exponential(float x) {
  constexpr float kSmallest = -87.3365448f, kLargest = 88.7228394f;
  constexpr float kShift = 12582912.0f;  // 1.5 x 2^23: adding it rounds to an integer
  const float shifted = x * 1.44269504f + kShift;
  const float k = shifted - kShift;
  const float r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(p) + (std::bit_cast<std::uint32_t>(shifted) << 23);
  const float inside = x < kSmallest ? 0.0f : std::bit_cast<float>(bits);
  return x <= kLargest ? inside : x * std::numeric_limits<float>::infinity();
}
inline double exponential(double x) { return std::exp(x); }

/// 1 / (1 + e^-x).
template <class S>
inline S logistic(S x) {
  return S(1) / (S(1) + exponential(-x));
}

/// From a compute type to its accumulate type and back.
inline float widen(float x) { return x; }
inline double widen(double x) { return x; }
inline float widen(core::bf16 x) { return static_cast<float>(x); }
template <class T>
inline T narrow(core::accumulate_t<T> x) {
  return static_cast<T>(x);
}

/// Calls f with a value of the C++ type of `dtype`: f(float{}), f(double{}) or f(bf16{}).
template <class F>
decltype(auto) with_type(core::DType dtype, const F& f) {
  switch (dtype) {
    case core::DType::bf16:
      return f(core::bf16{});
    case core::DType::f64:
      return f(double{});
    default:
      return f(float{});
  }
}

}  // namespace trireme::model
