#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>

#include "train/checkpoint/directory_file.h"
#include "train/checkpoint/hdf5.h"
#include "train/checkpoint/shard.h"

namespace trireme::train {

using core::ExitCode;

namespace {

std::uint64_t bytes_of(const StateChunk& chunk) {
  std::uint64_t bytes = core::size_of(chunk.dtype);
  for (const std::int64_t extent : chunk.extent) bytes *= static_cast<std::uint64_t>(extent);
  return bytes;
}

/// Sums of the chunks, from memory; K where the caller left it open.
std::vector<ChunkReport> sum_chunks(const ShardIdentity& identity, std::span<const StateChunk> chunks) {
  std::map<std::pair<std::string, std::string>, std::int64_t> counts;
  std::vector<ChunkReport> out;
  for (const StateChunk& chunk : chunks) {
    ChunkReport report{.tensor = {.name = chunk.tensor, .state = chunk.state, .dtype = chunk.dtype}};
    for (int axis = 0; axis < chunk.shape.rank(); ++axis) report.tensor.shape.push_back(chunk.shape[axis]);
    const ChunkSums sums = chunk_sums(chunk.data, chunk.dtype, report.tensor.shape, chunk.offset, chunk.extent);
    core::require(std::isfinite(sums.values.squares), ExitCode::storage, "non-finite state: {} {} is not saved",
                  chunk.tensor, chunk.state);
    report.number = chunk.number >= 0 ? chunk.number : counts[{chunk.tensor, chunk.state}]++;
    report.chunk = {identity.shard, chunk.offset, chunk.extent, 0, sums.crc32c};
    report.sums = sums.values;
    out.push_back(std::move(report));
  }
  return out;
}

/// Returns the byte offset of the values in the file.
std::uint64_t write_dataset(hid_t file, const std::string& path, const StateChunk& chunk, const ChunkReport& report) {
  const std::string name = dataset_path(chunk.state, chunk.tensor, report.number);
  Hdf5 type = stored_type(chunk.dtype);
  Hdf5 space = dataspace(chunk.extent);
  Hdf5 links = link_creation();
  Hdf5 creation = dataset_creation();
  Hdf5 dataset(H5Dcreate2(file, name.c_str(), type, space, links, creation, H5P_DEFAULT), H5Dclose,
               fmt::format("{}: H5Dcreate {}", path, name));
  succeed(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, chunk.data), path, "H5Dwrite");
  if (!chunk.extent.empty()) {
    write_attribute(dataset, "offset", chunk.offset);
    write_attribute(dataset, "shape", report.tensor.shape);
  }
  const haddr_t at = H5Dget_offset(dataset);
  core::require(at != HADDR_UNDEF, ExitCode::storage, "{}: {} has no place in the file", path, name);
  dataset.close();
  creation.close();
  links.close();
  space.close();
  type.close();
  return at;
}

void write_file(const std::string& path, const ShardIdentity& identity, std::span<const StateChunk> chunks,
                std::vector<ChunkReport>& reports) {
  Hdf5 access = file_access(true);
  Hdf5 file(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access), H5Fclose, path);
  write_attribute(file, "format_version", std::int64_t{1});
  write_attribute(file, "run_id", identity.run_id);
  write_attribute(file, "nonce", identity.nonce);
  write_attribute(file, "step", identity.step);
  write_attribute(file, "shard", identity.shard);
  write_attribute(file, "shards", identity.shards);
  for (std::size_t i = 0; i < chunks.size(); ++i)
    reports[i].chunk.at = write_dataset(file, path, chunks[i], reports[i]);
  close_file(file, path);
  access.close();
}

/// Without HDF5, which never syncs. Out of the page cache, so that reading back reads the medium where that is
/// possible.
void sync_file(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  core::require(descriptor >= 0, ExitCode::storage, "{}: cannot be opened: {}", path, std::strerror(errno));
  const bool synced = ::fsync(descriptor) == 0;
  const int error = errno;
  if (synced) (void)::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  const bool closed = ::close(descriptor) == 0;
  core::require(synced, ExitCode::storage, "{}: fsync: {}", path, std::strerror(error));
  core::require(closed, ExitCode::storage, "{}: close: {}", path, std::strerror(errno));
}

StoredFile read_back(const std::filesystem::path& path, std::span<const StateChunk> chunks,
                     std::span<const ChunkReport> reports, bool sha256) {
  std::vector<ByteRange> ranges;
  for (std::size_t i = 0; i < chunks.size(); ++i) ranges.push_back({reports[i].chunk.at, bytes_of(chunks[i])});
  const DirectoryFile file(path.parent_path(), path.filename().string());
  const FileSums sums = sum_file(file, ranges, sha256);
  for (std::size_t i = 0; i < chunks.size(); ++i)
    core::require(sums.ranges[i] == reports[i].chunk.crc32c, ExitCode::storage, "{}: {} {} reads back differently",
                  path.string(), chunks[i].tensor, chunks[i].state);
  return {path.filename().string(), file.size(), sums.crc32c, sums.sha256};
}

}  // namespace

std::string dataset_path(const std::string& state, const std::string& tensor, std::int64_t number) {
  return fmt::format("/{}/{}/{}", state, tensor, number);
}

ShardReport write_shard(const std::filesystem::path& path, const ShardIdentity& identity,
                        std::span<const StateChunk> chunks, bool sha256) {
  prepare_hdf5();
  ShardReport out{.chunks = sum_chunks(identity, chunks)};
  write_file(path.string(), identity, chunks, out.chunks);
  sync_file(path.string());
  out.file = read_back(path, chunks, out.chunks, sha256);
  std::vector<ExpectedDataset> expected;
  for (const ChunkReport& one : out.chunks)
    expected.push_back({dataset_path(one.tensor.state, one.tensor.name, one.number), one.tensor.dtype, one.chunk.extent,
                        one.chunk.at});
  check_structure(path, expected, ExitCode::storage);
  return out;
}

std::vector<StoredTensor> merge_reports(std::span<const ShardReport> reports) {
  std::map<std::pair<std::string, std::string>, std::map<std::int64_t, const ChunkReport*>> sorted;
  for (const ShardReport& report : reports)
    for (const ChunkReport& chunk : report.chunks) {
      const bool fresh = sorted[{chunk.tensor.name, chunk.tensor.state}].emplace(chunk.number, &chunk).second;
      core::check(fresh, "chunk {} of {} {} has two writers", chunk.number, chunk.tensor.name, chunk.tensor.state);
    }
  std::vector<StoredTensor> out;
  for (const auto& [key, chunks] : sorted) {
    core::check(chunks.rbegin()->first == static_cast<std::int64_t>(chunks.size()) - 1,
                "{} {}: {} chunks, the last is number {}", key.first, key.second, chunks.size(),
                chunks.rbegin()->first);
    StoredTensor tensor = chunks.begin()->second->tensor;
    ValueSums sums;
    for (const auto& [number, report] : chunks) {
      core::check(report->tensor.shape == tensor.shape && report->tensor.dtype == tensor.dtype,
                  "{} {}: writers disagree on its shape or type", key.first, key.second);
      sums.squares += report->sums.squares;
      sums.fingerprint += report->sums.fingerprint;
      tensor.chunks.push_back(report->chunk);
    }
    tensor.l2 = std::sqrt(sums.squares);
    tensor.fingerprint = sums.fingerprint;
    out.push_back(std::move(tensor));
  }
  return out;
}

}  // namespace trireme::train
