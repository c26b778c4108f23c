#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// The indexed dataset of Megatron-LM: PREFIX.bin holds tokens back to back, PREFIX.idx says where sequences and
// documents begin.
namespace trireme::data {

static_assert(std::endian::native == std::endian::little, "files are read and written as they lie in memory");

inline constexpr std::array<char, 9> kIndexedMagic{'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
/// Vocabularies from this size on are stored in four bytes a token.
inline constexpr std::int64_t kIndexedWideVocabulary = 65500;
inline constexpr std::size_t kIndexedHeaderBytes = 34;

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

/// Checks the first bytes of PREFIX.idx against the file's size, before the rest is read. Throws Error(bad_data).
void check_index_head(std::span<const std::byte> head, std::uint64_t index_bytes, const std::string& prefix);

/// Parses and checks a whole PREFIX.idx beside a PREFIX.bin of `bin_bytes` bytes. Throws Error(bad_data).
IndexedLayout parse_index(std::span<const std::byte> index, const std::string& prefix, std::uint64_t bin_bytes,
                          bool allow_unused_bytes);

/// The number of the document that holds a token of the stream, empty documents counted, in an index that `parse_index`
/// accepts. -1: in none.
std::int64_t find_document(std::span<const std::byte> index, std::int64_t token);

}  // namespace trireme::data
