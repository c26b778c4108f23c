#pragma once

#include "core/tensor.h"
#include "model/ops/attention.h"

namespace trireme::model {

inline void check_attention(const AttentionShape& shape, const core::Tensor& qkv, const core::Tensor& out,
                            const core::Tensor& lse) {
  core::check(shape.s > 0 && shape.b > 0 && shape.g > 0 && shape.d > 0 && shape.a > 0 && shape.a % shape.g == 0,
              "attention: s {} b {} a {} g {} d {}", shape.s, shape.b, shape.a, shape.g, shape.d);
  const core::Shape packed{shape.s, shape.b, shape.row()}, heads{shape.s, shape.b, shape.a * shape.d};
  core::check(qkv.shape == packed && out.shape == heads && out.dtype == qkv.dtype, "attention: qkv {}, out {}",
              qkv.shape.text(), out.shape.text());
  core::check(lse.elements() == shape.b * shape.a * shape.s && lse.dtype == accumulate_dtype(qkv.dtype),
              "attention: log-sum-exp {} {}", name_of(lse.dtype), lse.shape.text());
}

/// Calls body with a value of the compute type.
template <class Body>
void with_compute_type(core::DType dtype, const Body& body) {
  switch (dtype) {
    case core::DType::bf16:
      return body(core::bf16());
    case core::DType::f64:
      return body(double());
    case core::DType::f32:
      return body(float());
    default:
      core::fail(core::ExitCode::internal, "attention of {}", name_of(dtype));
  }
}

/// Parts of `attention_scratch_bytes`.
std::size_t attention_forward_bytes(const AttentionShape& shape, core::DType dtype);
std::size_t attention_backward_bytes(const AttentionShape& shape, core::DType dtype);

}  // namespace trireme::model
