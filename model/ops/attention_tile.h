#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/tensor.h"
#include "model/ops/attention.h"
#include "model/ops/product_tile.h"

// Attention by square blocks of queries and keys. Blocks are kept as left operands ("columns": [k, kBlock]; "rows":
// [kBlock, k]) or right operands of register tiles ("panels": [column / kTileColumns, k, kTileColumns]).
namespace trireme::model {

inline constexpr int kBlock = 96;  // a multiple of kTileRows and kTileColumns for every vector width

constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

/// Integers as wide as the elements of a vector of S.
template <class S>
struct BitsOf;
template <>
struct BitsOf<float> {
  typedef std::int32_t type __attribute__((vector_size(kVectorBytes)));
};

/// e^x for x <= 88, to about 1 ulp; 0 below -87.3 (so for -infinity), NaN for NaN. Cody-Waite reduction, polynomial of
/// degree 6.
inline Vector<float> exponential(Vector<float> x) {
  using V = Vector<float>;
  using I = BitsOf<float>::type;
  const V bounded = x < -87.3f ? V{} - 87.3f : x;
  constexpr float kShift = 12582912.0f;  // 1.5 x 2^23: adding it rounds to an integer
  const V shifted = bounded * 1.44269504f + kShift;
  const V n = shifted - kShift;
  const V r = (bounded - n * 0.693359375f) + n * 2.12194440e-4f;
  V p = V{} + 1.98756915e-4f;
  p = p * r + 1.39819995e-3f;
  p = p * r + 8.33345190e-3f;
  p = p * r + 4.16657961e-2f;
  p = p * r + 1.66666657e-1f;
  p = p * r + 0.5f;
  p = p * (r * r) + r + 1.0f;
  const I scaled = (I)p + ((I)shifted << 23);
  return x < -87.3f ? V{} : (V)scaled;
}
inline Vector<double> exponential(Vector<double> x) {
  for (int i = 0; i < kLanes<double>; ++i) x[i] = std::exp(x[i]);
  return x;
}
template <class S>
S exponential_of(S x) {
  return exponential(Vector<S>{} + x)[0];
}

template <class S, int kStep, std::size_t... kIndex>
inline Vector<S> rotated(Vector<S> v, std::index_sequence<kIndex...>) {
  return __builtin_shufflevector(v, v, ((static_cast<int>(kIndex) + kStep) % kLanes<S>)...);
}
template <class S, int kStep = kLanes<S> / 2>
inline S largest_lane(Vector<S> v) {
  const Vector<S> other = rotated<S, kStep>(v, std::make_index_sequence<kLanes<S>>());
  const Vector<S> larger = v > other ? v : other;
  if constexpr (kStep == 1)
    return larger[0];
  else
    return largest_lane<S, kStep / 2>(larger);
}
template <class S, int kStep = kLanes<S> / 2>
inline S sum_of_lanes(Vector<S> v) {
  const Vector<S> sums = v + rotated<S, kStep>(v, std::make_index_sequence<kLanes<S>>());
  if constexpr (kStep == 1)
    return sums[0];
  else
    return sum_of_lanes<S, kStep / 2>(sums);
}

/// to [depth, kBlock] = factor from [rows, depth]^T; columns from `rows` on zero.
template <class T, class S>
inline void pack_columns(const T* from, std::int64_t pitch, int rows, std::int64_t depth, S* to) {
  constexpr int kWidth = kLanes<S>;
  for (int column = 0; column < kBlock; column += kWidth) {
    const T* block = from + column * pitch;
    const int some = std::clamp(rows - column, 0, kWidth);
    std::int64_t k = 0;
    for (; k + kWidth <= depth; k += kWidth) transpose_square(block + k, pitch, some, to + k * kBlock + column, kBlock);
    for (; k < depth; ++k)
      for (int c = 0; c < kWidth; ++c) to[k * kBlock + column + c] = c < some ? S(block[c * pitch + k]) : S(0);
  }
}

/// to [d / kTileColumns, kBlock, kTileColumns] = from [rows, d].
template <class T, class S>
inline void pack_panels(const T* from, std::int64_t pitch, int rows, std::int64_t d, S* to) {
  constexpr int kWidth = kTileColumns<S>;
  for (std::int64_t column = 0; column < d; column += kWidth, to += kBlock * kWidth)
    pack_rows<kWidth>(from + column, pitch, static_cast<int>(std::min<std::int64_t>(kWidth, d - column)), rows, to);
}

/// to [kBlock / kTileColumns, d, kTileColumns] = from [rows, d]^T.
template <class T, class S>
inline void pack_transposed_panels(const T* from, std::int64_t pitch, int rows, std::int64_t d, S* to) {
  for (int column = 0; column < kBlock; column += kTileColumns<S>)
    pack_transposed(from + column * pitch, pitch, std::clamp(rows - column, 0, kTileColumns<S>), d, to + column * d);
}

template <class S>
inline void multiply_all(S* values, std::int64_t n, S factor) {
  for (std::int64_t i = 0; i < n; ++i) values[i] *= factor;
}

/// A pair of blocks: `rows` queries from `query`, `keys` keys from `key`; on the diagonal both start alike.
struct BlockPair {
  std::int64_t query = 0, key = 0;
  int rows = 0, keys = 0;
  bool diagonal() const { return query == key; }
};

/// scores [kBlock, kBlock] = left [kBlock, d] right [d, kBlock]; tiles above the diagonal are left out.
template <class S>
inline void multiply_heads(const BlockPair& pair, const S* left_columns, const S* right_panels, std::int64_t d,
                           S* scores) {
  for (int column = 0; column < pair.keys; column += kTileColumns<S>)
    for (int row = 0; row < pair.rows; row += kTileRows)
      if (!pair.diagonal() || column < row + kTileRows)
        multiply_tile<1, kBlock>(left_columns + row, right_panels + column * d, d, scores + row * kBlock + column,
                                 kBlock, false);
}

/// sums [kBlock queries, width] = or += weights [queries, keys] values [keys, width].
template <class S>
inline void multiply_keys(const BlockPair& pair, const S* weights, const S* value_panels, std::int64_t width, S* sums,
                          bool add) {
  for (std::int64_t column = 0; column < width; column += kTileColumns<S>)
    for (int row = 0; row < pair.rows; row += kTileRows)
      multiply_tile<kBlock, 1>(weights + row * kBlock, value_panels + column * kBlock,
                               pair.diagonal() ? std::min(pair.keys, row + kTileRows) : pair.keys,
                               sums + row * width + column, width, add);
}

/// sums [kBlock keys, width] += weights [queries, keys]^T values [queries, width].
template <class S>
inline void multiply_queries(const BlockPair& pair, const S* weights, const S* value_panels, std::int64_t width,
                             S* sums) {
  for (std::int64_t column = 0; column < width; column += kTileColumns<S>)
    for (int row = 0; row < pair.keys; row += kTileRows) {
      const int first = pair.diagonal() ? row : 0;
      if (first < pair.rows)
        multiply_tile<1, kBlock>(weights + first * kBlock + row,
                                 value_panels + column * kBlock + first * kTileColumns<S>, pair.rows - first,
                                 sums + row * width + column, width, true);
    }
}

/// Keys of the pair's block that row `row` may see: [first, second).
struct KeyRange {
  int first = 0, last = 0;
};
inline KeyRange visible(const BlockPair& pair, int row, const std::int32_t* document_start) {
  const std::int64_t query = pair.query + row;
  const std::int64_t start = document_start ? document_start[query] : 0;
  return {static_cast<int>(std::clamp<std::int64_t>(start - pair.key, 0, pair.keys)),
          static_cast<int>(std::min<std::int64_t>(query + 1 - pair.key, pair.keys))};
}

/// Where the keys of a query block begin: blocks before hold nothing that it may see.
inline std::int64_t first_key(const std::int32_t* document_start, std::int64_t query, int rows) {
  return document_start ? *std::min_element(document_start + query, document_start + query + rows) / kBlock * kBlock
                        : 0;
}

/// factors [kBlock, kBlock]: 0 where dropped, else 1 / (1 - rate). `Dropout::words` for a row of blocks at a time, so
/// that it vectorises.
template <class S>
void dropout_factors(const Dropout& dropout, const BlockPair& pair, std::int64_t head, std::int64_t sample,
                     S* factors) {
  constexpr int kGroups = kBlock / 4;
  const S kept = S(1 / (1 - dropout.rate));
  const std::uint32_t threshold = dropout.threshold();
  const auto first = static_cast<std::uint32_t>((head << 20) + pair.key / 4);
  for (int row = 0; row < pair.rows; ++row) {
    std::uint32_t words[4][kGroups];
    for (std::uint32_t i = 0; i < kGroups; ++i) {
      const core::PhiloxWords some = dropout.words(first + i, static_cast<std::uint32_t>(pair.query + row), sample);
      for (std::size_t word = 0; word < 4; ++word) words[word][i] = some[word];
    }
    for (int i = 0; i < kGroups; ++i)
      for (int word = 0; word < 4; ++word)
        factors[row * kBlock + 4 * i + word] = words[word][i] < threshold ? S(0) : kept;
  }
}

/// How one call's work is shared out, and where the operands of a sample and head lie.
template <class T>
struct AttentionLayout {
  const AttentionShape& shape;
  const std::int32_t* document_start;  ///< [b, s] or null
  const Dropout& dropout;

  std::int64_t blocks() const { return (shape.s + kBlock - 1) / kBlock; }
  std::int64_t width() const { return round_up(shape.d, kTileColumns<core::accumulate_t<T>>); }
  std::int64_t share() const { return shape.a / shape.g; }
  std::int64_t qkv_pitch() const { return shape.b * shape.row(); }
  std::int64_t out_pitch() const { return shape.b * shape.a * shape.d; }
  /// Element of qkv: `part` counts heads, query heads first, then key, then value heads.
  std::int64_t qkv_at(std::int64_t position, std::int64_t sample, std::int64_t part) const {
    return (position * shape.b + sample) * shape.row() + part * shape.d;
  }
  std::int64_t out_at(std::int64_t position, std::int64_t sample, std::int64_t head) const {
    return ((position * shape.b + sample) * shape.a + head) * shape.d;
  }
  int rows(std::int64_t block) const {
    return static_cast<int>(std::min<std::int64_t>(kBlock, shape.s - block * kBlock));
  }
  const std::int32_t* starts(std::int64_t sample) const {
    return document_start ? document_start + sample * shape.s : nullptr;
  }
};

}  // namespace trireme::model
