#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "core/tensor.h"

namespace trireme::train {

/// CRC-32C (Castagnoli) of `bytes`, going on from `before` (0 at first).
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

/// CRC-32C of bytes [offset, offset + bytes) of a file, read once.
std::uint32_t crc32c_of_file(const std::filesystem::path& path, std::uint64_t offset, std::uint64_t bytes);

/// Sums over a chunk that do not depend on how its tensor is cut: squares in double, and the order-free fingerprint
/// sum of mix(i G + bits) modulo 2^64 over elements, i the global row-major index, G = 2^64 / golden ratio, mix the
/// finaliser of SplitMix64.
struct ValueSums {
  double squares = 0;
  std::uint64_t fingerprint = 0;
};

/// Values [extent] at `offset` of a tensor of `shape`.
ValueSums value_sums(const void* data, core::DType dtype, std::span<const std::int64_t> shape,
                     std::span<const std::int64_t> offset, std::span<const std::int64_t> extent);

}  // namespace trireme::train
