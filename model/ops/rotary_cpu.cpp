#include <algorithm>
#include <cmath>
#include <vector>

#include "core/parallel_for.h"
#include "model/ops/rotary.h"
#include "model/ops/vector_math.h"

namespace trireme::model {

namespace {

using core::Tensor;
constexpr std::int64_t kGrain = 8192;  // elements worth a thread

/// Rotates one head by the angles of a table row, backwards for sign = -1.
template <class T>
void rotate_head(T* x, const core::accumulate_t<T>* row, std::int64_t half, core::accumulate_t<T> sign) {
#pragma omp simd
  for (std::int64_t i = 0; i < half; ++i) {
    const auto cosine = row[i], sine = sign * row[half + i];
    const auto first = widen(x[i]), second = widen(x[half + i]);
    x[i] = narrow<T>(first * cosine - second * sine);
    x[half + i] = narrow<T>(second * cosine + first * sine);
  }
}

template <class T>
void rotate_all(const AttentionShape& n, const Tensor& table, const std::int32_t* document_start, T* qkv, int sign) {
  using S = core::accumulate_t<T>;
  const S* const angles = table.as<S>();
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / n.row());
  core::parallel_for(n.s * n.b, grain, [=, &n](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int64_t s = token / n.b, b = token % n.b;
      const std::int64_t position = s - (document_start ? document_start[b * n.s + s] : 0);
      for (std::int64_t head = 0; head < n.a + n.g; ++head)
        rotate_head(qkv + token * n.row() + head * n.d, angles + position * n.d, n.d / 2, static_cast<S>(sign));
    }
  });
}

void rotate(const AttentionShape& shape, const Tensor& table, const std::int32_t* document_start, const Tensor& qkv,
            int sign) {
  core::check(qkv.elements() == shape.s * shape.b * shape.row() && table.shape.last() == shape.d &&
                  table.shape.rows() >= shape.s && shape.d % 2 == 0,
              "rotation of {} with table {}", qkv.shape.text(), table.shape.text());
  with_type(qkv.dtype, [&](auto type) { rotate_all(shape, table, document_start, qkv.as<decltype(type)>(), sign); });
}

template <class S>
void fill_table(double theta, std::int64_t positions, std::int64_t d, S* out) {
  const std::int64_t half = d / 2;
  std::vector<double> frequency(static_cast<std::size_t>(half));
  for (std::int64_t i = 0; i < half; ++i)
    frequency[static_cast<std::size_t>(i)] = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(d));
  for (std::int64_t position = 0; position < positions; ++position)
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * frequency[static_cast<std::size_t>(i)];
      out[position * d + i] = static_cast<S>(std::cos(angle));
      out[position * d + half + i] = static_cast<S>(std::sin(angle));
    }
}

}  // namespace

void rotary_table(double theta, const Tensor& table) {
  const std::int64_t positions = table.shape.rows(), d = table.shape.last();
  core::check(d % 2 == 0, "rotation: table {}", table.shape.text());
  if (table.dtype == core::DType::f64)
    fill_table(theta, positions, d, table.as<double>());
  else
    fill_table(theta, positions, d, table.as<float>());
}

void rotary_forward(const AttentionShape& shape, const Tensor& table, const std::int32_t* document_start,
                    const Tensor& qkv) {
  rotate(shape, table, document_start, qkv, 1);
}

void rotary_backward(const AttentionShape& shape, const Tensor& table, const std::int32_t* document_start,
                     const Tensor& dqkv) {
  rotate(shape, table, document_start, dqkv, -1);
}

}  // namespace trireme::model
