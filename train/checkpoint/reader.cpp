#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "core/file.h"
#include "core/log.h"
#include "train/checkpoint/checksum.h"
#include "train/checkpoint/directory_file.h"
#include "train/checkpoint/names.h"
#include "train/checkpoint/shard.h"
#include "train/checkpoint/transfer.h"

namespace trireme::train {

namespace fs = std::filesystem;
using core::ExitCode;

namespace {

constexpr std::uint64_t kLargestManifest = std::uint64_t{256} << 20;
constexpr std::uint64_t kLargestSideFile = std::uint64_t{1} << 30;
constexpr double kNormTolerance = 1e-10;  // relative; sums are taken in another order

std::uint64_t bytes_of(const StoredTensor& tensor, const StoredChunk& chunk) {
  std::uint64_t bytes = core::size_of(tensor.dtype);
  for (const std::int64_t extent : chunk.extent) bytes *= static_cast<std::uint64_t>(extent);
  return bytes;
}

std::string title(const StoredTensor& tensor) { return fmt::format("tensor {} {}", tensor.name, tensor.state); }

struct ShardContents {
  std::vector<ExpectedDataset> datasets;
  std::vector<ByteRange> ranges;
  std::vector<std::uint32_t> sums;
};

std::map<std::string, ShardContents> contents_of(const Manifest& manifest) {
  std::map<std::string, ShardContents> out;
  for (const StoredTensor& tensor : manifest.tensors)
    for (std::size_t k = 0; k < tensor.chunks.size(); ++k) {
      const StoredChunk& chunk = tensor.chunks[k];
      ShardContents& shard = out[shard_name(chunk.shard)];
      shard.datasets.push_back({dataset_path(tensor.state, tensor.name, static_cast<std::int64_t>(k)), tensor.dtype,
                                chunk.extent, chunk.at});
      shard.ranges.push_back({chunk.at, bytes_of(tensor, chunk)});
      shard.sums.push_back(chunk.crc32c);
    }
  return out;
}

DirectoryFile open_listed(const fs::path& directory, const StoredFile& listed) {
  DirectoryFile file(directory, listed.name);
  core::require(file.size() == listed.bytes, ExitCode::no_checkpoint, "{}: {} bytes, the manifest says {}", file.path(),
                file.size(), listed.bytes);
  return file;
}

void verify_contents(const DirectoryFile& file, const StoredFile& listed, const ShardContents& shard) {
  const FileSums sums = sum_file(file, shard.ranges, !listed.sha256.empty());
  core::require(sums.crc32c == listed.crc32c, ExitCode::no_checkpoint, "{}: checksum {:08x}, the manifest says {:08x}",
                file.path(), sums.crc32c, listed.crc32c);
  core::require(sums.sha256 == listed.sha256, ExitCode::no_checkpoint, "{}: sha256 {}, the manifest says {}",
                file.path(), sums.sha256, core::escaped(listed.sha256));
  for (std::size_t i = 0; i < shard.sums.size(); ++i)
    core::require(sums.ranges[i] == shard.sums[i], ExitCode::no_checkpoint,
                  "{}: {}: checksum differs from the manifest", file.path(), shard.datasets[i].path);
}

std::vector<std::int64_t> extents_of(const core::Shape& shape) {
  std::vector<std::int64_t> out;
  for (int axis = 0; axis < shape.rank(); ++axis) out.push_back(shape[axis]);
  return out;
}

bool allowed(core::DType from, core::DType to, Convert convert) {
  if (from == to) return true;
  const bool widens = from == core::DType::f32 && to == core::DType::f64;
  const bool narrows = from == core::DType::f64 && to == core::DType::f32;
  return (widens && convert != Convert::none) || (narrows && convert == Convert::exact);
}

void check_wanted(const StateChunk& chunk, const StoredTensor& stored, Convert convert, const std::string& where) {
  core::require(stored.shape == extents_of(chunk.shape), ExitCode::no_checkpoint, "{}: {} is [{}], wanted is {}", where,
                title(stored), fmt::join(stored.shape, ", "), chunk.shape.text());
  core::require(allowed(stored.dtype, chunk.dtype, convert), ExitCode::usage, "{}: {} is {}, the run needs {}", where,
                title(stored), core::name_of(stored.dtype), core::name_of(chunk.dtype));
  core::check(chunk.offset.size() == stored.shape.size() && chunk.extent.size() == stored.shape.size(),
              "{}: wanted rectangle of another rank", title(stored));
  for (std::size_t axis = 0; axis < stored.shape.size(); ++axis)
    core::check(chunk.offset[axis] >= 0 && chunk.extent[axis] >= 0 &&
                    chunk.offset[axis] <= stored.shape[axis] - chunk.extent[axis],
                "{}: wanted rectangle outside the tensor", title(stored));
}

/// Sums of what was read of one tensor, where all of it was, in its own type.
struct ReadSums {
  ValueSums sums;
  std::int64_t elements = 0;
  bool converted = false;
};

void add_sums(const StateChunk& chunk, const StoredTensor& stored, ReadSums& out) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : chunk.extent) elements *= extent;
  out.elements += elements;
  out.converted = out.converted || chunk.dtype != stored.dtype;
  if (out.converted) return;
  const ValueSums sums = chunk_sums(chunk.data, chunk.dtype, stored.shape, chunk.offset, chunk.extent).values;
  out.sums.squares += sums.squares;
  out.sums.fingerprint += sums.fingerprint;
}

void check_sums(const StoredTensor& stored, const ReadSums& read, const std::string& where) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : stored.shape) elements *= extent;
  if (read.converted || read.elements != elements) return;
  core::require(read.sums.fingerprint == stored.fingerprint, ExitCode::no_checkpoint,
                "{}: {}: fingerprint {:016x} after reading, the manifest says {:016x}", where, title(stored),
                read.sums.fingerprint, stored.fingerprint);
  const double l2 = std::sqrt(read.sums.squares);
  core::require(std::abs(l2 - stored.l2) <= kNormTolerance * stored.l2, ExitCode::no_checkpoint,
                "{}: {}: l2 {} after reading, the manifest says {}", where, title(stored), l2, stored.l2);
}

}  // namespace

CheckpointReader::CheckpointReader(const fs::path& directory, const OpenOptions& options) : directory_(directory) {
  try {
    verify(options);
  } catch (const core::Error& first) {
    if (first.code() != ExitCode::storage) throw;
    try {
      verify(options);
    } catch (const core::Error& second) {
      core::fail(ExitCode::no_checkpoint, "{}", second.what());
    }
  }
}

void CheckpointReader::verify(const OpenOptions& options) {
  const DirectoryFile file(directory_, std::string(kManifestName));
  const std::string text = file.read_whole(kLargestManifest);
  core::Sha256 sha;
  sha.update(text);
  manifest_sha256_ = sha.hex();
  core::require(options.manifest_sha256.empty() || options.manifest_sha256 == manifest_sha256_, ExitCode::no_checkpoint,
                "{}: sha256 {}, {} was asked for", file.path(), manifest_sha256_,
                core::escaped(options.manifest_sha256));
  manifest_ = Manifest::parse(text, file.path());
  const auto step = step_of(directory_.filename().string());
  core::require(!step || *step == manifest_.meta.step, ExitCode::no_checkpoint, "{}: holds step {}", file.path(),
                manifest_.meta.step);
  for (const StoredFile& listed : manifest_.files) (void)open_listed(directory_, listed);
  if (options.verify == Verify::sizes) return;
  const std::map<std::string, ShardContents> shards = contents_of(manifest_);
  const ShardContents nothing;
  for (const StoredFile& listed : manifest_.files) {
    const auto shard = shards.find(listed.name);
    verify_contents(open_listed(directory_, listed), listed, shard == shards.end() ? nothing : shard->second);
  }
  for (const auto& [name, shard] : shards) check_structure(directory_ / name, shard.datasets, ExitCode::no_checkpoint);
}

void CheckpointReader::read(std::span<StateChunk> wanted, Convert convert) const {
  const std::string where = core::escaped(directory_.string());
  std::map<std::pair<std::string, std::string>, const StoredTensor*> tensors;
  for (const StoredTensor& tensor : manifest_.tensors) tensors[{tensor.name, tensor.state}] = &tensor;
  std::map<const StoredTensor*, ReadSums> sums;
  std::optional<std::pair<std::int64_t, DirectoryFile>> open;
  for (StateChunk& chunk : wanted) {
    const auto found = tensors.find({chunk.tensor, chunk.state});
    core::require(found != tensors.end(), ExitCode::no_checkpoint, "{}: no tensor {} {}", where, chunk.tensor,
                  chunk.state);
    const StoredTensor& stored = *found->second;
    check_wanted(chunk, stored, convert, where);
    for (const StoredChunk& part : stored.chunks) {
      if (!open || open->first != part.shard)
        open.emplace(part.shard, DirectoryFile(directory_, shard_name(part.shard)));
      core::require(transfer(open->second, stored.dtype, part, chunk), ExitCode::usage,
                    "{}: {} is fp64 and holds values that fp32 does not", where, title(stored));
    }
    add_sums(chunk, stored, sums[&stored]);
  }
  for (const auto& [tensor, read] : sums) check_sums(*tensor, read, where);
}

std::vector<SideFile> CheckpointReader::side_files() const {
  std::vector<SideFile> out;
  for (const StoredFile& file : manifest_.files)
    if (!shard_of(file.name)) out.push_back({file.name, open_listed(directory_, file).read_whole(kLargestSideFile)});
  return out;
}

}  // namespace trireme::train
