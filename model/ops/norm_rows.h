#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/parallel_for.h"
#include "model/ops/vector_math.h"

// The rows of the norms, and sums over rows. `bias` null means RMSNorm: no mean is taken.
namespace trireme::model {

/// Sum of value(0) ... value(n - 1) in so many lanes, folded in halves: the rounding error of a long row stays small,
/// and is the same whether a compiler vectorises or not.
template <class S, class Value>
inline S sum_in_lanes(std::int64_t n, const Value& value) {
  constexpr std::int64_t kLanes = 128 / sizeof(S);
  S lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
#pragma omp simd
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += value(i + lane);
  for (std::int64_t lane = 0; i + lane < n; ++lane) lanes[lane] += value(i + lane);
  for (std::int64_t half = kLanes / 2; half > 0; half /= 2)
    for (std::int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

template <class T>
struct NormRow {
  using S = core::accumulate_t<T>;
  std::int64_t h;
  S eps;
  const T *weight, *bias;

  /// y = (x - mean) rstd weight + bias; x and y may not overlap.
  TRIREME_ONE_COPY void forward(const T* x, T* y, S* mean_out, S* rstd_out) const {
    const T *const w = weight, *const b = bias;  // loops over members do not vectorise
    const std::int64_t n = h;
    S mean = 0;
    if (b) {
      const S origin = widen(x[0]);  // a row far from zero keeps its digits
      mean = origin + sum_in_lanes<S>(n, [=](std::int64_t i) { return widen(x[i]) - origin; }) / static_cast<S>(n);
      *mean_out = mean;
    }
    const S squares = sum_in_lanes<S>(n, [=](std::int64_t i) { return (widen(x[i]) - mean) * (widen(x[i]) - mean); });
    const S rstd = S(1) / std::sqrt(squares / static_cast<S>(n) + eps);
    *rstd_out = rstd;
    if (b) {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = narrow<T>((widen(x[i]) - mean) * rstd * widen(w[i]) + widen(b[i]));
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = narrow<T>(widen(x[i]) * rstd * widen(w[i]));
    }
  }
};

/// dx = dresidual + gradient of a row's norm; adds to dweight and dbias. dx may be dy or dresidual.
template <class T, bool kBias, bool kResidual>
struct NormBackwardRow {
  using S = core::accumulate_t<T>;
  std::int64_t h;
  const T* weight;
  S *dweight, *dbias;

  TRIREME_ONE_COPY void run(const T* x, const T* dy, const T* dresidual, T* dx, S mean, S rstd) const {
    const T* const w = weight;  // loops over members do not vectorise
    S *const dw = dweight, *const db = dbias;
    const std::int64_t n = h;
    const S shift = kBias ? mean : S(0);
    S plain = 0, projected = 0;
#pragma omp simd reduction(+ : plain, projected)
    for (std::int64_t i = 0; i < n; ++i) {
      const S d = widen(dy[i]) * widen(w[i]);
      projected += d * ((widen(x[i]) - shift) * rstd);
      plain += d;
    }
    plain = kBias ? plain / static_cast<S>(n) : S(0);
    projected /= static_cast<S>(n);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      const S d = widen(dy[i]);
      const S normed = (widen(x[i]) - shift) * rstd;
      const S own = (d * widen(w[i]) - plain - normed * projected) * rstd;
      dw[i] += d * normed;
      if constexpr (kBias) db[i] += d;
      dx[i] = narrow<T>(kResidual ? own + widen(dresidual[i]) : own);
    }
  }
};

/// Sums over rows: each of a number of parts fixed by the number of rows has its own sums, which are then added in
/// order, so that threads do not matter. The memory is kept for the next call.
template <class S>
class RowSums {
 public:
  RowSums(std::int64_t rows, std::int64_t width)
      : rows_(rows), width_(width), parts_(std::clamp<std::int64_t>(rows / 32, 1, 64)) {
    thread_local std::vector<S> memory;
    const auto needed = static_cast<std::size_t>(parts_ * width_);
    if (memory.size() < needed) memory.resize(needed);
    sums_ = memory.data();
  }
  /// Calls body(begin, end, sums [width], zeroed) for the rows of each part.
  template <class Body>
  void run(const Body& body) const {
    core::parallel_for(parts_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) {
        S* const sums = sums_ + part * width_;
        std::fill(sums, sums + width_, S(0));
        body(rows_ * part / parts_, rows_ * (part + 1) / parts_, sums);
      }
    });
  }
  /// Adds the parts' sums of columns [first, first + n) to `into`.
  void add_to(S* into, std::int64_t first, std::int64_t n) const {
    for (std::int64_t part = 0; part < parts_; ++part) {
      const S* const from = sums_ + part * width_ + first;
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) into[i] += from[i];
    }
  }

 private:
  std::int64_t rows_, width_, parts_;
  S* sums_;
};

}  // namespace trireme::model
