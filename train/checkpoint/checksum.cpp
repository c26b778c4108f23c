#include "train/checkpoint/checksum.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <bit>

namespace trireme::train {

namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15u;
constexpr std::size_t kCallBytes = std::size_t{1} << 30;
constexpr std::int64_t kBlockElements = 16 * 1024;  // stays in the cache between the two sums
constexpr std::int64_t kLanes = 8;

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::uint64_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
std::uint64_t bits_of(double x) { return std::bit_cast<std::uint64_t>(x); }
std::uint64_t bits_of(core::bf16 x) { return x.bits; }

template <class T>
void add_block(const T* values, std::int64_t count, std::uint64_t first, ValueSums& sums) {
  double squares[kLanes] = {};
  std::uint64_t fingerprints[kLanes] = {};
  const auto add = [&](std::int64_t i, std::int64_t lane) {
    const auto value = static_cast<double>(values[i]);
    squares[lane] += value * value;
    fingerprints[lane] += mix((first + static_cast<std::uint64_t>(i)) * kGolden + bits_of(values[i]));
  };
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) add(i + lane, lane);
  for (; i < count; ++i) add(i, 0);
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    sums.squares += squares[lane];
    sums.fingerprint += fingerprints[lane];
  }
}

/// Trailing axes that the rectangle holds whole are one run of memory together with the axis before them.
std::size_t axes_before_run(std::span<const std::int64_t> shape, std::span<const std::int64_t> extent) {
  std::size_t axis = shape.size();
  while (axis > 0 && extent[axis - 1] == shape[axis - 1]) --axis;
  return axis > 0 ? axis - 1 : 0;
}

template <class T>
ChunkSums sums_of(const T* data, std::span<const std::int64_t> shape, std::span<const std::int64_t> offset,
                  std::span<const std::int64_t> extent) {
  const std::size_t outer = axes_before_run(shape, extent);
  std::int64_t runs = 1, length = 1;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) (axis < outer ? runs : length) *= extent[axis];
  ChunkSums sums;
  for (std::int64_t run = 0; run < runs; ++run) {
    std::int64_t rest = run, first = 0, stride = 1;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      first += (offset[axis] + (axis < outer ? rest % extent[axis] : 0)) * stride;
      if (axis < outer) rest /= extent[axis];
      stride *= shape[axis];
    }
    for (std::int64_t at = 0; at < length; at += kBlockElements) {
      const T* block = data + run * length + at;
      const std::int64_t count = std::min(kBlockElements, length - at);
      sums.crc32c = crc32c(std::as_bytes(std::span(block, static_cast<std::size_t>(count))), sums.crc32c);
      add_block(block, count, static_cast<std::uint64_t>(first + at), sums.values);
    }
  }
  return sums;
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint32_t crc = ~before;
  for (std::size_t done = 0; done < bytes.size(); done += kCallBytes) {
    const std::size_t count = std::min(kCallBytes, bytes.size() - done);
    // The library takes a pointer to non-const but only reads.
    auto* from = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data() + done));
    crc = crc32_iscsi(from, static_cast<int>(count), crc);
  }
  return ~crc;
}

ChunkSums chunk_sums(const void* data, core::DType dtype, std::span<const std::int64_t> shape,
                     std::span<const std::int64_t> offset, std::span<const std::int64_t> extent) {
  switch (dtype) {
    case core::DType::f32:
      return sums_of(static_cast<const float*>(data), shape, offset, extent);
    case core::DType::f64:
      return sums_of(static_cast<const double*>(data), shape, offset, extent);
    case core::DType::bf16:
      return sums_of(static_cast<const core::bf16*>(data), shape, offset, extent);
    default:
      core::fail(core::ExitCode::internal, "a checkpoint holds no {}", core::name_of(dtype));
  }
}

}  // namespace trireme::train
