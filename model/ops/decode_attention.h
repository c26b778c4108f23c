#pragma once

#include "core/tensor.h"
#include "model/ops/attention.h"

namespace trireme::model {

/// Attention of one new position: qkv [1, (a + 2g) d] against `length` cached positions, the new one's key and value
/// included. keys and values [capacity, g d]; out [1, a d].
void decode_attention(const AttentionShape& shape, const core::Tensor& qkv, const core::Tensor& keys,
                      const core::Tensor& values, std::int64_t length, const core::Tensor& out);

}  // namespace trireme::model
