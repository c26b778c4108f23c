#pragma once

#include <array>
#include <cstdint>

namespace trireme::core {

using PhiloxWords = std::array<std::uint32_t, 4>;

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
constexpr PhiloxWords philox(PhiloxWords counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key0, static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key1, static_cast<std::uint32_t>(a)};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

/// Key of one use of randomness: low word of the seed, high word xor `tag`. Random numbers are functions of position.
struct RandomKey {
  std::uint32_t k0 = 0;
  std::uint32_t k1 = 0;
  constexpr RandomKey(std::uint64_t seed, std::uint32_t tag)
      : k0(static_cast<std::uint32_t>(seed)), k1(static_cast<std::uint32_t>(seed >> 32) ^ tag) {}
  constexpr PhiloxWords operator()(PhiloxWords counter) const { return philox(counter, k0, k1); }
};

inline constexpr std::uint32_t kTagData = 0x64617461;     // "data": sample order
inline constexpr std::uint32_t kTagInit = 0x696e6974;     // "init": initial weights
inline constexpr std::uint32_t kTagDropout = 0x64726f70;  // "drop"

}  // namespace trireme::core
