#pragma once

#include <cstdint>
#include <string>

#include "core/memory.h"
#include "core/tensor.h"

namespace trireme::bench {

/// Memory of a tensor with values between -1 and 1.
class BenchTensor {
 public:
  BenchTensor(core::DType dtype, core::Shape shape)
      : memory_(static_cast<std::size_t>(shape.elements()) * size_of(dtype), "benchmark"),
        tensor_{memory_.data(), dtype, shape} {
    if (dtype == core::DType::bf16)
      fill(tensor_.as<core::bf16>());
    else if (dtype == core::DType::f64)
      fill(tensor_.as<double>());
    else
      fill(tensor_.as<float>());
  }
  const core::Tensor& operator*() const { return tensor_; }

 private:
  template <class T>
  void fill(T* values) {
    std::uint32_t state = 1;
    for (std::int64_t i = 0, n = tensor_.elements(); i < n; ++i) {
      state = state * 1664525u + 1013904223u;
      values[i] = T(static_cast<float>(state >> 8) / (1 << 23) - 1);
    }
  }

  core::Buffer memory_;
  core::Tensor tensor_;
};

inline core::DType dtype_at(std::int64_t index) { return index ? core::DType::bf16 : core::DType::f32; }

}  // namespace trireme::bench
