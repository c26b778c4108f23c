#include "train/checkpoint/tiling.h"

#include <algorithm>

namespace trireme::train {

using core::ExitCode;

namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 58;

void check_inside(std::span<const std::int64_t> shape, const StoredChunk& chunk, const std::string& place) {
  core::require(chunk.offset.size() == shape.size() && chunk.extent.size() == shape.size(), ExitCode::no_checkpoint,
                "{}: a chunk of rank {}, the tensor has {}", place, chunk.extent.size(), shape.size());
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    core::require(chunk.extent[axis] >= 1, ExitCode::no_checkpoint, "{}: a chunk is empty", place);
    core::require(chunk.extent[axis] <= shape[axis] && chunk.offset[axis] <= shape[axis] - chunk.extent[axis],
                  ExitCode::no_checkpoint, "{}: a chunk reaches outside the tensor", place);
  }
}

/// Numbers of a rectangle's corners in the lattice [shape + 1], parted by sign: a corner's sign is that of the number
/// of upper coordinates. A sum of indicator functions is known by the signed sum of the corners, so rectangles tile a
/// box exactly when their corners cancel to those of the box.
struct Corners {
  std::vector<std::uint64_t> positive, negative;

  void add(std::span<const std::int64_t> shape, std::span<const std::int64_t> offset,
           std::span<const std::int64_t> extent) {
    for (std::size_t corner = 0; corner < std::size_t{1} << shape.size(); ++corner) {
      std::uint64_t number = 0;
      bool odd = false;
      for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        const bool upper = (corner >> axis & 1) != 0;
        odd ^= upper;
        number = number * static_cast<std::uint64_t>(shape[axis] + 1) +
                 static_cast<std::uint64_t>(offset[axis] + (upper ? extent[axis] : 0));
      }
      (odd ? negative : positive).push_back(number);
    }
  }
};

}  // namespace

std::int64_t checked_elements(std::span<const std::int64_t> extents, const std::string& place) {
  std::int64_t product = 1;
  for (const std::int64_t extent : extents)
    core::require(!__builtin_mul_overflow(product, extent, &product) && product <= kMostElements,
                  ExitCode::no_checkpoint, "{}: [{}] is too large", place, fmt::join(extents, ", "));
  return product;
}

void check_tiling(std::span<const std::int64_t> shape, std::span<const StoredChunk> chunks, const std::string& place) {
  for (const std::int64_t extent : shape)
    core::require(extent >= 1, ExitCode::no_checkpoint, "{}: shape [{}] is empty", place, fmt::join(shape, ", "));
  const std::int64_t elements = checked_elements(shape, place);
  std::int64_t held = 0;
  for (const StoredChunk& chunk : chunks) {
    check_inside(shape, chunk, place);
    held += checked_elements(chunk.extent, place);
    core::require(held <= elements, ExitCode::no_checkpoint, "{}: chunks overlap: more than its {} elements", place,
                  elements);
  }
  core::require(held == elements, ExitCode::no_checkpoint, "{}: chunks hold {} of {} elements", place, held, elements);
  Corners of_chunks, of_tensor;
  for (const StoredChunk& chunk : chunks) of_chunks.add(shape, chunk.offset, chunk.extent);
  of_tensor.add(shape, std::vector<std::int64_t>(shape.size(), 0), shape);
  auto& left = of_chunks.positive;
  auto& right = of_chunks.negative;
  left.insert(left.end(), of_tensor.negative.begin(), of_tensor.negative.end());
  right.insert(right.end(), of_tensor.positive.begin(), of_tensor.positive.end());
  std::sort(left.begin(), left.end());
  std::sort(right.begin(), right.end());
  core::require(left == right, ExitCode::no_checkpoint, "{}: chunks overlap and leave a gap", place);
}

}  // namespace trireme::train
