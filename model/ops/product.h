#pragma once

#include "core/tensor.h"
#include "model/ops/context.h"

// Matrix products of the model. T tokens, i inputs, o outputs. Row-major; x, w, y, dy, dx have the compute dtype (fp32,
// bf16 or fp64), dw and db the accumulate dtype (fp32, fp64 for fp64). Sums are formed in the accumulate dtype. A
// tensor's rows may be longer than the product needs (`columns`): the rest is neither read nor written.
namespace trireme::model {

/// y [T, o] = x [T, i] w [o, i]^T + bias [o] (bias may be absent). y may have more than o columns.
void linear_forward(Context& context, const core::Tensor& x, const core::Tensor& w, const core::Tensor& bias,
                    const core::Tensor& y);

/// dx [T, i] = dy [T, o] w [o, i]. dy may have more than o columns.
void linear_backward_input(Context& context, const core::Tensor& dy, const core::Tensor& w, const core::Tensor& dx);

/// dw [o, i] += dy [T, o]^T x [T, i]; db [o] += column sums of dy (db may be absent). dy may have more than o columns.
void linear_backward_weight(Context& context, const core::Tensor& dy, const core::Tensor& x, const core::Tensor& dw,
                            const core::Tensor& db);

/// FLOP/s of a large square product (2048), the best of about half a second: the peak that MFU is stated against.
double measure_product_rate(Context& context, core::DType dtype);

}  // namespace trireme::model
