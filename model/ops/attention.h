#pragma once

#include "core/memory.h"
#include "core/tensor.h"
#include "model/ops/context.h"
#include "model/ops/dropout.h"

namespace trireme::model {

/// Causal attention with grouped heads: query head i uses key/value head i div (a / g). Score scale 1 / sqrt(d).
struct AttentionShape {
  std::int64_t s = 0, b = 0, a = 0, g = 0, d = 0;
  std::int64_t row() const { return (a + 2 * g) * d; }
};

/// out [s, b, a d] and log-sum-exp lse [b, a, s] (accumulate dtype) from qkv [s, b, (a + 2g) d] (query heads, then key
/// heads, then value heads). `document_start` [b, s] (null: none) is the first position a token may look at. Never
/// holds an [s, s] matrix. Dropout acts on probabilities: token = query position, channel = head 2^22 + key (that is
/// counter word 0 = head 2^20 + key div 4). `scratch` gives working memory; what is needed is
/// `attention_scratch_bytes`.
void attention_forward(Context& context, const AttentionShape& shape, const core::Tensor& qkv,
                       const std::int32_t* document_start, const Dropout& dropout, const core::Tensor& out,
                       const core::Tensor& lse, core::Arena& scratch);

/// dqkv [s, b, (a + 2g) d] (overwritten; must not alias qkv) from what the forward read and wrote, and dout [s, b, a
/// d]. The order of additions does not depend on the number of threads.
struct AttentionSaved {
  core::Tensor qkv, out, lse;
};
void attention_backward(Context& context, const AttentionShape& shape, const AttentionSaved& saved,
                        const core::Tensor& dout, const std::int32_t* document_start, const Dropout& dropout,
                        const core::Tensor& dqkv, core::Arena& scratch);

/// Working memory of forward and backward, in bytes, for `core::thread_count()` threads.
std::size_t attention_scratch_bytes(const AttentionShape& shape, core::DType dtype);

}  // namespace trireme::model
