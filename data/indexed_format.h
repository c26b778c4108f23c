#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// The indexed dataset of Megatron-LM: PREFIX.bin holds tokens back to back, PREFIX.idx says where sequences and
// documents begin.
namespace trireme::data {

inline constexpr std::array<char, 9> kIndexedMagic{'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
/// Vocabularies from this size on are stored in four bytes a token.
inline constexpr std::int64_t kIndexedWideVocabulary = 65500;

enum class TokenType : std::uint8_t { u8 = 1, i8 = 2, i16 = 3, i32 = 4, i64 = 5, u16 = 8, u32 = 100 };
std::int64_t width_of(TokenType type);  ///< bytes
std::string name_of(TokenType type);

/// A run of tokens that lie one after the other in a file.
struct Extent {
  std::uint64_t file = 0;
  std::uint64_t offset = 0;      ///< bytes
  std::int64_t first_token = 0;  ///< of the stream
  std::int64_t tokens = 0;
};

struct IndexedLayout {
  TokenType type = TokenType::u16;
  std::vector<Extent> extents;                ///< neighbouring sequences are one extent
  std::vector<std::int64_t> document_starts;  ///< first token of each document that is not empty
  std::int64_t documents = 0;                 ///< empty ones included
  std::int64_t empty_documents = 0;
  std::int64_t tokens = 0;
};

/// Parses and checks an .idx of `name` beside a .bin of `bin_size` bytes. Throws Error(bad_data).
IndexedLayout parse_index(std::span<const std::byte> index, const std::string& prefix, std::uint64_t bin_size,
                          bool allow_unused_bytes);

}  // namespace trireme::data
