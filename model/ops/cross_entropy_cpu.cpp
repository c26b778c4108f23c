#include <cmath>

#include "core/parallel_for.h"
#include "model/ops/cross_entropy.h"
#include "model/ops/vector_math.h"

namespace trireme::model {

namespace {

/// Loss of one row of logits; with `gradient` the row becomes softmax - one-hot.
template <class T>
core::accumulate_t<T> loss_of_row(T* row, std::int64_t v, std::int64_t columns, std::int32_t target, bool gradient) {
  using Sum = core::accumulate_t<T>;
  if (target < 0) {
    if (gradient) std::fill(row, row + columns, T(Sum(0)));
    return 0;
  }
  Sum largest = -INFINITY;
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < v; ++i) largest = widen(row[i]) > largest ? widen(row[i]) : largest;
  Sum total = 0;
#pragma omp simd reduction(+ : total)
  for (std::int64_t i = 0; i < v; ++i) total += exponential(widen(row[i]) - largest);
  const Sum at_target = widen(row[target]);
  if (gradient) {
    const Sum scale = Sum(1) / total;
#pragma omp simd
    for (std::int64_t i = 0; i < v; ++i) row[i] = narrow<T>(exponential(widen(row[i]) - largest) * scale);
    row[target] = narrow<T>(exponential(at_target - largest) * scale - Sum(1));
    std::fill(row + v, row + columns, T(Sum(0)));
  }
  return std::log(total) + largest - at_target;
}

}  // namespace

void cross_entropy(const core::Tensor& logits, std::int64_t v, const std::int32_t* targets, bool gradient,
                   const core::Tensor& losses) {
  const std::int64_t rows = logits.shape.rows(), columns = logits.shape.last();
  core::check(v >= 1 && v <= columns && losses.elements() == rows, "cross entropy: {} classes of {}, {} losses", v,
              logits.shape.text(), losses.elements());
  with_type(logits.dtype, [&](auto type) {
    using T = decltype(type);
    core::parallel_for(rows, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t)
        losses.as<core::accumulate_t<T>>()[t] =
            loss_of_row(logits.as<T>() + t * columns, v, columns, targets[t], gradient);
    });
  });
}

}  // namespace trireme::model
