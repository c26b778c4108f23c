#pragma once

#include "model/ops/dropout.h"
#include "model/ops/embedding.h"

namespace trireme::model {

/// One micro-batch on its way through the model: T = s b tokens, activations [s, b, ...].
struct MicroBatch {
  TokenIds ids;
  const std::int32_t* targets = nullptr;  ///< [b, s], -1: not counted
  Dropout dropout;                        ///< rate 0 in evaluation

  std::int64_t tokens() const { return ids.s * ids.b; }
};

/// What a training pass keeps of a block for its backward pass.
enum class Recompute {
  none,       ///< everything
  selective,  ///< not the outputs of norms and activation functions: computed again from their inputs
  full,       ///< the block's input alone: its forward pass runs again
};

}  // namespace trireme::model
