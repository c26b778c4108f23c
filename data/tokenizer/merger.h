#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/tokenizer/definition.h"
#include "data/tokenizer/pair_map.h"

namespace trireme::data {

/// The tokens of one piece: merges the adjacent pair of lowest rank, leftmost first, until none is left.
class Merger {
 public:
  explicit Merger(const TokenizerDefinition& definition);

  /// Working memory of one thread.
  struct Scratch {
    std::vector<std::uint32_t> symbols;
    std::vector<std::uint32_t> ranks;
    std::vector<std::uint32_t> next;
    std::vector<std::uint32_t> previous;
    std::vector<std::uint64_t> heap;
    std::vector<std::uint32_t> result;
  };

  static constexpr std::size_t kAllKnown = static_cast<std::size_t>(-1);
  /// Appends the ids of `piece` (not empty). Returns kAllKnown, or the position of the first byte that the vocabulary
  /// lacks; nothing is appended then.
  std::size_t append(std::string_view piece, std::vector<std::int32_t>& ids, Scratch& scratch) const;

 private:
  static constexpr std::uint32_t kNone = PairMap::kNone;
  void merge_short(Scratch& scratch) const;
  void merge_long(Scratch& scratch) const;
  std::uint32_t rank_of(std::uint32_t left, std::uint32_t right) const {
    return ranks_.find(PairMap::key_of(left, right));
  }

  // Symbols are positions in the vocabulary.
  std::vector<std::int32_t> ids_;
  std::array<std::uint32_t, 256> bytes_;
  PairMap ranks_;
  std::vector<std::uint32_t> results_;                    // by rank
  std::unordered_map<std::string, std::uint32_t> whole_;  // with ignore_merges: bytes of an entry -> symbol
  std::size_t longest_ = 0;
};

}  // namespace trireme::data
