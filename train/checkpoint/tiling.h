#pragma once

#include <span>
#include <string>

#include "train/checkpoint/checkpoint.h"

namespace trireme::train {

/// Product of extents. Throws Error(no_checkpoint) naming `place` when it does not fit 62 bits.
std::int64_t checked_elements(std::span<const std::int64_t> extents, const std::string& place);

/// Every element of a tensor of `shape` (at least one a dimension) lies in exactly one chunk, and no chunk is empty.
/// Throws Error(no_checkpoint) naming `place`. Time is n log n in the number of chunks, whatever they are.
void check_tiling(std::span<const std::int64_t> shape, std::span<const StoredChunk> chunks, const std::string& place);

}  // namespace trireme::train
