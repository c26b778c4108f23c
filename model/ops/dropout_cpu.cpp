#include "core/parallel_for.h"
#include "model/ops/dropout.h"
#include "model/ops/dropout_rows.h"

namespace trireme::model {

namespace {

/// Calls row(s, b, offset) for every token of [s, b, h], in parallel.
template <class Row>
void for_each_token(const core::Tensor& tensor, const Row& row) {
  const std::int64_t b = tensor.shape[1], h = tensor.shape[2];
  core::parallel_for(tensor.shape[0] * b, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) row(token / b, token % b, token * h);
  });
}

}  // namespace

void add_residual(const Dropout& dropout, const core::Tensor& residual, const core::Tensor& branch,
                  const core::Tensor& out) {
  core::check(residual.shape == branch.shape && out.shape == residual.shape && out.shape.rank() == 3,
              "residual: {} + {}", residual.shape.text(), branch.shape.text());
  with_type(out.dtype, [&](auto type) {
    using T = decltype(type);
    const std::int64_t h = out.shape[2];
    for_each_token(out, [&](std::int64_t s, std::int64_t b, std::int64_t at) {
      const T* x = residual.as<T>() + at;
      const T* y = branch.as<T>() + at;
      T* sum = out.as<T>() + at;
      if (dropout.active()) {
        drop_row(dropout, s, b, h, [&](std::int64_t i, core::accumulate_t<T> factor) {
          sum[i] = narrow<T>(widen(x[i]) + widen(y[i]) * factor);
        });
      } else {
#pragma omp simd
        for (std::int64_t i = 0; i < h; ++i) sum[i] = narrow<T>(widen(x[i]) + widen(y[i]));
      }
    });
  });
}

void apply_dropout(const Dropout& dropout, const core::Tensor& dy, const core::Tensor& dx) {
  core::check(dy.shape == dx.shape && dx.shape.rank() == 3, "dropout: {} to {}", dy.shape.text(), dx.shape.text());
  with_type(dx.dtype, [&](auto type) {
    using T = decltype(type);
    for_each_token(dx, [&](std::int64_t s, std::int64_t b, std::int64_t at) {
      const T* y = dy.as<T>() + at;
      T* x = dx.as<T>() + at;
      drop_row(dropout, s, b, dx.shape[2],
               [&](std::int64_t i, core::accumulate_t<T> factor) { x[i] = narrow<T>(widen(y[i]) * factor); });
    });
  });
}

}  // namespace trireme::model
