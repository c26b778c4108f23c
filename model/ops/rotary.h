#pragma once

#include "core/tensor.h"
#include "model/ops/attention.h"

// Rotary positions (Su et al. 2021), rotate-half: element i pairs with i + d/2, angle position theta^(-2i/d).
namespace trireme::model {

/// table [s, d]: cosines in the first d/2 columns, sines in the rest, accumulate dtype; computed in double.
void rotary_table(double theta, const core::Tensor& table);

/// Rotates the query and key heads of qkv [s, b, (a + 2g) d] in place; position restarts at `document_start` [b, s]
/// where given.
void rotary_forward(const AttentionShape& shape, const core::Tensor& table, const std::int32_t* document_start,
                    const core::Tensor& qkv);
/// Rotates the gradient back, in place.
void rotary_backward(const AttentionShape& shape, const core::Tensor& table, const std::int32_t* document_start,
                     const core::Tensor& dqkv);

}  // namespace trireme::model
