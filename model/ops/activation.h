#pragma once

#include "core/tensor.h"

// GELU in its tanh form (Hendrycks and Gimpel 2016) and SwiGLU (Shazeer 2020).
namespace trireme::model {

/// y [T, f] = gelu(x [T, f]).
void gelu_forward(const core::Tensor& x, const core::Tensor& y);
/// dx = dy gelu'(x); dx may be dy.
void gelu_backward(const core::Tensor& x, const core::Tensor& dy, const core::Tensor& dx);

/// y [T, f] = silu(gate) up, from gate_up [T, 2f]: gate in the first f columns, up in the rest.
void swiglu_forward(const core::Tensor& gate_up, const core::Tensor& y);
/// dgate_up [T, 2f] from dy [T, f].
void swiglu_backward(const core::Tensor& gate_up, const core::Tensor& dy, const core::Tensor& dgate_up);

}  // namespace trireme::model
