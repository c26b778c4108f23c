#pragma once

#include <cstdint>

#include "core/random.h"
#include "core/tensor.h"

namespace trireme::model {

/// Dropout of one site in one micro-batch. An element's fate depends on (seed, site, sample's position in the run,
/// token position in the sample, channel) alone: Philox4x32-10 with tag "drop" and counter (channel div 4, token, low
/// 32 bits of q, site + 2^16 x bits 32-47 of q), word channel mod 4; dropped if word < floor(rate 2^32), else times 1 /
/// (1 - rate).
struct Dropout {
  double rate = 0;
  std::uint64_t seed = 0;
  std::int64_t first_position = 0;  ///< q of the micro-batch's first sample; sample i has q + i
  std::uint32_t site = 0;           ///< 0 embedding; 1 + 3 l + {0 probabilities, 1 attention output, 2 MLP output}

  bool active() const { return rate > 0; }
  Dropout at(std::uint32_t other_site) const {
    Dropout copy = *this;
    copy.site = other_site;
    return copy;
  }
  std::uint32_t threshold() const { return static_cast<std::uint32_t>(rate * 4294967296.0); }
  /// The four words for channels 4 `group` ... 4 group + 3 of a token of sample `sample` of the micro-batch.
  core::PhiloxWords words(std::uint32_t group, std::uint32_t token, std::int64_t sample) const {
    const auto q = static_cast<std::uint64_t>(first_position + sample);
    return core::RandomKey(seed, core::kTagDropout)(
        {group, token, static_cast<std::uint32_t>(q), site + static_cast<std::uint32_t>((q >> 32) << 16)});
  }
};

/// out = residual + dropout(branch), all [s, b, h]; out may be residual or branch.
void add_residual(const Dropout& dropout, const core::Tensor& residual, const core::Tensor& branch,
                  const core::Tensor& out);

/// dx = dropout(dy) with the same elements dropped and the same scale, [s, b, h]; in place when dx is dy. Also the
/// forward of a plain dropout.
void apply_dropout(const Dropout& dropout, const core::Tensor& dy, const core::Tensor& dx);

}  // namespace trireme::model
