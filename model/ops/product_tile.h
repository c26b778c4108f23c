#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/dtype.h"

// The innermost pieces of matrix products and attention: one register tile, and the packing of operands for it.
// Written with vector extensions, so that the width follows the processor the file is compiled for.
namespace trireme::model {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
inline constexpr int kTileRows = 12;  // 12 x 2 sums, 2 columns and 1 broadcast of 32 registers
#else
inline constexpr int kVectorBytes = 32;
inline constexpr int kTileRows = 6;  // 6 x 2 sums of 16 registers
#endif

template <class S>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float type __attribute__((vector_size(kVectorBytes)));
};
template <>
struct VectorOf<double> {
  typedef double type __attribute__((vector_size(kVectorBytes)));
};
template <class S>
using Vector = typename VectorOf<S>::type;
template <class S>
inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(S));
template <class S>
inline constexpr int kTileColumns = 2 * kLanes<S>;

template <class S>
inline Vector<S> load(const S* from) {
  Vector<S> v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
template <class S>
inline void store(S* to, Vector<S> v) {
  std::memcpy(to, &v, sizeof v);
}

/// Asks for `bytes` of memory to be brought near.
inline void prefetch(const void* from, int bytes) {
  for (int at = 0; at < bytes; at += 64) __builtin_prefetch(static_cast<const char*>(from) + at, 0, 2);
}

/// Memory that is wanted soon: `each` bytes from `from` on are asked for with each of kTileRows shares of a tile.
struct Ahead {
  const char* from = nullptr;
  int each = 0;
};
struct NothingAhead {};

/// c [kTileRows, kTileColumns] (rows `pitch` apart) = or += a b, where a(r, k) is a[r kRowStride + k kStep] and row k
/// of b is b[k kTileColumns ...].
template <int kRowStride, int kStep, class S, class Wanted = NothingAhead>
inline void multiply_tile(const S* a, const S* b, std::int64_t depth, S* c, std::int64_t pitch, bool add,
                          Wanted ahead = {}) {
  constexpr bool kAhead = std::is_same_v<Wanted, Ahead>;
  constexpr int kWidth = kLanes<S>;
  Vector<S> sums[kTileRows][2] = {};
  const std::int64_t share = kAhead ? (depth + kTileRows - 1) / kTileRows : depth;
  [[maybe_unused]] const S* wanted = c;
  for (std::int64_t begin = 0; begin < depth; begin += share) {
    if constexpr (kAhead) {  // spread out, so that what is asked for does not hold up what is needed
      prefetch(wanted, 2 * kVectorBytes);
      prefetch(ahead.from, ahead.each);
      wanted += pitch;
      ahead.from += ahead.each;
    }
    const std::int64_t end = std::min(begin + share, depth);
    for (std::int64_t k = begin; k < end; ++k) {
      const Vector<S> left = load(b), right = load(b + kWidth);
#pragma GCC unroll 16
      for (int r = 0; r < kTileRows; ++r) {
        const S factor = a[r * kRowStride];
        sums[r][0] += factor * left;
        sums[r][1] += factor * right;
      }
      a += kStep;
      b += kTileColumns<S>;
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) {
    S* row = c + r * pitch;
    store(row, add ? load(row) + sums[r][0] : sums[r][0]);
    store(row + kWidth, add ? load(row + kWidth) + sums[r][1] : sums[r][1]);
  }
}

/// to [count] = from [count].
template <class T, class S>
inline void widen(const T* __restrict from, std::int64_t count, S* __restrict to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = S(from[i]);
}

/// One stage of a transposition: swaps the off-diagonal parts of size kSize of two rows.
template <int kSize, class S, std::size_t... kIndex>
inline void exchange(Vector<S>& first, Vector<S>& second, std::index_sequence<kIndex...>) {
  constexpr int kWidth = kLanes<S>;
  const Vector<S> low = __builtin_shufflevector(
      first, second,
      (static_cast<int>(kIndex) & kSize ? kWidth + static_cast<int>(kIndex) - kSize : static_cast<int>(kIndex))...);
  second = __builtin_shufflevector(
      first, second,
      (static_cast<int>(kIndex) & kSize ? kWidth + static_cast<int>(kIndex) : static_cast<int>(kIndex) + kSize)...);
  first = low;
}

template <int kSize, class S>
inline void transpose_stages(Vector<S>* rows) {
  if constexpr (kSize < kLanes<S>) {
#pragma GCC unroll 16
    for (int r = 0; r < kLanes<S>; ++r)
      if (!(r & kSize)) exchange<kSize, S>(rows[r], rows[r + kSize], std::make_index_sequence<kLanes<S>>());
    transpose_stages<2 * kSize, S>(rows);
  }
}

/// Square of kLanes x kLanes: to [k, column] = from [column, k]; columns from `columns` on are zero.
template <class T, class S>
inline void transpose_square(const T* from, std::int64_t pitch, int columns, S* to, std::int64_t to_pitch) {
  constexpr int kWidth = kLanes<S>;
  Vector<S> rows[kWidth];
#pragma GCC unroll 16
  for (int r = 0; r < kWidth; ++r) {
    S values[kWidth] = {};
    if (r < columns) widen(from + r * pitch, kWidth, values);
    rows[r] = load(values);
  }
  transpose_stages<1, S>(rows);
#pragma GCC unroll 16
  for (int k = 0; k < kWidth; ++k) store(to + k * to_pitch, rows[k]);
}

/// to [depth, kTileColumns] = from [columns, depth]^T, columns from `columns` on zero.
template <class T, class S>
inline void pack_transposed(const T* from, std::int64_t pitch, int columns, std::int64_t depth, S* to) {
  constexpr int kWidth = kLanes<S>;
  for (int half = 0; half < kTileColumns<S>; half += kWidth) {
    const T* rows = from + half * pitch;
    const int some = std::clamp(columns - half, 0, kWidth);
    std::int64_t k = 0;
    for (; k + kWidth <= depth; k += kWidth)
      transpose_square(rows + k, pitch, some, to + k * kTileColumns<S> + half, kTileColumns<S>);
    for (; k < depth; ++k)
      for (int c = 0; c < kWidth; ++c) to[k * kTileColumns<S> + half + c] = c < some ? S(rows[c * pitch + k]) : S(0);
  }
}

inline constexpr int kRowsAhead = 8;  // rows that are far apart are asked for early

/// to [depth, kWidth] = from [depth, columns], columns from `columns` on zero. Serves kTileColumns and kTileRows wide
/// panels; several side by side, `panel_stride` apart, so that rows are read in long runs.
template <int kWidth, class T, class S>
inline void pack_rows(const T* from, std::int64_t pitch, std::int64_t columns, std::int64_t depth, S* to,
                      std::int64_t panel_stride = 0) {
  const std::int64_t whole = columns / kWidth, rest = columns % kWidth;
  const int bytes = static_cast<int>(columns * std::int64_t{sizeof(T)});
  for (std::int64_t k = 0; k < depth; ++k, from += pitch) {
    if (k + kRowsAhead < depth) prefetch(from + kRowsAhead * pitch, bytes);
    S* row = to + k * kWidth;
    for (std::int64_t panel = 0; panel < whole; ++panel)
      widen(from + panel * kWidth, kWidth, row + panel * panel_stride);
    if (rest)
      for (int c = 0; c < kWidth; ++c) row[whole * panel_stride + c] = c < rest ? S(from[whole * kWidth + c]) : S(0);
  }
}

}  // namespace trireme::model
