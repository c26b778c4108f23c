#include "core/tensor.h"

namespace trireme::core {

Shape::Shape(std::initializer_list<std::int64_t> extents) : rank_(static_cast<int>(extents.size())) {
  check(extents.size() <= extents_.size(), "shape of {} axes, at most 4", extents.size());
  std::size_t axis = 0;
  for (const std::int64_t extent : extents) {
    check(extent >= 0, "negative extent {}", extent);
    extents_[axis++] = extent;
  }
}

std::int64_t Shape::elements() const {
  std::int64_t product = 1;
  for (int axis = 0; axis < rank_; ++axis)
    check(!__builtin_mul_overflow(product, (*this)[axis], &product), "shape {} has too many elements", text());
  return product;
}

std::string Shape::text() const {
  std::string out = "[";
  for (int axis = 0; axis < rank_; ++axis) out += fmt::format("{}{}", axis ? ", " : "", (*this)[axis]);
  return out + "]";
}

Tensor Tensor::rows(std::int64_t begin, std::int64_t count) const {
  check(shape.rank() >= 1 && begin >= 0 && count >= 0 && begin + count <= shape[0], "rows {}+{} of {}", begin, count,
        shape.text());
  const std::int64_t row = shape[0] ? shape.elements() / shape[0] : 0;
  Shape part;
  switch (shape.rank()) {
    case 1:
      part = {count};
      break;
    case 2:
      part = {count, shape[1]};
      break;
    case 3:
      part = {count, shape[1], shape[2]};
      break;
    default:
      part = {count, shape[1], shape[2], shape[3]};
  }
  return {static_cast<char*>(data) + static_cast<std::size_t>(begin * row) * size_of(dtype), dtype, part};
}

Tensor Tensor::reshaped(Shape to) const {
  check(to.elements() == elements(), "cannot view {} as {}", shape.text(), to.text());
  return {data, dtype, to};
}

}  // namespace trireme::core
