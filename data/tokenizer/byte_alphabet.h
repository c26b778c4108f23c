#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme::data {

/// The printable code point that stands for a byte in the names of tokens (GPT-2): bytes 33-126, 161-172 and 174-255
/// stand for themselves, the other 68, ascending, are U+0100, U+0101, ...
const std::array<std::uint16_t, 256>& byte_alphabet();

/// The name of a token with these bytes.
std::string name_of_bytes(std::string_view bytes);
/// The bytes behind a name; nothing when it holds a character outside the alphabet.
std::optional<std::string> bytes_of_name(std::string_view name);

}  // namespace trireme::data
