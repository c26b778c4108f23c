#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "core/dtype.h"
#include "core/error.h"

namespace trireme::core {

/// Up to four extents, outermost first.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents);
  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return extents_[static_cast<std::size_t>(axis)]; }
  std::int64_t last() const { return rank_ ? (*this)[rank_ - 1] : 1; }
  std::int64_t elements() const;
  std::int64_t rows() const { return last() ? elements() / last() : 0; }  ///< product of all but the last extent
  bool operator==(const Shape&) const = default;
  std::string text() const;  ///< "[2, 3]"

 private:
  std::array<std::int64_t, 4> extents_{};
  int rank_ = 0;
};

/// Non-owning view of contiguous row-major memory. An empty tensor (data == nullptr) stands for "absent".
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;

  explicit operator bool() const { return data != nullptr; }
  std::int64_t elements() const { return shape.elements(); }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype); }

  template <class T>
  T* as() const {
    if (dtype != dtype_of<T>)  // not check(): the text would be made each time
      fail(ExitCode::internal, "tensor {} is {}, not {}", shape.text(), name_of(dtype), name_of(dtype_of<T>));
    return static_cast<T*>(data);
  }
  /// Rows [begin, begin + count) of the first axis.
  Tensor rows(std::int64_t begin, std::int64_t count) const;
  /// Same memory, other extents.
  Tensor reshaped(Shape to) const;
};

template <class T>
Tensor view(T* data, Shape shape) {
  return {const_cast<std::remove_const_t<T>*>(data), dtype_of<std::remove_const_t<T>>, shape};
}

}  // namespace trireme::core
