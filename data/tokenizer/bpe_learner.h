#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizer/definition.h"

namespace trireme::data {

struct CountedPiece {
  std::string bytes;
  std::int64_t count = 0;
};

/// Vocabulary (256 bytes in code-point order of the alphabet, then what merging adds) of at most `size` entries, and
/// the merges by rank. `progress(entries)` is called after each merge.
void learn_bpe(const std::vector<CountedPiece>& pieces, std::int64_t size, TokenizerDefinition& into,
               const std::function<void(std::int64_t)>& progress);

}  // namespace trireme::data
