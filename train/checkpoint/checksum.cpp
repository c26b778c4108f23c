#include "train/checkpoint/checksum.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <bit>

#include "core/file.h"

namespace trireme::train {

namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15u;
constexpr std::size_t kBlock = std::size_t{1} << 22;

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::uint64_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
std::uint64_t bits_of(double x) { return std::bit_cast<std::uint64_t>(x); }
std::uint64_t bits_of(core::bf16 x) { return x.bits; }

template <class T>
void add_run(const T* values, std::int64_t count, std::uint64_t first, ValueSums& sums) {
  double squares = 0;
  std::uint64_t fingerprint = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(values[i]);
    squares += value * value;
    fingerprint += mix((first + static_cast<std::uint64_t>(i)) * kGolden + bits_of(values[i]));
  }
  sums.squares += squares;
  sums.fingerprint += fingerprint;
}

template <class T>
ValueSums sums_of(const T* data, std::span<const std::int64_t> shape, std::span<const std::int64_t> offset,
                  std::span<const std::int64_t> extent) {
  ValueSums sums;
  const std::int64_t run = extent.empty() ? 1 : extent.back();
  std::int64_t rows = 1;
  for (std::size_t axis = 0; axis + 1 < extent.size(); ++axis) rows *= extent[axis];
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t rest = row;
    std::uint64_t first = 0, stride = 1;
    for (std::size_t axis = extent.size(); axis-- > 0;) {
      const bool last = axis + 1 == extent.size();
      const std::int64_t index = last ? 0 : rest % extent[axis];
      if (!last) rest /= extent[axis];
      first += static_cast<std::uint64_t>(offset[axis] + index) * stride;
      stride *= static_cast<std::uint64_t>(shape[axis]);
    }
    add_run(data + row * run, run, first, sums);
  }
  return sums;
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint32_t crc = ~before;
  for (std::size_t done = 0; done < bytes.size(); done += kBlock) {
    const std::size_t count = std::min(kBlock, bytes.size() - done);
    // The library takes a pointer to non-const but only reads.
    auto* from = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data() + done));
    crc = crc32_iscsi(from, static_cast<int>(count), crc);
  }
  return ~crc;
}

std::uint32_t crc32c_of_file(const std::filesystem::path& path, std::uint64_t offset, std::uint64_t bytes) {
  const core::ReadFile file(path, core::ExitCode::storage);
  std::vector<std::byte> block(std::min<std::uint64_t>(bytes, kBlock));
  std::uint32_t crc = 0;
  for (std::uint64_t done = 0; done < bytes; done += block.size()) {
    block.resize(std::min<std::uint64_t>(kBlock, bytes - done));
    file.read(block, offset + done);
    crc = crc32c(block, crc);
  }
  return crc;
}

ValueSums value_sums(const void* data, core::DType dtype, std::span<const std::int64_t> shape,
                     std::span<const std::int64_t> offset, std::span<const std::int64_t> extent) {
  switch (dtype) {
    case core::DType::f64:
      return sums_of(static_cast<const double*>(data), shape, offset, extent);
    case core::DType::bf16:
      return sums_of(static_cast<const core::bf16*>(data), shape, offset, extent);
    default:
      return sums_of(static_cast<const float*>(data), shape, offset, extent);
  }
}

}  // namespace trireme::train
