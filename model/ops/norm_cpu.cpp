#include <array>
#include <cmath>
#include <vector>

#include "core/parallel_for.h"
#include "model/ops/norm.h"
#include "model/ops/vector_math.h"

namespace trireme::model {

namespace {

using core::Tensor;

// Weight gradients: rows are summed in this many fixed parts, whatever the number of threads.
constexpr std::int64_t kRowParts = 16;
constexpr std::int64_t kGrain = 8;

template <class T>
T* data_or_null(const Tensor& tensor) {
  return tensor ? tensor.as<T>() : nullptr;
}

/// One row: y = (x - mean) rstd weight + bias, x given in the accumulate type.
template <class T>
void normalise(const NormWeights& weights, std::int64_t h, const T* x, T* y, core::accumulate_t<T>* mean_out,
               core::accumulate_t<T>* rstd_out) {
  using Sum = core::accumulate_t<T>;
  const T* weight = weights.weight.as<T>();
  const T* bias = data_or_null<T>(weights.bias);
  Sum mean = 0;
  if (bias) {
#pragma omp simd reduction(+ : mean)
    for (std::int64_t i = 0; i < h; ++i) mean += widen(x[i]);
    mean /= static_cast<Sum>(h);
  }
  Sum squares = 0;
#pragma omp simd reduction(+ : squares)
  for (std::int64_t i = 0; i < h; ++i) squares += (widen(x[i]) - mean) * (widen(x[i]) - mean);
  const Sum rstd = Sum(1) / std::sqrt(squares / static_cast<Sum>(h) + static_cast<Sum>(weights.eps));
  if (bias) {
#pragma omp simd
    for (std::int64_t i = 0; i < h; ++i)
      y[i] = narrow<T>((widen(x[i]) - mean) * rstd * widen(weight[i]) + widen(bias[i]));
    *mean_out = mean;
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < h; ++i) y[i] = narrow<T>(widen(x[i]) * rstd * widen(weight[i]));
  }
  *rstd_out = rstd;
}

void check_statistics(const NormWeights& weights, const NormStatistics& statistics, std::int64_t rows) {
  core::check(
      statistics.rstd.elements() == rows && static_cast<bool>(statistics.mean) == static_cast<bool>(weights.bias),
      "norm: statistics {} for {} rows", statistics.rstd.shape.text(), rows);
}

template <class T>
void forward(const NormWeights& weights, const Tensor& x, const Tensor& y, const NormStatistics& statistics) {
  using Sum = core::accumulate_t<T>;
  const std::int64_t h = x.shape.last();
  Sum* mean = data_or_null<Sum>(statistics.mean);
  Sum* rstd = statistics.rstd.as<Sum>();
  core::parallel_for(x.shape.rows(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t)
      normalise(weights, h, x.as<T>() + t * h, y.as<T>() + t * h, mean ? mean + t : nullptr, rstd + t);
  });
}

template <class T>
void add_forward(const NormWeights& weights, const Tensor& residual, const Tensor& branch, const Tensor& sum,
                 const Tensor& y, const NormStatistics& statistics) {
  using Sum = core::accumulate_t<T>;
  const std::int64_t h = sum.shape.last();
  Sum* mean = data_or_null<Sum>(statistics.mean);
  Sum* rstd = statistics.rstd.as<Sum>();
  core::parallel_for(sum.shape.rows(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const T* a = residual.as<T>() + t * h;
      const T* b = branch.as<T>() + t * h;
      T* out = sum.as<T>() + t * h;
#pragma omp simd
      for (std::int64_t i = 0; i < h; ++i) out[i] = narrow<T>(widen(a[i]) + widen(b[i]));
      normalise(weights, h, out, y.as<T>() + t * h, mean ? mean + t : nullptr, rstd + t);
    }
  });
}

/// One row of the backward pass; adds to the weight gradients of the row's part.
template <class T>
struct BackwardRow {
  using Sum = core::accumulate_t<T>;
  std::int64_t h;
  const T *weight, *x, *dy, *dresidual;
  T* dx;
  Sum mean, rstd;
  Sum *dweight, *dbias;  // dbias null: RMSNorm

  void run() const {
    Sum plain = 0, projected = 0;
#pragma omp simd reduction(+ : plain, projected)
    for (std::int64_t i = 0; i < h; ++i) {
      const Sum d = widen(dy[i]) * widen(weight[i]);
      const Sum normed = (widen(x[i]) - mean) * rstd;
      plain += d;
      projected += d * normed;
    }
    plain = dbias ? plain / static_cast<Sum>(h) : Sum(0);
    projected /= static_cast<Sum>(h);
#pragma omp simd
    for (std::int64_t i = 0; i < h; ++i) {
      const Sum d = widen(dy[i]);
      const Sum normed = (widen(x[i]) - mean) * rstd;
      dweight[i] += d * normed;
      const Sum own = (d * widen(weight[i]) - plain - normed * projected) * rstd;
      dx[i] = narrow<T>(own + (dresidual ? widen(dresidual[i]) : Sum(0)));
    }
    if (!dbias) return;
#pragma omp simd
    for (std::int64_t i = 0; i < h; ++i) dbias[i] += widen(dy[i]);
  }
};

template <class T>
void backward(const NormWeights& weights, const NormStatistics& statistics, const Tensor& x, const Tensor& dy,
              const Tensor& dresidual, const Tensor& dx, const NormGradients& gradients) {
  using Sum = core::accumulate_t<T>;
  const std::int64_t h = x.shape.last(), rows = x.shape.rows();
  const bool bias = static_cast<bool>(weights.bias);
  thread_local std::vector<Sum> parts;
  parts.assign(static_cast<std::size_t>(kRowParts * 2 * h), Sum(0));
  Sum* const sums = parts.data();
  const T* residual = data_or_null<T>(dresidual);
  core::parallel_for(kRowParts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part)
      for (std::int64_t t = rows * part / kRowParts; t < rows * (part + 1) / kRowParts; ++t)
        BackwardRow<T>{h,
                       weights.weight.as<T>(),
                       x.as<T>() + t * h,
                       dy.as<T>() + t * h,
                       residual ? residual + t * h : nullptr,
                       dx.as<T>() + t * h,
                       bias ? statistics.mean.as<Sum>()[t] : Sum(0),
                       statistics.rstd.as<Sum>()[t],
                       sums + part * 2 * h,
                       bias ? sums + part * 2 * h + h : nullptr}
            .run();
  });
  const auto add = [&](Sum* into, const Sum* from) {
    for (std::int64_t part = 0; part < kRowParts; ++part)
#pragma omp simd
      for (std::int64_t i = 0; i < h; ++i) into[i] += from[part * 2 * h + i];
  };
  add(gradients.weight.as<Sum>(), sums);
  if (bias) add(gradients.bias.as<Sum>(), sums + h);
}

/// Width of a row of queries and keys, and of the whole qkv row.
struct HeadRows {
  explicit HeadRows(const HeadNorm& n) : heads(n.a + n.g), d(n.d), pitch((n.a + 2 * n.g) * n.d) {}
  std::int64_t heads, d, pitch;
};

template <class T>
void head_forward(const HeadNorm& norm, const Tensor& qkv, const Tensor& raw, const Tensor& rstd) {
  using Sum = core::accumulate_t<T>;
  const HeadRows rows(norm);
  core::parallel_for(qkv.elements() / rows.pitch, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t head = 0; head < rows.heads; ++head) {
        T* x = qkv.as<T>() + t * rows.pitch + head * rows.d;
        T* kept = raw.as<T>() + (t * rows.heads + head) * rows.d;
        std::copy_n(x, rows.d, kept);
        const NormWeights weights{head < norm.a ? norm.query_weight : norm.key_weight, {}, norm.eps};
        normalise<T>(weights, rows.d, kept, x, nullptr, rstd.as<Sum>() + t * rows.heads + head);
      }
    }
  });
}

template <class T>
void head_backward(const HeadNorm& norm, const Tensor& raw, const Tensor& rstd, const Tensor& dqkv,
                   const std::array<Tensor, 2>& dweights) {
  using Sum = core::accumulate_t<T>;
  const HeadRows rows(norm);
  const std::int64_t tokens = dqkv.elements() / rows.pitch;
  thread_local std::vector<Sum> parts;
  parts.assign(static_cast<std::size_t>(kRowParts * 2 * rows.d), Sum(0));
  Sum* const sums = parts.data();
  core::parallel_for(kRowParts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part)
      for (std::int64_t t = tokens * part / kRowParts; t < tokens * (part + 1) / kRowParts; ++t)
        for (std::int64_t head = 0; head < rows.heads; ++head) {
          const bool query = head < norm.a;
          T* d = dqkv.as<T>() + t * rows.pitch + head * rows.d;
          BackwardRow<T>{rows.d,
                         (query ? norm.query_weight : norm.key_weight).as<T>(),
                         raw.as<T>() + (t * rows.heads + head) * rows.d,
                         d,
                         nullptr,
                         d,
                         Sum(0),
                         rstd.as<Sum>()[t * rows.heads + head],
                         sums + (part * 2 + (query ? 0 : 1)) * rows.d,
                         nullptr}
              .run();
        }
  });
  for (std::size_t which = 0; which < 2; ++which)
    for (std::int64_t part = 0; part < kRowParts; ++part)
      for (std::int64_t i = 0; i < rows.d; ++i)
        dweights[which].as<Sum>()[i] += sums[(part * 2 + static_cast<std::int64_t>(which)) * rows.d + i];
}

}  // namespace

void norm_forward(const NormWeights& weights, const Tensor& x, const Tensor& y, const NormStatistics& statistics) {
  core::check(x.shape == y.shape && weights.weight.elements() == x.shape.last(), "norm: {} to {}", x.shape.text(),
              y.shape.text());
  check_statistics(weights, statistics, x.shape.rows());
  with_type(x.dtype, [&](auto type) { forward<decltype(type)>(weights, x, y, statistics); });
}

void add_norm_forward(const NormWeights& weights, const Tensor& residual, const Tensor& branch, const Tensor& sum,
                      const Tensor& y, const NormStatistics& statistics) {
  core::check(residual.shape == branch.shape && sum.shape == residual.shape && y.shape == residual.shape,
              "norm: {} + {} to {}", residual.shape.text(), branch.shape.text(), y.shape.text());
  check_statistics(weights, statistics, y.shape.rows());
  with_type(sum.dtype, [&](auto type) { add_forward<decltype(type)>(weights, residual, branch, sum, y, statistics); });
}

void norm_backward(const NormWeights& weights, const NormStatistics& statistics, const Tensor& x, const Tensor& dy,
                   const Tensor& dresidual, const Tensor& dx, const NormGradients& gradients) {
  core::check(x.shape == dy.shape && dx.shape == x.shape, "norm: gradient {} of {}", dy.shape.text(), x.shape.text());
  check_statistics(weights, statistics, x.shape.rows());
  with_type(x.dtype,
            [&](auto type) { backward<decltype(type)>(weights, statistics, x, dy, dresidual, dx, gradients); });
}

void head_norm_forward(const HeadNorm& norm, const Tensor& qkv, const Tensor& raw, const Tensor& rstd) {
  core::check(raw.elements() == rstd.elements() * norm.d, "QK-norm: {} and {}", raw.shape.text(), rstd.shape.text());
  with_type(qkv.dtype, [&](auto type) { head_forward<decltype(type)>(norm, qkv, raw, rstd); });
}

void head_norm_backward(const HeadNorm& norm, const Tensor& raw, const Tensor& rstd, const Tensor& dqkv,
                        const Tensor& dquery_weight, const Tensor& dkey_weight) {
  with_type(dqkv.dtype, [&](auto type) {
    head_backward<decltype(type)>(norm, raw, rstd, dqkv, {dquery_weight, dkey_weight});
  });
}

}  // namespace trireme::model
