#pragma once

#include <cstdint>
#include <vector>

#include "model/gpt.h"

namespace trireme::model {

struct Sampling {
  double temperature = 1;  ///< 0: the most likely token
  std::int64_t top_k = 0;  ///< 0: all
  double top_p = 1;        ///< smallest set of tokens with this probability
  std::uint64_t seed = 1234;
};

/// Draws from the first `limit` logits. `draw` is a uniform number in [0, 1).
std::int32_t sample_token(std::span<const float> logits, const Sampling& sampling, double draw);

/// Writes text with a model, one token at a time, with cached keys and values. When the context is full, generation
/// goes on from its second half.
class Generator {
 public:
  /// Ids at or above `usable_ids` (rows no tokenizer knows) are never drawn.
  Generator(Gpt& gpt, std::int64_t usable_ids);
  /// Starts again from `prompt` (at least one id).
  void start(std::span<const std::int32_t> prompt, const Sampling& sampling);
  std::int32_t next();
  /// Logits of the next token after the last `start` or `next`; [v].
  std::span<const float> next_logits() const { return logits_; }

 private:
  void feed(std::int32_t id);
  void refill();
  struct Cache {
    core::Tensor keys, values;  // [s, g d]
  };
  Gpt& gpt_;
  std::int64_t usable_ids_;
  core::Arena arena_;
  std::vector<Cache> caches_;
  std::vector<std::int32_t> context_;
  std::vector<float> logits_;
  Sampling sampling_;
  std::uint64_t drawn_ = 0;
};

}  // namespace trireme::model
