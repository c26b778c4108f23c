#include "core/parallel_for.h"
#include "model/ops/dropout_rows.h"
#include "model/ops/embedding.h"

namespace trireme::model {

namespace {

using core::Tensor;

std::int64_t position_of(const TokenIds& ids, std::int64_t s, std::int64_t b) {
  return s - (ids.document_start ? ids.document_start[b * ids.s + s] : 0);
}

template <class T>
void forward(const TokenIds& ids, const Tensor& token_weight, const Tensor& position_weight, const Dropout& dropout,
             const Tensor& out) {
  const std::int64_t h = out.shape[2];
  core::parallel_for(ids.s * ids.b, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t s = t / ids.b, b = t % ids.b;
      const T* token = token_weight.as<T>() + ids.tokens[b * ids.s + s] * h;
      const T* position = position_weight ? position_weight.as<T>() + position_of(ids, s, b) * h : nullptr;
      T* row = out.as<T>() + t * h;
      if (position) {
#pragma omp simd
        for (std::int64_t i = 0; i < h; ++i) row[i] = narrow<T>(widen(token[i]) + widen(position[i]));
      } else {
        std::copy_n(token, h, row);
      }
      if (dropout.active())
        drop_row(dropout, s, b, h,
                 [&](std::int64_t i, core::accumulate_t<T> factor) { row[i] = narrow<T>(widen(row[i]) * factor); });
    }
  });
}

/// Adds columns [begin, end) of every token's gradient, tokens in order.
template <class T>
void add_columns(const TokenIds& ids, const T* dout, std::int64_t h, std::int64_t begin, std::int64_t end,
                 core::accumulate_t<T>* dtoken, core::accumulate_t<T>* dposition) {
  for (std::int64_t s = 0; s < ids.s; ++s)
    for (std::int64_t b = 0; b < ids.b; ++b) {
      const T* row = dout + (s * ids.b + b) * h;
      auto* token = dtoken + ids.tokens[b * ids.s + s] * h;
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) token[i] += widen(row[i]);
      if (!dposition) continue;
      auto* position = dposition + position_of(ids, s, b) * h;
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) position[i] += widen(row[i]);
    }
}

}  // namespace

void embedding_forward(const TokenIds& ids, const Tensor& token_weight, const Tensor& position_weight,
                       const Dropout& dropout, const Tensor& out) {
  core::check(out.shape.rank() == 3 && out.shape[0] == ids.s && out.shape[1] == ids.b, "embedding of {} x {} in {}",
              ids.s, ids.b, out.shape.text());
  with_type(out.dtype, [&](auto type) { forward<decltype(type)>(ids, token_weight, position_weight, dropout, out); });
}

void embedding_backward(const TokenIds& ids, const Tensor& dout, const Dropout& dropout, const Tensor& dtoken,
                        const Tensor& dposition) {
  if (dropout.active()) apply_dropout(dropout, dout, dout);
  with_type(dout.dtype, [&](auto type) {
    using T = decltype(type);
    using Sum = core::accumulate_t<T>;
    core::parallel_for(dout.shape[2], 16, [&](std::int64_t begin, std::int64_t end) {
      add_columns<T>(ids, dout.as<T>(), dout.shape[2], begin, end, dtoken.as<Sum>(),
                     dposition ? dposition.as<Sum>() : nullptr);
    });
  });
}

}  // namespace trireme::model
