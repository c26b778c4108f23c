#include "train/huggingface/stored_elements.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/dtype.h"
#include "core/error.h"

namespace trireme::train {

namespace {

static_assert(std::endian::native == std::endian::little, "stored elements are little endian");

struct StoredType {
  std::string_view name;
  int bits;
};
constexpr std::array kTypes{
    StoredType{"BOOL", 8},    StoredType{"U8", 8},      StoredType{"I8", 8},   StoredType{"F8_E5M2", 8},
    StoredType{"F8_E4M3", 8}, StoredType{"F8_E8M0", 8}, StoredType{"F4", 4},   StoredType{"F6_E2M3", 6},
    StoredType{"F6_E3M2", 6}, StoredType{"I16", 16},    StoredType{"U16", 16}, StoredType{"F16", 16},
    StoredType{"BF16", 16},   StoredType{"I32", 32},    StoredType{"U32", 32}, StoredType{"F32", 32},
    StoredType{"F64", 64},    StoredType{"I64", 64},    StoredType{"U64", 64}, StoredType{"C64", 64},
};

template <class Bits, class To, class Convert>
void convert_each(const std::byte* from, std::span<To> to, Convert convert) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    Bits bits;
    std::memcpy(&bits, from + i * sizeof(Bits), sizeof(Bits));
    to[i] = convert(bits);
  }
}

template <class To>
bool convert_any(std::string_view dtype, const std::byte* from, std::span<To> to) {
  bool fits = true;
  if (dtype == "F64") {
    convert_each<double>(from, to, [&](double value) {
      const To converted = static_cast<To>(value);
      fits = fits && std::isinf(converted) == std::isinf(value);
      return converted;
    });
  } else if (dtype == "F32") {
    convert_each<float>(from, to, [](float value) { return static_cast<To>(value); });
  } else if (dtype == "BF16") {
    convert_each<std::uint16_t>(from, to, [](std::uint16_t bits) {
      return static_cast<To>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
    });
  } else {
    core::check(dtype == "F16", "elements of dtype {} are no weights", dtype);
    convert_each<std::uint16_t>(from, to, [](std::uint16_t bits) { return static_cast<To>(from_half(bits)); });
  }
  return fits;
}

}  // namespace

int stored_bits(std::string_view dtype) {
  for (const StoredType& type : kTypes)
    if (type.name == dtype) return type.bits;
  return 0;
}

bool holds_weights(std::string_view dtype) {
  return dtype == "F64" || dtype == "F32" || dtype == "BF16" || dtype == "F16";
}

float from_half(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  const std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

bool convert_elements(std::string_view dtype, const std::byte* from, std::span<float> to) {
  return convert_any(dtype, from, to);
}
bool convert_elements(std::string_view dtype, const std::byte* from, std::span<double> to) {
  return convert_any(dtype, from, to);
}

std::uint16_t to_bf16_bits(float value) { return core::bf16(value).bits; }

std::uint16_t to_bf16_bits(double value) {
  const float near = static_cast<float>(value);
  // Only a float that lies on a tie of bf16 without being the value would be rounded twice.
  const bool tie = (std::bit_cast<std::uint32_t>(near) & 0xffffu) == 0x8000u;
  if (!tie || std::isnan(value) || static_cast<double>(near) == value) return to_bf16_bits(near);
  const float towards = static_cast<double>(near) < value ? HUGE_VALF : -HUGE_VALF;
  return to_bf16_bits(std::nextafter(near, towards));
}

}  // namespace trireme::train
