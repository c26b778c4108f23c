#pragma once

#include <cstdint>
#include <vector>

namespace trireme::data {

/// Permutation of 0 ... n - 1 that belongs to (seed, epoch, corpus), element by element without a table: an eight-round
/// Feistel network on the smallest 4^m >= n with Philox as round function, walked until the value is below n.
std::int64_t permute(std::uint64_t seed, std::uint32_t epoch, std::uint32_t corpus, std::int64_t n, std::int64_t index);

/// Weights divided by their sum, added up in list order.
std::vector<double> shares_of(const std::vector<double>& weights);

/// Which corpus each position of the run draws from: the one that is furthest behind its share.
class Blend {
 public:
  explicit Blend(const std::vector<double>& weights);
  std::size_t next();
  std::int64_t position() const { return position_; }
  /// Draws so far, by corpus.
  const std::vector<std::int64_t>& counts() const { return counts_; }
  void advance_to(std::int64_t position);

 private:
  std::vector<double> shares_;
  std::vector<std::int64_t> counts_;
  std::int64_t position_ = 0;
};

}  // namespace trireme::data
