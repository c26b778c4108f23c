#pragma once

#include <algorithm>
#include <utility>

#include "model/ops/dropout.h"
#include "model/ops/vector_math.h"

namespace trireme::model {

inline constexpr std::int64_t kDropChannels = 64;  // channels whose random words are made together

/// One round of core::philox.
struct PhiloxLane {
  std::uint32_t c0, c1, c2, c3;
  void round(std::uint32_t key0, std::uint32_t key1) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * c0;
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<std::uint32_t>(b >> 32) ^ c1 ^ key0;
    c1 = static_cast<std::uint32_t>(b);
    c2 = static_cast<std::uint32_t>(a >> 32) ^ c3 ^ key1;
    c3 = static_cast<std::uint32_t>(a);
  }
  /// Unrolled by the fold, since a loop inside would keep the loop over lanes from vectorising.
  template <std::uint32_t... kRound>
  void rounds(std::uint32_t key0, std::uint32_t key1, std::integer_sequence<std::uint32_t, kRound...>) {
    (round(key0 + kRound * 0x9E3779B9u, key1 + kRound * 0xBB67AE85u), ...);
  }
};

/// Factors (0 or 1 / (1 - rate)) of channels `first` ... `first` + kDropChannels - 1 of token `s` of sample `b`.
template <class S>
void drop_factors(const Dropout& dropout, std::int64_t s, std::int64_t b, std::int64_t first, S* factors) {
  const core::RandomKey key(dropout.seed, core::kTagDropout);
  const auto q = static_cast<std::uint64_t>(dropout.first_position + b);
  const auto group = static_cast<std::uint32_t>(first / 4), token = static_cast<std::uint32_t>(s);
  const auto low = static_cast<std::uint32_t>(q);
  const std::uint32_t high = dropout.site + static_cast<std::uint32_t>((q >> 32) << 16);
  const std::uint32_t threshold = dropout.threshold();
  const auto kept = static_cast<S>(1 / (1 - dropout.rate));
#pragma omp simd
  for (std::uint32_t i = 0; i < kDropChannels / 4; ++i) {
    PhiloxLane lane{group + i, token, low, high};
    lane.rounds(key.k0, key.k1, std::make_integer_sequence<std::uint32_t, 10>());
    factors[4 * i] = lane.c0 < threshold ? S(0) : kept;
    factors[4 * i + 1] = lane.c1 < threshold ? S(0) : kept;
    factors[4 * i + 2] = lane.c2 < threshold ? S(0) : kept;
    factors[4 * i + 3] = lane.c3 < threshold ? S(0) : kept;
  }
}

/// Calls element(channel, factor) for the h channels of token `s` of sample `b`; it must vectorise.
template <class S, class Element>
void drop_row(const Dropout& dropout, std::int64_t s, std::int64_t b, std::int64_t h, const Element& element) {
  S factors[kDropChannels];
  for (std::int64_t first = 0; first < h; first += kDropChannels) {
    drop_factors(dropout, s, b, first, factors);
    const std::int64_t n = std::min(kDropChannels, h - first);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) element(first + i, factors[i]);
  }
}

}  // namespace trireme::model
