#pragma once

#include "model/ops/dropout.h"
#include "model/ops/vector_math.h"

namespace trireme::model {

/// Calls element(channel, factor) for the h channels of token `s` of sample `b`; factor is 0 or 1 / (1 - rate), 1
/// without dropout.
template <class Element>
void drop_row(const Dropout& dropout, std::int64_t s, std::int64_t b, std::int64_t h, const Element& element) {
  const std::uint32_t threshold = dropout.threshold();
  const double kept = 1 / (1 - dropout.rate);
  for (std::int64_t i = 0; i < h; i += 4) {
    const auto words = dropout.words(static_cast<std::uint32_t>(i / 4), static_cast<std::uint32_t>(s), b);
    for (std::int64_t j = 0; j < 4 && i + j < h; ++j)
      element(i + j, words[static_cast<std::size_t>(j)] < threshold ? 0 : kept);
  }
}

}  // namespace trireme::model
