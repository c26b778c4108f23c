#include "core/parallel_for.h"
#include "model/ops/activation.h"
#include "model/ops/vector_math.h"

namespace trireme::model {

namespace {

using core::Tensor;
constexpr std::int64_t kGrain = 4096;

// gelu(x) = x logistic(2 k (x + c x^3)), which equals 0.5 x (1 + tanh(k (x + c x^3))).
template <class Sum>
constexpr Sum kK = Sum(0.79788456080286535588);
template <class Sum>
constexpr Sum kC = Sum(0.044715);

template <class Sum>
Sum gelu(Sum x) {
  return x * logistic(Sum(2) * kK<Sum> * (x + kC<Sum> * x * x * x));
}

template <class Sum>
Sum gelu_slope(Sum x) {
  const Sum s = logistic(Sum(2) * kK<Sum> * (x + kC<Sum> * x * x * x));
  return s + x * s * (Sum(1) - s) * Sum(2) * kK<Sum> * (Sum(1) + Sum(3) * kC<Sum> * x * x);
}

template <class T>
void forward(const T* x, T* y, std::int64_t n) {
  core::parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) y[i] = narrow<T>(gelu(widen(x[i])));
  });
}

template <class T>
void backward(const T* x, const T* dy, T* dx, std::int64_t n) {
  core::parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) dx[i] = narrow<T>(widen(dy[i]) * gelu_slope(widen(x[i])));
  });
}

template <class T>
void gated_forward(const T* gate_up, T* y, std::int64_t rows, std::int64_t f) {
  core::parallel_for(rows, 1, [&](std::int64_t begin, std::int64_t end) {
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
  using Sum = core::accumulate_t<T>;
  core::parallel_for(rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const T* gate = gate_up + t * 2 * f;
      const T* up = gate + f;
      const T* d = dy + t * f;
      T* dgate = dgate_up + t * 2 * f;
      T* dup = dgate + f;
#pragma omp simd
      for (std::int64_t i = 0; i < f; ++i) {
        const Sum g = widen(gate[i]), s = logistic(g);
        dgate[i] = narrow<T>(widen(d[i]) * widen(up[i]) * (s + g * s * (Sum(1) - s)));
        dup[i] = narrow<T>(widen(d[i]) * g * s);
      }
    }
  });
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
  core::check(gate_up.elements() == 2 * y.elements(), "swiglu: {} to {}", gate_up.shape.text(), y.shape.text());
  with_type(y.dtype, [&](auto type) {
    using T = decltype(type);
    gated_forward(gate_up.as<T>(), y.as<T>(), y.shape.rows(), y.shape.last());
  });
}

void swiglu_backward(const Tensor& gate_up, const Tensor& dy, const Tensor& dgate_up) {
  core::check(gate_up.elements() == 2 * dy.elements() && dgate_up.shape == gate_up.shape, "swiglu: gradient {} of {}",
              dy.shape.text(), gate_up.shape.text());
  with_type(dy.dtype, [&](auto type) {
    using T = decltype(type);
    gated_backward(gate_up.as<T>(), dy.as<T>(), dgate_up.as<T>(), dy.shape.rows(), dy.shape.last());
  });
}

}  // namespace trireme::model
