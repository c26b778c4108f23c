#pragma once

#include "core/tensor.h"
#include "model/ops/dropout.h"

namespace trireme::model {

/// The ids of a micro-batch; host memory, row-major [b, s].
struct TokenIds {
  std::int64_t b = 0, s = 0;
  const std::int32_t* tokens = nullptr;
  const std::int32_t* document_start = nullptr;  ///< null: positions run 0 ... s - 1
};

/// out [s, b, h] = dropout(token_weight[id] + position_weight[position]); position_weight [p >= s, h] may be absent.
void embedding_forward(const TokenIds& ids, const core::Tensor& token_weight, const core::Tensor& position_weight,
                       const Dropout& dropout, const core::Tensor& out);

/// Adds to dtoken [v, h] and dposition [p, h] (accumulate dtype). The order of additions is fixed. With dropout, dout
/// is overwritten.
void embedding_backward(const TokenIds& ids, const core::Tensor& dout, const Dropout& dropout,
                        const core::Tensor& dtoken, const core::Tensor& dposition);

}  // namespace trireme::model
