#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/documents.h"
#include "data/tokenizer/pattern.h"

namespace trireme::data {

inline constexpr std::int64_t kMinimumTrainedVocabulary = 257;  // the bytes and <|endoftext|>

struct TrainOptions {
  std::int64_t vocabulary = 0;  ///< wanted ids, with the 256 bytes and <|endoftext|>, which takes the last
  Pattern pattern = Pattern::gpt2;
  DocumentOptions documents;
  int threads = 1;
  /// What is being done, and how much of it is done; may throw to stop.
  std::function<void(std::string_view stage, std::uint64_t done, std::uint64_t total)> progress;
};

struct TrainedTokenizer {
  std::string json;             ///< tokenizer.json
  std::int64_t vocabulary = 0;  ///< ids; fewer than wanted when no pair occurs twice any more
  std::int64_t documents = 0;
};

/// Byte-level BPE: repeatedly merges the most frequent pair inside pieces, ties to the smaller (left id, right id),
/// while it occurs twice or more. Depends on the texts alone, not on their order or on threads.
TrainedTokenizer train_bpe(const std::vector<std::filesystem::path>& inputs, const TrainOptions& options);

/// One id for each distinct code point, ascending; bytes that are not UTF-8 are an error or replaced.
TrainedTokenizer train_characters(const std::vector<std::filesystem::path>& inputs, const TrainOptions& options);

}  // namespace trireme::data
