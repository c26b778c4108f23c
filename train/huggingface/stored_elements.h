#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace trireme::train {

/// Bits of an element of a safetensors dtype, 0 for an unknown one.
int stored_bits(std::string_view dtype);

/// Whether weights may be stored so: F64, F32, BF16, F16.
bool holds_weights(std::string_view dtype);

/// IEEE half to float, exact.
float from_half(std::uint16_t bits);

/// Converts `to.size()` elements of a weight dtype. Exact, but for F64 to float, which rounds to nearest even; returns
/// false when a finite F64 value does not fit a float.
bool convert_elements(std::string_view dtype, const std::byte* from, std::span<float> to);
bool convert_elements(std::string_view dtype, const std::byte* from, std::span<double> to);

/// One element rounded once to nearest even, as bits.
std::uint16_t to_bf16_bits(float value);
std::uint16_t to_bf16_bits(double value);

}  // namespace trireme::train
