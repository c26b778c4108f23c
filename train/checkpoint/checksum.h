#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.h"

namespace trireme::train {

/// CRC-32C (Castagnoli) of `bytes`, going on from `before` (0 at first).
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

/// Sums over a part of a tensor that do not depend on how the tensor is cut, so parts are added: squares in double, and
/// the fingerprint, the sum of mix(i G + bits) modulo 2^64 over elements, i the global row-major index, G = 2^64 /
/// golden ratio, mix the finaliser of SplitMix64.
struct ValueSums {
  double squares = 0;
  std::uint64_t fingerprint = 0;
};

struct ChunkSums {
  ValueSums values;
  std::uint32_t crc32c = 0;  ///< of the values as stored
};

/// Values [extent], contiguous, at `offset` of a tensor of `shape` (fp32, fp64 or bf16), in one pass.
ChunkSums chunk_sums(const void* data, core::DType dtype, std::span<const std::int64_t> shape,
                     std::span<const std::int64_t> offset, std::span<const std::int64_t> extent);

}  // namespace trireme::train
