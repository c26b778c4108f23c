#include "data/tokenizer/merger.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "data/tokenizer/byte_alphabet.h"

namespace trireme::data {

namespace {
// Above, a heap is quicker than looking at every pair again.
constexpr std::size_t kShort = 48;
}  // namespace

Merger::Merger(const TokenizerDefinition& definition) : ranks_(definition.merges.size()) {
  bytes_.fill(kNone);
  for (std::uint32_t symbol = 0; symbol < definition.vocabulary.size(); ++symbol) {
    const VocabularyEntry& entry = definition.vocabulary[symbol];
    ids_.push_back(entry.id);
    if (entry.name.size() > 2 && !definition.ignore_merges) continue;
    std::optional<std::string> bytes = bytes_of_name(entry.name);
    if (!bytes || bytes->empty()) continue;
    if (bytes->size() == 1) bytes_[static_cast<unsigned char>(bytes->front())] = symbol;
    if (definition.ignore_merges) {
      longest_ = std::max(longest_, bytes->size());
      whole_.emplace(std::move(*bytes), symbol);
    }
  }
  for (std::uint32_t rank = 0; rank < definition.merges.size(); ++rank) {
    const Merge& merge = definition.merges[rank];
    // A merge that is listed twice has its later rank, as with Hugging Face.
    ranks_.at_or_add(PairMap::key_of(merge.left, merge.right), rank) = rank;
    results_.push_back(merge.result);
  }
}

std::size_t Merger::append(std::string_view piece, std::vector<std::int32_t>& ids, Scratch& scratch) const {
  if (!whole_.empty() && piece.size() <= longest_) {
    if (const auto found = whole_.find(std::string(piece)); found != whole_.end()) {
      ids.push_back(ids_[found->second]);
      return kAllKnown;
    }
  }
  scratch.symbols.clear();
  for (std::size_t i = 0; i < piece.size(); ++i) {
    const std::uint32_t symbol = bytes_[static_cast<unsigned char>(piece[i])];
    if (symbol == kNone) return i;
    scratch.symbols.push_back(symbol);
  }
  if (piece.size() <= kShort)
    merge_short(scratch);
  else
    merge_long(scratch);
  for (const std::uint32_t symbol : scratch.symbols) ids.push_back(ids_[symbol]);
  return kAllKnown;
}

void Merger::merge_short(Scratch& scratch) const {
  std::vector<std::uint32_t>& symbols = scratch.symbols;
  std::array<std::uint32_t, kShort> ranks;  // of the pair that starts at each symbol
  std::size_t count = symbols.size();
  for (std::size_t i = 0; i + 1 < count; ++i) ranks[i] = rank_of(symbols[i], symbols[i + 1]);
  while (count > 1) {
    const std::size_t best = static_cast<std::size_t>(
        std::min_element(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(count - 1)) - ranks.begin());
    if (ranks[best] == kNone) break;
    symbols[best] = results_[ranks[best]];
    for (std::size_t i = best + 1; i + 1 < count; ++i) symbols[i] = symbols[i + 1];
    for (std::size_t i = best + 1; i + 2 < count; ++i) ranks[i] = ranks[i + 1];
    --count;
    if (best > 0) ranks[best - 1] = rank_of(symbols[best - 1], symbols[best]);
    if (best + 1 < count) ranks[best] = rank_of(symbols[best], symbols[best + 1]);
  }
  symbols.resize(count);
}

// A linked list of symbols and a heap of (rank, position); an entry whose pair has changed since is dropped.
void Merger::merge_long(Scratch& scratch) const {
  std::vector<std::uint32_t>& symbols = scratch.symbols;
  const auto count = static_cast<std::uint32_t>(symbols.size());
  scratch.next.resize(count);
  scratch.previous.resize(count);
  scratch.ranks.assign(count, kNone);
  scratch.heap.clear();
  const auto consider = [&](std::uint32_t left, std::uint32_t right) {
    const std::uint32_t rank = rank_of(symbols[left], symbols[right]);
    scratch.ranks[left] = rank;
    if (rank == kNone) return;
    scratch.heap.push_back(std::uint64_t{rank} << 32 | left);
    std::push_heap(scratch.heap.begin(), scratch.heap.end(), std::greater<>());
  };
  for (std::uint32_t i = 0; i < count; ++i) {
    scratch.next[i] = i + 1;
    scratch.previous[i] = i == 0 ? kNone : i - 1;
    if (i + 1 < count) consider(i, i + 1);
  }
  while (!scratch.heap.empty()) {
    std::pop_heap(scratch.heap.begin(), scratch.heap.end(), std::greater<>());
    const std::uint64_t entry = scratch.heap.back();
    scratch.heap.pop_back();
    const auto left = static_cast<std::uint32_t>(entry);
    if (scratch.ranks[left] != entry >> 32) continue;
    const std::uint32_t right = scratch.next[left];
    symbols[left] = results_[entry >> 32];
    scratch.ranks[left] = scratch.ranks[right] = kNone;
    const std::uint32_t after = scratch.next[left] = scratch.next[right];
    if (after < count) {
      scratch.previous[after] = left;
      consider(left, after);
    }
    if (const std::uint32_t before = scratch.previous[left]; before != kNone) consider(before, left);
  }
  scratch.result.clear();
  for (std::uint32_t i = 0; i < count; i = scratch.next[i]) scratch.result.push_back(symbols[i]);
  symbols.swap(scratch.result);
}

}  // namespace trireme::data
