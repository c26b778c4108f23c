#pragma once

#include <cstddef>
#include <cstdint>

// Shards of llm.c: a header of 256 int32 (magic, version, tokens), then the tokens.
namespace trireme::data {

inline constexpr std::size_t kLlmcHeaderWords = 256;
inline constexpr std::size_t kLlmcHeaderBytes = 4 * kLlmcHeaderWords;
inline constexpr std::size_t kLlmcCountOffset = 8;  // bytes
/// Vocabularies above this size are stored in four bytes a token.
inline constexpr std::int64_t kLlmcWideVocabulary = 65536;
inline constexpr std::int32_t kLlmcMagicU16 = 20240520;
inline constexpr std::int32_t kLlmcVersionU16 = 1;
inline constexpr std::int32_t kLlmcMagicU32 = 20240801;
inline constexpr std::int32_t kLlmcVersionU32 = 7;

}  // namespace trireme::data
