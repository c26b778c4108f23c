#include <cmath>
#include <vector>

#include "core/parallel_for.h"
#include "model/ops/decode_attention.h"

namespace trireme::model {

namespace {

template <class T>
void attend(const AttentionShape& shape, const T* query, const T* keys, const T* values, std::int64_t length, T* out) {
  using Sum = core::accumulate_t<T>;
  const Sum scale = Sum(1) / std::sqrt(static_cast<Sum>(shape.d));
  const std::int64_t pitch = shape.g * shape.d;
  std::vector<Sum> scores(static_cast<std::size_t>(length));
  std::vector<Sum> sum(static_cast<std::size_t>(shape.d), 0);
  Sum largest = -INFINITY;
  for (std::int64_t k = 0; k < length; ++k) {
    Sum score = 0;
    for (std::int64_t i = 0; i < shape.d; ++i) score += Sum(query[i]) * Sum(keys[k * pitch + i]);
    scores[static_cast<std::size_t>(k)] = score * scale;
    largest = std::max(largest, score * scale);
  }
  Sum total = 0;
  for (std::int64_t k = 0; k < length; ++k) {
    const Sum weight = std::exp(scores[static_cast<std::size_t>(k)] - largest);
    total += weight;
    for (std::int64_t i = 0; i < shape.d; ++i) sum[static_cast<std::size_t>(i)] += weight * Sum(values[k * pitch + i]);
  }
  for (std::int64_t i = 0; i < shape.d; ++i) out[i] = T(sum[static_cast<std::size_t>(i)] / total);
}

template <class T>
void decode(const AttentionShape& shape, const core::Tensor& qkv, const core::Tensor& keys, const core::Tensor& values,
            std::int64_t length, const core::Tensor& out) {
  core::parallel_for(shape.a, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t head = begin; head < end; ++head) {
      const std::int64_t group = head / (shape.a / shape.g) * shape.d;
      attend(shape, qkv.as<T>() + head * shape.d, keys.as<T>() + group, values.as<T>() + group, length,
             out.as<T>() + head * shape.d);
    }
  });
}

}  // namespace

void decode_attention(const AttentionShape& shape, const core::Tensor& qkv, const core::Tensor& keys,
                      const core::Tensor& values, std::int64_t length, const core::Tensor& out) {
  core::check(qkv.elements() == shape.row() && out.elements() == shape.a * shape.d, "decoding takes one position");
  core::check(length >= 1 && length <= keys.shape[0] && keys.shape == values.shape, "{} of {} cached positions", length,
              keys.shape.text());
  switch (qkv.dtype) {
    case core::DType::bf16:
      return decode<core::bf16>(shape, qkv, keys, values, length, out);
    case core::DType::f64:
      return decode<double>(shape, qkv, keys, values, length, out);
    default:
      return decode<float>(shape, qkv, keys, values, length, out);
  }
}

}  // namespace trireme::model
