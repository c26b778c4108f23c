#include "model/ops/norm.h"
#include "model/ops/norm_rows.h"

namespace trireme::model {

namespace {

using core::Tensor;
constexpr std::int64_t kGrain = 8192;  // elements worth a thread

template <class T>
T* data_or_null(const Tensor& tensor) {
  return tensor ? tensor.as<T>() : nullptr;
}

template <class T>
NormRow<T> row_of(const NormWeights& weights) {
  return {weights.weight.elements(), static_cast<core::accumulate_t<T>>(weights.eps), weights.weight.as<T>(),
          data_or_null<T>(weights.bias)};
}

template <class Body>
void for_each_row(const core::Shape& shape, const Body& body) {
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / shape.last());
  core::parallel_for(shape.rows(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) body(t);
  });
}

template <class T>
void forward(const NormWeights& weights, const Tensor& x, const Tensor& y, const NormStatistics& statistics) {
  using S = core::accumulate_t<T>;
  const NormRow<T> row = row_of<T>(weights);
  const T* const from = x.as<T>();
  T* const to = y.as<T>();
  S* const mean = data_or_null<S>(statistics.mean);
  S* const rstd = statistics.rstd.as<S>();
  for_each_row(x.shape, [=](std::int64_t t) {
    row.forward(from + t * row.h, to + t * row.h, mean ? mean + t : nullptr, rstd + t);
  });
}

/// The norm reads the rounded sum, so that it can be computed again from what is kept.
template <class T>
void add_forward(const NormWeights& weights, const Tensor& residual, const Tensor& branch, const Tensor& sum,
                 const Tensor& y, const NormStatistics& statistics) {
  using S = core::accumulate_t<T>;
  const NormRow<T> row = row_of<T>(weights);
  const T* const first = residual.as<T>();
  const T* const second = branch.as<T>();
  T* const sums = sum.as<T>();
  T* const to = y.as<T>();
  S* const mean = data_or_null<S>(statistics.mean);
  S* const rstd = statistics.rstd.as<S>();
  for_each_row(sum.shape, [=](std::int64_t t) {
    const T* a = first + t * row.h;
    const T* b = second + t * row.h;
    T* out = sums + t * row.h;
#pragma omp simd
    for (std::int64_t i = 0; i < row.h; ++i) out[i] = narrow<T>(widen(a[i]) + widen(b[i]));
    row.forward(out, to + t * row.h, mean ? mean + t : nullptr, rstd + t);
  });
}

template <class T, bool kBias, bool kResidual>
void backward(const NormWeights& weights, const NormStatistics& statistics, const Tensor& x, const Tensor& dy,
              const Tensor& dresidual, const Tensor& dx, const NormGradients& gradients) {
  using S = core::accumulate_t<T>;
  const std::int64_t h = x.shape.last();
  const T* const weight = weights.weight.as<T>();
  const T* const from = x.as<T>();
  const T* const d = dy.as<T>();
  const T* const residual = data_or_null<T>(dresidual);
  T* const to = dx.as<T>();
  const S* const mean = data_or_null<S>(statistics.mean);
  const S* const rstd = statistics.rstd.as<S>();
  const RowSums<S> sums(x.shape.rows(), kBias ? 2 * h : h);
  sums.run([=](std::int64_t begin, std::int64_t end, S* own) {
    const NormBackwardRow<T, kBias, kResidual> row{h, weight, own, kBias ? own + h : nullptr};
    for (std::int64_t t = begin; t < end; ++t)
      row.run(from + t * h, d + t * h, kResidual ? residual + t * h : nullptr, to + t * h, kBias ? mean[t] : S(0),
              rstd[t]);
  });
  sums.add_to(gradients.weight.as<S>(), 0, h);
  if constexpr (kBias) sums.add_to(gradients.bias.as<S>(), h, h);
}

void check_norm(const NormWeights& weights, const NormStatistics& statistics, const Tensor& x) {
  const std::int64_t h = x.shape.last(), rows = x.shape.rows();
  const bool layer_norm = static_cast<bool>(weights.bias);
  core::check(h > 0 && weights.weight.elements() == h && (!layer_norm || weights.bias.elements() == h),
              "norm: {} weights for {}", weights.weight.elements(), x.shape.text());
  core::check(statistics.rstd.elements() == rows && static_cast<bool>(statistics.mean) == layer_norm &&
                  (!layer_norm || statistics.mean.elements() == rows),
              "norm: statistics {} for {}", statistics.rstd.shape.text(), x.shape.text());
}

}  // namespace

void norm_forward(const NormWeights& weights, const Tensor& x, const Tensor& y, const NormStatistics& statistics) {
  core::check(x.shape == y.shape, "norm: {} to {}", x.shape.text(), y.shape.text());
  check_norm(weights, statistics, x);
  with_type(x.dtype, [&](auto type) { forward<decltype(type)>(weights, x, y, statistics); });
}

void add_norm_forward(const NormWeights& weights, const Tensor& residual, const Tensor& branch, const Tensor& sum,
                      const Tensor& y, const NormStatistics& statistics) {
  core::check(residual.shape == branch.shape && sum.shape == residual.shape && y.shape == residual.shape,
              "norm: {} + {} to {}", residual.shape.text(), branch.shape.text(), y.shape.text());
  check_norm(weights, statistics, y);
  with_type(sum.dtype, [&](auto type) { add_forward<decltype(type)>(weights, residual, branch, sum, y, statistics); });
}

void norm_backward(const NormWeights& weights, const NormStatistics& statistics, const Tensor& x, const Tensor& dy,
                   const Tensor& dresidual, const Tensor& dx, const NormGradients& gradients) {
  const std::int64_t h = x.shape.last();
  core::check(x.shape == dy.shape && dx.shape == x.shape && (!dresidual || dresidual.shape == x.shape),
              "norm: gradient {} of {}", dy.shape.text(), x.shape.text());
  check_norm(weights, statistics, x);
  core::check(gradients.weight.elements() == h && (!weights.bias || gradients.bias.elements() == h),
              "norm: weight gradient {} for {}", gradients.weight.shape.text(), x.shape.text());
  with_type(x.dtype, [&](auto type) {
    using T = decltype(type);
    const auto compute = weights.bias ? (dresidual ? backward<T, true, true> : backward<T, true, false>)
                                      : (dresidual ? backward<T, false, true> : backward<T, false, false>);
    compute(weights, statistics, x, dy, dresidual, dx, gradients);
  });
}

}  // namespace trireme::model
