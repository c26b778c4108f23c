#pragma once

#if defined(__AVX2__)
#  include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>
#include <utility>

#include "model/ops/dropout.h"
#include "model/ops/product_tile.h"
#include "model/ops/vector_math.h"

// Dropout of whole rows: core::philox for many counters at once, one in each 64-bit lane.
namespace trireme::model {

typedef std::uint64_t WordLanes __attribute__((vector_size(kVectorBytes)));
inline constexpr std::int64_t kWordLanes = kVectorBytes / 8;
inline constexpr std::int64_t kDropChannels = 64;  // channels whose words are made together

/// Products of the lanes' lower halves with b: compilers would take slow 64-bit multiplications.
inline WordLanes low_product(WordLanes a, std::uint32_t b) {
  const WordLanes factors = WordLanes{} + b;
#if defined(__AVX512F__)
  return (WordLanes)_mm512_mask_mul_epu32((__m512i)a, 0xff, (__m512i)a, (__m512i)factors);
#elif defined(__AVX2__)
  return (WordLanes)_mm256_mul_epu32((__m256i)a, (__m256i)factors);
#else
  return (a & 0xffffffffu) * factors;
#endif
}

/// Counters and words; the upper halves of the lanes do not count.
struct PhiloxLanes {
  WordLanes c0, c1, c2, c3;

  void encrypt(const core::RandomKey& key) {
    WordLanes key0 = WordLanes{} + key.k0, key1 = WordLanes{} + key.k1;
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const WordLanes a = low_product(c0, 0xD2511F53u), b = low_product(c2, 0xCD9E8D57u);
      c0 = (b >> 32) ^ c1 ^ key0;
      c1 = b;
      c2 = (a >> 32) ^ c3 ^ key1;
      c3 = a;
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
  }
  /// to [4 kWordLanes] = the words in order: c0 ... c3 of the first lane, then of the second.
  void store(std::uint32_t* to) const { store_halves(to, std::make_integer_sequence<int, kWordLanes>()); }

 private:
  template <int... kIndex>
  void store_halves(std::uint32_t* to, std::integer_sequence<int, kIndex...>) const {
    constexpr int kCount = static_cast<int>(kWordLanes);
    const WordLanes first = (c0 & 0xffffffffu) | (c1 << 32), second = (c2 & 0xffffffffu) | (c3 << 32);
    const WordLanes low = __builtin_shufflevector(first, second, (kIndex % 2 * kCount + kIndex / 2)...);
    const WordLanes high = __builtin_shufflevector(first, second, (kIndex % 2 * kCount + kCount / 2 + kIndex / 2)...);
    std::memcpy(to, &low, sizeof low);
    std::memcpy(to + 2 * kCount, &high, sizeof high);
  }
};

/// words [kDropChannels] of channels `first` (a multiple of 4) and up of token `s` of sample `b`.
inline void drop_words(const Dropout& dropout, std::int64_t s, std::int64_t b, std::int64_t first,
                       std::uint32_t* words) {
  const auto q = static_cast<std::uint64_t>(dropout.first_position + b);
  const WordLanes zero{};
  WordLanes group = zero + static_cast<std::uint32_t>(first / 4);
  for (std::int64_t lane = 0; lane < kWordLanes; ++lane) group[lane] += static_cast<std::uint64_t>(lane);
  for (std::int64_t i = 0; i < kDropChannels; i += 4 * kWordLanes, group += kWordLanes) {
    PhiloxLanes lanes{group, zero + static_cast<std::uint32_t>(s), zero + static_cast<std::uint32_t>(q),
                      zero + (dropout.site + static_cast<std::uint32_t>((q >> 32) << 16))};
    lanes.encrypt(core::RandomKey(dropout.seed, core::kTagDropout));
    lanes.store(words + i);
  }
}

/// Calls element(channel, factor), which must vectorise, for the h channels of token `s` of sample `b`. The factor is 0
/// or 1 / (1 - rate).
template <class S, class Element>
void drop_row(const Dropout& dropout, std::int64_t s, std::int64_t b, std::int64_t h, const Element& element) {
  const std::uint32_t threshold = dropout.threshold();
  const auto kept = static_cast<S>(1 / (1 - dropout.rate));
  std::uint32_t words[kDropChannels];
  for (std::int64_t first = 0; first < h; first += kDropChannels) {
    drop_words(dropout, s, b, first, words);
    const std::int64_t n = std::min(kDropChannels, h - first);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) element(first + i, words[i] < threshold ? S(0) : kept);
  }
}

}  // namespace trireme::model
