#include "data/tokenizer/byte_alphabet.h"

#include "data/tokenizer/unicode.h"

namespace trireme::data {

namespace {
constexpr int kCodes = 256 + 68;

std::array<std::uint16_t, 256> make_alphabet() {
  std::array<std::uint16_t, 256> alphabet{};
  std::uint16_t next = 256;
  for (std::uint16_t byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    alphabet[byte] = itself ? byte : next++;
  }
  return alphabet;
}

std::array<std::int16_t, kCodes> make_inverse() {
  std::array<std::int16_t, kCodes> inverse{};
  inverse.fill(-1);
  for (std::size_t byte = 0; byte < 256; ++byte) inverse[byte_alphabet()[byte]] = static_cast<std::int16_t>(byte);
  return inverse;
}
}  // namespace

const std::array<std::uint16_t, 256>& byte_alphabet() {
  static const std::array<std::uint16_t, 256> alphabet = make_alphabet();
  return alphabet;
}

std::string name_of_bytes(std::string_view bytes) {
  std::string name;
  for (const char byte : bytes) append_utf8(name, byte_alphabet()[static_cast<unsigned char>(byte)]);
  return name;
}

std::optional<std::string> bytes_of_name(std::string_view name) {
  static const std::array<std::int16_t, kCodes> inverse = make_inverse();
  std::string bytes;
  while (!name.empty()) {
    const int length = utf8_length(name.substr(0, 4));
    if (length == 0) return std::nullopt;
    const std::uint32_t code = utf8_code(name, length);
    if (code >= kCodes || inverse[code] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(inverse[code]));
    name.remove_prefix(static_cast<std::size_t>(length));
  }
  return bytes;
}

}  // namespace trireme::data
