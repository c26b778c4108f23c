#include <algorithm>

#include "core/parallel_for.h"
#include "model/ops/activation.h"
#include "model/ops/vector_math.h"

namespace trireme::model {

namespace {

using core::Tensor;
constexpr std::int64_t kGrain = 8192;  // elements worth a thread

// gelu(x) = x logistic(inner(x)), which equals 0.5 x (1 + tanh(inner(x) / 2)), but keeps its digits for x << 0.
template <class S>
constexpr S kInner = S(2 * 0.79788456080286535588);  // 2 sqrt(2 / pi)
template <class S>
constexpr S kCubic = S(0.044715);

/// Beyond 30 the logistic is 0 or 1 already; bounded, its argument cannot overflow. NaN stays.
template <class S>
inline S bounded(S x) {
  const S above = x < S(-30) ? S(-30) : x;
  return above > S(30) ? S(30) : above;
}

template <class S>
inline S gelu(S x) {
  const S c = bounded(x);
  return x * logistic(kInner<S> * c * (S(1) + kCubic<S> * c * c));
}

template <class S>
inline S gelu_slope(S x) {
  const S c = bounded(x), square = kCubic<S> * c * c;
  const S s = logistic(kInner<S> * c * (S(1) + square));
  return s + c * s * (S(1) - s) * kInner<S> * (S(1) + S(3) * square);
}

template <class T>
void forward(const T* x, T* y, std::int64_t n) {
  core::parallel_for(n, kGrain, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) y[i] = narrow<T>(gelu(widen(x[i])));
  });
}

template <class T>
void backward(const T* x, const T* dy, T* dx, std::int64_t n) {
  core::parallel_for(n, kGrain, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) dx[i] = narrow<T>(widen(dy[i]) * gelu_slope(widen(x[i])));
  });
}

std::int64_t row_grain(std::int64_t f) { return std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, f)); }

template <class T>
void gated_forward(const T* gate_up, T* y, std::int64_t rows, std::int64_t f) {
  core::parallel_for(rows, row_grain(f), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const T* gate = gate_up + t * 2 * f;
      const T* up = gate + f;
      T* out = y + t * f;
#pragma omp simd
      for (std::int64_t i = 0; i < f; ++i) out[i] = narrow<T>(widen(gate[i]) * logistic(widen(gate[i])) * widen(up[i]));
    }
  });
}

template <class T>
void gated_backward(const T* gate_up, const T* dy, T* dgate_up, std::int64_t rows, std::int64_t f) {
  using S = core::accumulate_t<T>;
  core::parallel_for(rows, row_grain(f), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const T* gate = gate_up + t * 2 * f;
      const T* up = gate + f;
      const T* d = dy + t * f;
      T* dgate = dgate_up + t * 2 * f;
      T* dup = dgate + f;
#pragma omp simd
      for (std::int64_t i = 0; i < f; ++i) {
        const S g = widen(gate[i]), u = widen(up[i]), di = widen(d[i]), s = logistic(g);
        dgate[i] = narrow<T>(di * u * (s + g * s * (S(1) - s)));
        dup[i] = narrow<T>(di * g * s);
      }
    }
  });
}

void check_gated(const Tensor& gate_up, const Tensor& y) {
  core::check(
      gate_up.shape.last() == 2 * y.shape.last() && gate_up.elements() == 2 * y.elements() && gate_up.dtype == y.dtype,
      "swiglu: {} {} and {} {}", name_of(gate_up.dtype), gate_up.shape.text(), name_of(y.dtype), y.shape.text());
}

}  // namespace

void gelu_forward(const Tensor& x, const Tensor& y) {
  core::check(x.shape == y.shape, "gelu: {} to {}", x.shape.text(), y.shape.text());
  with_type(x.dtype, [&](auto type) {
    using T = decltype(type);
    forward(x.as<T>(), y.as<T>(), x.elements());
  });
}

void gelu_backward(const Tensor& x, const Tensor& dy, const Tensor& dx) {
  core::check(x.shape == dy.shape && x.shape == dx.shape, "gelu: gradient {} of {}", dy.shape.text(), x.shape.text());
  with_type(x.dtype, [&](auto type) {
    using T = decltype(type);
    backward(x.as<T>(), dy.as<T>(), dx.as<T>(), x.elements());
  });
}

void swiglu_forward(const Tensor& gate_up, const Tensor& y) {
  check_gated(gate_up, y);
  with_type(y.dtype, [&](auto type) {
    using T = decltype(type);
    gated_forward(gate_up.as<T>(), y.as<T>(), y.shape.rows(), y.shape.last());
  });
}

void swiglu_backward(const Tensor& gate_up, const Tensor& dy, const Tensor& dgate_up) {
  check_gated(gate_up, dy);
  check_gated(dgate_up, dy);
  with_type(dy.dtype, [&](auto type) {
    using T = decltype(type);
    gated_backward(gate_up.as<T>(), dy.as<T>(), dgate_up.as<T>(), dy.shape.rows(), dy.shape.last());
  });
}

}  // namespace trireme::model
