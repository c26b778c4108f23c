#include <algorithm>

#include "core/parallel_for.h"
#include "model/ops/dropout_rows.h"
#include "model/ops/embedding.h"

namespace trireme::model {

namespace {

using core::Tensor;

constexpr std::int64_t kGrain = 8192;       // elements worth a thread
constexpr std::int64_t kColumnsGrain = 64;  // columns of a row of gradients worth a thread

void check_ids(const TokenIds& ids, const Tensor& tokens, const Tensor& positions, const Tensor& hidden) {
  const std::int64_t h = hidden.shape.last();
  core::check(hidden.shape == core::Shape{ids.s, ids.b, h} && tokens.shape.last() == h,
              "embedding of {} x {} tokens: {} of {}", ids.s, ids.b, hidden.shape.text(), tokens.shape.text());
  core::check(!positions || (positions.shape.last() == h && positions.shape.rows() >= ids.s),
              "embedding: positions {} for {}", positions.shape.text(), hidden.shape.text());
  const std::int64_t v = tokens.shape.rows();
  for (std::int64_t i = 0; i < ids.s * ids.b; ++i)
    core::check(ids.tokens[i] >= 0 && ids.tokens[i] < v, "embedding: id {} of {}", ids.tokens[i], v);
}

std::int64_t position_of(const TokenIds& ids, std::int64_t s, std::int64_t b) {
  return s - (ids.document_start ? ids.document_start[b * ids.s + s] : 0);
}

/// out = dropout(token + position); the sum is not rounded before the dropout's factor.
template <class T>
struct ForwardRow {
  using S = core::accumulate_t<T>;
  const T *token, *position;  // position may be null
  T* out;
  std::int64_t h;

  S sum(std::int64_t i) const { return position ? widen(token[i]) + widen(position[i]) : widen(token[i]); }
  void plain() const {
#pragma omp simd
    for (std::int64_t i = 0; i < h; ++i) out[i] = narrow<T>(sum(i));
  }
  void dropped(const Dropout& dropout, std::int64_t s, std::int64_t b) const {
    drop_row<S>(dropout, s, b, h, [row = *this](std::int64_t i, S f) { row.out[i] = narrow<T>(row.sum(i) * f); });
  }
};

template <class T>
void forward(const TokenIds& ids, const Tensor& token_weight, const Tensor& position_weight, const Dropout& dropout,
             const Tensor& out) {
  const std::int64_t h = out.shape[2];
  const T* const tokens = token_weight.as<T>();
  const T* const positions = position_weight ? position_weight.as<T>() : nullptr;
  T* const rows = out.as<T>();
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, h));
  core::parallel_for(ids.s * ids.b, grain, [=, &ids, &dropout](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t s = t / ids.b, b = t % ids.b;
      const ForwardRow<T> row{tokens + ids.tokens[b * ids.s + s] * h,
                              positions ? positions + position_of(ids, s, b) * h : nullptr, rows + t * h, h};
      if (dropout.active())
        row.dropped(dropout, s, b);
      else
        row.plain();
    }
  });
}

template <class T>
void add_row(const T* from, core::accumulate_t<T>* to, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) to[i] += widen(from[i]);
}

/// Each thread adds its own columns of all tokens, in the order of the tokens.
template <class T>
void backward(const TokenIds& ids, const Tensor& dout, const Tensor& dtoken, const Tensor& dposition) {
  using S = core::accumulate_t<T>;
  const std::int64_t h = dout.shape[2];
  const T* const rows = dout.as<T>();
  S* const tokens = dtoken.as<S>();
  S* const positions = dposition ? dposition.as<S>() : nullptr;
  core::parallel_for(h, kColumnsGrain, [=, &ids](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = 0; s < ids.s; ++s)
      for (std::int64_t b = 0; b < ids.b; ++b) {
        const T* row = rows + (s * ids.b + b) * h + begin;
        add_row(row, tokens + ids.tokens[b * ids.s + s] * h + begin, end - begin);
        if (positions) add_row(row, positions + position_of(ids, s, b) * h + begin, end - begin);
      }
  });
}

}  // namespace

void embedding_forward(const TokenIds& ids, const Tensor& token_weight, const Tensor& position_weight,
                       const Dropout& dropout, const Tensor& out) {
  check_ids(ids, token_weight, position_weight, out);
  with_type(out.dtype, [&](auto type) { forward<decltype(type)>(ids, token_weight, position_weight, dropout, out); });
}

void embedding_backward(const TokenIds& ids, const Tensor& dout, const Dropout& dropout, const Tensor& dtoken,
                        const Tensor& dposition) {
  check_ids(ids, dtoken, dposition, dout);
  if (dropout.active()) apply_dropout(dropout, dout, dout);
  with_type(dout.dtype, [&](auto type) { backward<decltype(type)>(ids, dout, dtoken, dposition); });
}

}  // namespace trireme::model
