#pragma once

#include <cstdint>
#include <vector>

#include "core/memory.h"
#include "core/tensor.h"

namespace trireme::model {

/// A matrix read by strides, in elements; one of the two is 1.
struct Operand {
  const void* data = nullptr;
  core::DType dtype = core::DType::f32;
  std::int64_t row_stride = 0, column_stride = 1;
};

/// c [m, n] = or += a [m, k] b [k, n] + bias [n]; `row_sums` [m] += sums of the rows of a (accumulate dtype; column
/// sums of the transposed a).
struct PackedProduct {
  std::int64_t m = 0, n = 0, k = 0;
  Operand a, b;
  void* c = nullptr;
  core::DType c_dtype = core::DType::f32;
  std::int64_t c_pitch = 0;
  bool add = false;
  const void* bias = nullptr;  ///< dtype of a
  void* row_sums = nullptr;
};

/// Packing memory, kept between products and grown when a larger product comes.
class PackedWorkspace {
 public:
  void* shared(std::size_t bytes);
  void* sums(std::size_t bytes);
  void* own(std::size_t thread, std::size_t threads, std::size_t bytes);

 private:
  core::Buffer shared_, sums_;
  std::vector<core::Buffer> own_;
};

/// Blocked product with packed operands, in fp32 (fp64 for fp64 operands): bf16 is widened while packing, which is the
/// faster way wherever the processor has no matrix unit. The order of additions depends on k only.
void multiply_packed(PackedWorkspace& workspace, const PackedProduct& product);

}  // namespace trireme::model
