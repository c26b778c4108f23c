#include "data/sample_order.h"

#include <algorithm>

#include "core/error.h"
#include "core/random.h"

namespace trireme::data {

std::int64_t permute(std::uint64_t seed, std::uint32_t epoch, std::uint32_t corpus, std::int64_t n,
                     std::int64_t index) {
  core::check(index >= 0 && index < n && n <= (std::int64_t{1} << 62), "sample {} of {}", index, n);
  int half = 1;
  while ((std::int64_t{1} << (2 * half)) < n) ++half;
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  const core::RandomKey key(seed, core::kTagData);
  auto x = static_cast<std::uint64_t>(index);
  do {
    std::uint64_t a = x >> half, b = x & mask;
    for (std::uint32_t round = 0; round < 8; ++round) {
      const std::uint64_t f = key({static_cast<std::uint32_t>(b), round, epoch, corpus})[0] & mask;
      const std::uint64_t next = a ^ f;
      a = b;
      b = next;
    }
    x = (a << half) | b;
  } while (x >= static_cast<std::uint64_t>(n));
  return static_cast<std::int64_t>(x);
}

std::vector<double> shares_of(const std::vector<double>& weights) {
  double sum = 0;
  for (const double weight : weights) sum += weight;
  std::vector<double> shares(weights);
  for (double& share : shares) share /= sum;
  return shares;
}

Blend::Blend(const std::vector<double>& weights) : shares_(shares_of(weights)), counts_(weights.size(), 0) {
  core::check(!weights.empty(), "a blend of no corpus");
}

std::size_t Blend::next() {
  const auto q = static_cast<double>(std::max<std::int64_t>(position_, 1));
  std::size_t best = 0;
  double largest = 0;
  for (std::size_t c = 0; c < shares_.size(); ++c) {
    // A volatile product keeps the compiler from fusing it with the subtraction: the order must not depend on it.
    const volatile double due = shares_[c] * q;
    const double behind = due - static_cast<double>(counts_[c]);
    if (c == 0 || behind > largest) {
      best = c;
      largest = behind;
    }
  }
  ++counts_[best];
  ++position_;
  return best;
}

void Blend::advance_to(std::int64_t position) {
  core::check(position >= position_, "blend at {} cannot go back to {}", position_, position);
  if (shares_.size() == 1) {
    counts_[0] = position_ = position;
    return;
  }
  while (position_ < position) next();
}

}  // namespace trireme::data
