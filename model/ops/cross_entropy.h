#pragma once

#include "core/tensor.h"

namespace trireme::model {

/// Losses [T] (accumulate dtype) of logits [T, columns >= v] for targets [T] (-1: not counted, loss 0). Columns >= v
/// take no part. With `gradient` the logits are replaced by softmax - one-hot (0 in rows not counted and in columns >=
/// v).
void cross_entropy(const core::Tensor& logits, std::int64_t v, const std::int32_t* targets, bool gradient,
                   const core::Tensor& losses);

}  // namespace trireme::model
