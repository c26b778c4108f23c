#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checksum.h"

// Shards: HDF5 files of contiguous datasets /STATE/TENSOR/K. All calls come from one thread.
namespace trireme::train {

/// Root attributes of a shard.
struct ShardIdentity {
  std::string run_id, nonce;
  std::int64_t step = 0, shard = 0, shards = 1;
};

/// One chunk as a writer reports it: `tensor` without chunks and sums, and its number K in it.
struct ChunkReport {
  StoredTensor tensor;
  std::int64_t number = 0;
  StoredChunk chunk;
  ValueSums sums;
};

/// What one writer contributes to the manifest.
struct ShardReport {
  StoredFile file;
  std::vector<ChunkReport> chunks;
};

/// Sums the chunks, writes them and closes the file, every return code checked; then opens it without HDF5, fsyncs and
/// reads it back once: each chunk's checksum at its place, then the structure through HDF5. Throws Error(storage); a
/// non-finite chunk is refused before anything is written.
ShardReport write_shard(const std::filesystem::path& path, const ShardIdentity& identity,
                        std::span<const StateChunk> chunks, bool sha256);

/// Tensors of a manifest from the reports of all writers: by name, then state, chunks by number.
std::vector<StoredTensor> merge_reports(std::span<const ShardReport> reports);

/// What a shard must hold.
struct ExpectedDataset {
  std::string path;  ///< /STATE/TENSOR/K
  core::DType dtype = core::DType::f32;
  std::vector<std::int64_t> extent;
  std::uint64_t at = 0;
};
std::string dataset_path(const std::string& state, const std::string& tensor, std::int64_t number);

/// Opens a shard with HDF5 and compares: exactly these datasets, hard links, contiguous, not external, of exact type,
/// extent and place. Throws Error(code) naming file and dataset.
void check_structure(const std::filesystem::path& path, std::span<const ExpectedDataset> expected, core::ExitCode code);

/// `model.h5`: virtual datasets /STATE/TENSOR of global shape over the shards, for people; never read by this program.
/// False, and none is made, above 100,000 chunks. Throws Error(storage).
bool write_view(const std::filesystem::path& directory, const Manifest& manifest);

}  // namespace trireme::train
