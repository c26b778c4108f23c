#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/parallel_for.h"
#include "model/ops/cross_entropy.h"
#include "model/ops/vector_math.h"

namespace trireme::model {

namespace {

constexpr std::int64_t kBlock = 1024;  // exponentials summed in the accumulate type; blocks are summed in double

/// Largest of the row, kept in lanes so that it vectorises. NaN are passed over: they make the sum NaN later.
template <class T>
core::accumulate_t<T> largest_of(const T* row, std::int64_t v) {
  using S = core::accumulate_t<T>;
  constexpr int kWidth = 64;
  S lanes[kWidth];
  for (S& lane : lanes) lane = -std::numeric_limits<S>::infinity();
  std::int64_t i = 0;
  for (; i + kWidth <= v; i += kWidth)
#pragma omp simd
    for (int j = 0; j < kWidth; ++j) lanes[j] = widen(row[i + j]) > lanes[j] ? widen(row[i + j]) : lanes[j];
  for (; i < v; ++i) lanes[0] = std::max(lanes[0], widen(row[i]));
  return *std::max_element(lanes, lanes + kWidth);
}

/// Sum of e^(logit - largest); with kStore each term replaces its logit.
template <bool kStore, class T>
double sum_of_exponentials(T* row, std::int64_t v, core::accumulate_t<T> largest) {
  using S = core::accumulate_t<T>;
  double total = 0;
  for (std::int64_t begin = 0; begin < v; begin += kBlock) {
    const std::int64_t end = std::min(v, begin + kBlock);
    S sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = begin; i < end; ++i) {
      const S term = exponential(widen(row[i]) - largest);
      if constexpr (kStore) row[i] = narrow<T>(term);
      sum += term;
    }
    total += static_cast<double>(sum);
  }
  return total;
}

template <class T>
void clear(T* begin, T* end) {
  std::fill(begin, end, T(0.0f));
}

/// Loss of one row of logits; with kGradient the row becomes softmax - one-hot. Terms are kept in the row where its
/// type holds them exactly, else computed twice.
template <bool kGradient, class T>
TRIREME_ONE_COPY core::accumulate_t<T> loss_of_row(T* row, std::int64_t v, std::int64_t columns, std::int32_t target) {
  using S = core::accumulate_t<T>;
  constexpr bool kStore = kGradient && std::is_same_v<T, S>;
  if (target < 0) {
    if constexpr (kGradient) clear(row, row + columns);
    return 0;
  }
  const S largest = largest_of(row, v), at_target = widen(row[target]);
  const double total = sum_of_exponentials<kStore>(row, v, largest);
  if constexpr (kGradient) {
    const S scale = static_cast<S>(1 / total);
    const S own = exponential(at_target - largest) * scale - S(1);
#pragma omp simd
    for (std::int64_t i = 0; i < v; ++i)
      row[i] = narrow<T>((kStore ? widen(row[i]) : exponential(widen(row[i]) - largest)) * scale);
    row[target] = narrow<T>(own);
    clear(row + v, row + columns);
  }
  return static_cast<S>(std::log(total) + (static_cast<double>(largest) - static_cast<double>(at_target)));
}

template <class T>
void all_rows(T* logits, std::int64_t columns, std::int64_t v, const std::int32_t* targets, bool gradient,
              const core::Tensor& losses) {
  auto* const out = losses.as<core::accumulate_t<T>>();
  core::parallel_for(losses.elements(), 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      T* row = logits + t * columns;
      out[t] =
          gradient ? loss_of_row<true>(row, v, columns, targets[t]) : loss_of_row<false>(row, v, columns, targets[t]);
    }
  });
}

}  // namespace

void cross_entropy(const core::Tensor& logits, std::int64_t v, const std::int32_t* targets, bool gradient,
                   const core::Tensor& losses) {
  const std::int64_t rows = logits.shape.rows(), columns = logits.shape.last();
  core::check(v >= 1 && v <= columns && losses.elements() == rows, "cross entropy: {} classes of {}, {} losses", v,
              logits.shape.text(), losses.elements());
  for (std::int64_t t = 0; t < rows; ++t)
    core::check(targets[t] < v, "cross entropy: target {} of {} classes", targets[t], v);
  with_type(logits.dtype,
            [&](auto type) { all_rows(logits.as<decltype(type)>(), columns, v, targets, gradient, losses); });
}

}  // namespace trireme::model
