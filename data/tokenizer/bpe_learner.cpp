#include "data/tokenizer/bpe_learner.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/pair_map.h"

namespace trireme::data {

namespace {
using Symbol = std::uint32_t;
constexpr std::int64_t kMinimumCount = 2;

struct Word {
  std::size_t begin;
  std::uint32_t length;
  std::int64_t count;
};

struct Pair {
  PairMap::Key key;
  std::int64_t count = 0;
  std::vector<std::uint32_t> words;  // where it occurs or did occur; the same may stand there twice
};

// The most frequent pair first, of equals the smaller one.
struct Candidate {
  std::int64_t count;
  PairMap::Key key;
  bool operator<(const Candidate& other) const { return count != other.count ? count < other.count : key > other.key; }
};

class Learner {
 public:
  Learner(const std::vector<CountedPiece>& pieces, TokenizerDefinition& into);
  void learn(std::int64_t size, const std::function<void(std::int64_t)>& progress);

 private:
  void add_word(const CountedPiece& piece, const std::array<Symbol, 256>& symbols);
  void change(Symbol left, Symbol right, std::int64_t by, std::uint32_t word);
  std::uint32_t take_best();
  Symbol add_symbol(Symbol left, Symbol right);
  void merge_everywhere(std::uint32_t pair, Symbol result);
  void merge_in_word(std::uint32_t word, PairMap::Key key, Symbol result);
  void push(const Pair& pair);
  void drop_repeated_merges();

  TokenizerDefinition& definition_;
  std::unordered_map<std::string, Symbol> names_;
  std::vector<Symbol> symbols_;
  std::vector<Word> words_;
  PairMap numbers_;
  std::vector<Pair> pairs_;
  std::vector<Candidate> heap_;
  std::vector<std::uint32_t> risen_;  // pairs that became more frequent in this merge
};

std::array<Symbol, 256> symbols_in_code_point_order() {
  std::array<Symbol, 256> bytes{};
  std::iota(bytes.begin(), bytes.end(), Symbol{0});
  std::sort(bytes.begin(), bytes.end(), [](Symbol a, Symbol b) { return byte_alphabet()[a] < byte_alphabet()[b]; });
  return bytes;
}

Learner::Learner(const std::vector<CountedPiece>& pieces, TokenizerDefinition& into) : definition_(into) {
  const std::array<Symbol, 256> bytes = symbols_in_code_point_order();
  std::array<Symbol, 256> symbols{};
  for (Symbol symbol = 0; symbol < 256; ++symbol) {
    symbols[bytes[symbol]] = symbol;
    std::string name = name_of_bytes(std::string(1, static_cast<char>(bytes[symbol])));
    names_.emplace(name, symbol);
    definition_.vocabulary.push_back({std::move(name), static_cast<std::int32_t>(symbol)});
  }
  for (const CountedPiece& piece : pieces) add_word(piece, symbols);
  risen_.clear();
  for (const Pair& pair : pairs_)
    if (pair.count >= kMinimumCount) heap_.push_back({pair.count, pair.key});
  std::make_heap(heap_.begin(), heap_.end());
}

void Learner::add_word(const CountedPiece& piece, const std::array<Symbol, 256>& symbols) {
  const auto word = static_cast<std::uint32_t>(words_.size());
  words_.push_back({symbols_.size(), static_cast<std::uint32_t>(piece.bytes.size()), piece.count});
  for (std::size_t i = 0; i < piece.bytes.size(); ++i) {
    symbols_.push_back(symbols[static_cast<unsigned char>(piece.bytes[i])]);
    if (i > 0) change(symbols_[symbols_.size() - 2], symbols_.back(), piece.count, word);
  }
}

void Learner::change(Symbol left, Symbol right, std::int64_t by, std::uint32_t word) {
  const PairMap::Key key = PairMap::key_of(left, right);
  const std::uint32_t number = numbers_.at_or_add(key, static_cast<std::uint32_t>(pairs_.size()));
  if (number == pairs_.size()) pairs_.push_back({key});
  Pair& pair = pairs_[number];
  pair.count += by;
  if (by < 0) return;
  if (pair.words.empty() || pair.words.back() != word) pair.words.push_back(word);
  risen_.push_back(number);
}

void Learner::push(const Pair& pair) {
  if (pair.count < kMinimumCount) return;
  heap_.push_back({pair.count, pair.key});
  std::push_heap(heap_.begin(), heap_.end());
}

// A pair whose count fell since it was pushed goes back with its count of now.
std::uint32_t Learner::take_best() {
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end());
    const Candidate best = heap_.back();
    heap_.pop_back();
    const std::uint32_t number = numbers_.find(best.key);
    if (pairs_[number].count == best.count) return number;
    if (pairs_[number].count < best.count) push(pairs_[number]);
  }
  return PairMap::kNone;
}

// Two ways to spell a token make two merges and one symbol.
Symbol Learner::add_symbol(Symbol left, Symbol right) {
  std::string name = definition_.vocabulary[left].name + definition_.vocabulary[right].name;
  const auto [entry, added] = names_.try_emplace(name, static_cast<Symbol>(definition_.vocabulary.size()));
  if (added) definition_.vocabulary.push_back({std::move(name), static_cast<std::int32_t>(entry->second)});
  return entry->second;
}

void Learner::merge_in_word(std::uint32_t word, PairMap::Key key, Symbol result) {
  const auto left = static_cast<Symbol>(key >> 32);
  const auto right = static_cast<Symbol>(key);
  Symbol* symbols = symbols_.data() + words_[word].begin;
  const std::uint32_t length = words_[word].length;
  const std::int64_t count = words_[word].count;
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < length; ++i) {
    if (i + 1 == length || symbols[i] != left || symbols[i + 1] != right) {
      symbols[kept++] = symbols[i];
      continue;
    }
    if (kept > 0) {
      change(symbols[kept - 1], left, -count, word);
      change(symbols[kept - 1], result, count, word);
    }
    if (i + 2 < length) {
      change(right, symbols[i + 2], -count, word);
      change(result, symbols[i + 2], count, word);
    }
    symbols[kept++] = result;
    ++i;
  }
  words_[word].length = kept;
}

void Learner::merge_everywhere(std::uint32_t pair, Symbol result) {
  const PairMap::Key key = pairs_[pair].key;
  const std::vector<std::uint32_t> words = std::exchange(pairs_[pair].words, {});
  risen_.clear();
  for (const std::uint32_t word : words) merge_in_word(word, key, result);
  pairs_[pair].count = 0;
  pairs_[pair].words.clear();
  std::sort(risen_.begin(), risen_.end());
  risen_.erase(std::unique(risen_.begin(), risen_.end()), risen_.end());
  for (const std::uint32_t number : risen_) push(pairs_[number]);
}

void Learner::learn(std::int64_t size, const std::function<void(std::int64_t)>& progress) {
  while (static_cast<std::int64_t>(definition_.vocabulary.size()) < size) {
    const std::uint32_t best = take_best();
    if (best == PairMap::kNone) break;
    const PairMap::Key key = pairs_[best].key;
    const auto left = static_cast<Symbol>(key >> 32);
    const auto right = static_cast<Symbol>(key);
    const Symbol result = add_symbol(left, right);
    definition_.merges.push_back({left, right, result});
    merge_everywhere(best, result);
    if (progress) progress(static_cast<std::int64_t>(definition_.vocabulary.size()));
  }
  drop_repeated_merges();
}

// A pair can come back once its symbols are made in a second way; its last rank counts.
void Learner::drop_repeated_merges() {
  std::unordered_set<PairMap::Key> seen;
  std::vector<Merge> kept;
  for (auto merge = definition_.merges.rbegin(); merge != definition_.merges.rend(); ++merge)
    if (seen.insert(PairMap::key_of(merge->left, merge->right)).second) kept.push_back(*merge);
  definition_.merges.assign(kept.rbegin(), kept.rend());
}
}  // namespace

void learn_bpe(const std::vector<CountedPiece>& pieces, std::int64_t size, TokenizerDefinition& into,
               const std::function<void(std::int64_t)>& progress) {
  Learner(pieces, into).learn(size, progress);
}

}  // namespace trireme::data
