#include "core/parallel_for.h"
#include "model/ops/dropout.h"
#include "model/ops/dropout_rows.h"

namespace trireme::model {

namespace {

constexpr std::int64_t kGrain = 8192;  // elements worth a thread

/// Calls row(s, b, offset) for every token of [s, b, h], in parallel.
template <class Row>
void for_each_token(const core::Shape& shape, const Row& row) {
  const std::int64_t b = shape[1], h = shape[2];
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, h));
  core::parallel_for(shape[0] * b, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) row(token / b, token % b, token * h);
  });
}

template <class T>
void add(const T* x, const T* y, T* out, std::int64_t n) {
  core::parallel_for(n, kGrain, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) out[i] = narrow<T>(widen(x[i]) + widen(y[i]));
  });
}

template <class T>
void add_dropped(const Dropout& dropout, const core::Shape& shape, const T* residual, const T* branch, T* out) {
  using S = core::accumulate_t<T>;
  for_each_token(shape, [=, &dropout, h = shape[2]](std::int64_t s, std::int64_t b, std::int64_t at) {
    const T* x = residual + at;
    const T* y = branch + at;
    T* sum = out + at;
    drop_row<S>(dropout, s, b, h, [=](std::int64_t i, S f) { sum[i] = narrow<T>(widen(x[i]) + widen(y[i]) * f); });
  });
}

template <class T>
void drop(const Dropout& dropout, const core::Shape& shape, const T* dy, T* dx) {
  using S = core::accumulate_t<T>;
  for_each_token(shape, [=, &dropout, h = shape[2]](std::int64_t s, std::int64_t b, std::int64_t at) {
    const T* y = dy + at;
    T* x = dx + at;
    drop_row<S>(dropout, s, b, h, [=](std::int64_t i, S f) { x[i] = narrow<T>(widen(y[i]) * f); });
  });
}

}  // namespace

void add_residual(const Dropout& dropout, const core::Tensor& residual, const core::Tensor& branch,
                  const core::Tensor& out) {
  core::check(residual.shape == branch.shape && out.shape == residual.shape && out.shape.rank() == 3,
              "residual: {} + {}", residual.shape.text(), branch.shape.text());
  with_type(out.dtype, [&](auto type) {
    using T = decltype(type);
    if (dropout.active())
      add_dropped(dropout, out.shape, residual.as<T>(), branch.as<T>(), out.as<T>());
    else
      add(residual.as<T>(), branch.as<T>(), out.as<T>(), out.elements());
  });
}

void apply_dropout(const Dropout& dropout, const core::Tensor& dy, const core::Tensor& dx) {
  core::check(dy.shape == dx.shape && dx.shape.rank() == 3, "dropout: {} to {}", dy.shape.text(), dx.shape.text());
  with_type(dx.dtype, [&](auto type) {
    using T = decltype(type);
    drop(dropout, dx.shape, dy.as<T>(), dx.as<T>());
  });
}

}  // namespace trireme::model
