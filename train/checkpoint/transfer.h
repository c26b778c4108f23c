#pragma once

#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/directory_file.h"

namespace trireme::train {

/// Copies what a wanted rectangle and a stored chunk share from the shard into its place, through a buffer of a few MiB
/// at most. Nothing happens when they share nothing. With `convert` fp32 is widened to fp64, fp64 narrowed to fp32;
/// false when a value did not survive that.
bool transfer(const DirectoryFile& shard, core::DType stored_type, const StoredChunk& stored, StateChunk& wanted);

}  // namespace trireme::train
