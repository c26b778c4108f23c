#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "core/dtype.h"

// Elementary functions that vectorise inside loops: plain arithmetic, no branches, no tables. NaN and infinities go
// through.
namespace trireme::model {

/// e^x to about 1 ulp. x is split into k ln 2 + r with |r| <= ln 2 / 2; e^r by a polynomial of degree 6 (minimax on
/// that interval), 2^k by the exponent bits in two steps so that subnormal results round once.
inline float exponential(float x) {
  constexpr float kLog2E = 1.44269504088896341f;
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kShift = 12582912.0f;  // 1.5 x 2^23: adding it rounds to an integer
  const float low = x < -104.0f ? -104.0f : x;
  const float bounded = low > 89.0f ? 89.0f : low;
  const float shifted = bounded * kLog2E + kShift;
  const float k = shifted - kShift;
  const float r = (bounded - k * kLn2High) - k * kLn2Low;
  float p = 1.3933733216e-3f;
  p = p * r + 8.3632353846e-3f;
  p = p * r + 4.1666464167e-2f;
  p = p * r + 1.6666576644e-1f;
  p = p * r + 5.0000000135e-1f;
  p = p * (r * r) + r + 1.0f;
  const auto power = static_cast<std::int32_t>(k);
  const std::int32_t first = power >> 1;
  const float scale1 = std::bit_cast<float>((first + 127) << 23);
  const float scale2 = std::bit_cast<float>((power - first + 127) << 23);
  const float result = p * scale1 * scale2;
  return x != x ? x : result;
}
inline double exponential(double x) { return std::exp(x); }

/// tanh x = 1 - 2 / (e^2x + 1).
template <class T>
inline T hyperbolic_tangent(T x) {
  return T(1) - T(2) / (exponential(T(2) * x) + T(1));
}

/// 1 / (1 + e^-x).
template <class T>
inline T logistic(T x) {
  return T(1) / (T(1) + exponential(-x));
}

/// Conversions between a compute type and its accumulate type, without branches.
inline float widen(float x) { return x; }
inline double widen(double x) { return x; }
inline float widen(core::bf16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }
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
