#include <cmath>

#include "core/parallel_for.h"
#include "model/ops/rotary.h"
#include "model/ops/vector_math.h"

namespace trireme::model {

namespace {

using core::Tensor;

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

void rotate(const AttentionShape& shape, const Tensor& table, const std::int32_t* document_start, const Tensor& qkv,
            int sign) {
  core::check(qkv.elements() == shape.s * shape.b * shape.row() && table.shape[1] == shape.d &&
                  table.shape[0] >= shape.s && shape.d % 2 == 0,
              "rotation of {} with table {}", qkv.shape.text(), table.shape.text());
  with_type(qkv.dtype, [&](auto type) {
    using T = decltype(type);
    using Sum = core::accumulate_t<T>;
    core::parallel_for(shape.s * shape.b, 4, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t token = begin; token < end; ++token) {
        const std::int64_t s = token / shape.b, b = token % shape.b;
        const std::int64_t position = s - (document_start ? document_start[b * shape.s + s] : 0);
        for (std::int64_t head = 0; head < shape.a + shape.g; ++head)
          rotate_head<T>(qkv.as<T>() + token * shape.row() + head * shape.d, table.as<Sum>() + position * shape.d,
                         shape.d / 2, static_cast<Sum>(sign));
      }
    });
  });
}

}  // namespace

void rotary_table(double theta, const Tensor& table) {
  const std::int64_t d = table.shape[1];
  with_type(table.dtype, [&](auto type) {
    using T = decltype(type);
    if constexpr (!std::is_same_v<T, core::bf16>) {
      T* out = table.as<T>();
      for (std::int64_t position = 0; position < table.shape[0]; ++position)
        for (std::int64_t i = 0; i < d / 2; ++i) {
          const double angle =
              static_cast<double>(position) * std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(d));
          out[position * d + i] = static_cast<T>(std::cos(angle));
          out[position * d + d / 2 + i] = static_cast<T>(std::sin(angle));
        }
    } else {
      core::check(false, "angles are never held in bf16");
    }
  });
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
