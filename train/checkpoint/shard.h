#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "train/checkpoint/checkpoint.h"

// Shards: HDF5 files of contiguous datasets /STATE/TENSOR/K. All calls come from one thread.
namespace trireme::train {

/// Root attributes of a shard.
struct ShardIdentity {
  std::string run_id, nonce;
  std::int64_t step = 0, shard = 0, shards = 1;
};

/// Writes the chunks and closes the file, every return code checked; then opens it without HDF5, fsyncs and reads it
/// back: each chunk's checksum at its offset, and the structure through HDF5. Returns the chunks in order with `at` and
/// `crc32c`. Throws Error(storage); a non-finite chunk is refused before anything is written.
std::vector<StoredChunk> write_shard(const std::filesystem::path& path, const ShardIdentity& identity,
                                     std::span<const StateChunk> chunks);

/// What a shard must hold.
struct ExpectedDataset {
  std::string path;  ///< /STATE/TENSOR/K
  core::DType dtype = core::DType::f32;
  std::vector<std::int64_t> extent;
  std::uint64_t at = 0;
};
std::string dataset_path(const std::string& state, const std::string& tensor, std::size_t chunk);

/// Opens a shard with HDF5 and compares: exactly these datasets, hard links, contiguous, not external, of exact type,
/// extent and place. Throws Error(code) naming file and dataset.
void check_structure(const std::filesystem::path& path, std::span<const ExpectedDataset> expected, core::ExitCode code);

/// `model.h5`: virtual datasets /STATE/TENSOR of global shape over the shards, for people. Throws Error(storage).
void write_view(const std::filesystem::path& directory, const Manifest& manifest);

}  // namespace trireme::train
