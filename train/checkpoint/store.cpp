#include "train/checkpoint/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>

#include "core/clock.h"
#include "core/file.h"
#include "core/log.h"
#include "train/checkpoint/checksum.h"
#include "train/checkpoint/names.h"
#include "train/checkpoint/shard.h"

namespace trireme::train {

namespace fs = std::filesystem;
using core::ExitCode;

namespace {

void make_directory(const fs::path& path) {
  core::require(::mkdir(path.c_str(), 0755) == 0, ExitCode::storage, "{}: cannot be made: {}", path.string(),
                std::strerror(errno));
}

/// Removes a directory tree that may be half there; says so when it cannot.
void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) core::warning(fmt::format("{}: cannot be removed: {}", path.string(), error.message()));
}

void rename_new(const fs::path& from, const fs::path& to) {
  core::require(::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0, ExitCode::storage,
                "{}: cannot be renamed to {}: {}", from.string(), to.string(), std::strerror(errno));
}

StoredFile describe_file(const fs::path& path, bool sha256) {
  StoredFile file{.name = path.filename().string(), .bytes = fs::file_size(path)};
  file.crc32c = crc32c_of_file(path, 0, file.bytes);
  if (!sha256) return file;
  core::Sha256 sum;
  const core::ReadFile opened(path, ExitCode::storage);
  std::vector<std::byte> block;
  for (std::uint64_t done = 0; done < file.bytes; done += block.size()) {
    block.resize(std::min<std::uint64_t>(file.bytes - done, std::uint64_t{4} << 20));
    opened.read(block, done);
    sum.update(block);
  }
  file.sha256 = sum.hex();
  return file;
}

std::vector<StoredTensor> describe_tensors(std::span<const StateChunk> chunks, std::vector<StoredChunk> stored) {
  std::map<std::pair<std::string, std::string>, StoredTensor> tensors;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const StateChunk& chunk = chunks[i];
    StoredTensor& tensor = tensors[{chunk.tensor, chunk.state}];
    if (tensor.name.empty()) {
      tensor = {.name = chunk.tensor, .state = chunk.state, .dtype = chunk.dtype};
      for (int axis = 0; axis < chunk.shape.rank(); ++axis) tensor.shape.push_back(chunk.shape[axis]);
    }
    const ValueSums sums = value_sums(chunk.data, chunk.dtype, tensor.shape, chunk.offset, chunk.extent);
    core::require(std::isfinite(sums.squares), ExitCode::storage, "non-finite state: {} {} is not saved", chunk.tensor,
                  chunk.state);
    tensor.l2 += sums.squares;
    tensor.fingerprint += sums.fingerprint;
    tensor.chunks.push_back(std::move(stored[i]));
  }
  std::vector<StoredTensor> out;
  for (auto& [key, tensor] : tensors) {
    tensor.l2 = std::sqrt(tensor.l2);
    out.push_back(std::move(tensor));
  }
  return out;
}

std::string nonce_of(const fs::path& directory) {
  try {
    const fs::path path = directory / kManifestName;
    return Manifest::parse(core::read_whole(path, std::uint64_t{1} << 28, ExitCode::no_checkpoint), path.string())
        .meta.nonce;
  } catch (const core::Error&) {
    return "";
  }
}

std::uint64_t bytes_of(std::span<const StateChunk> chunks) {
  std::uint64_t total = 0;
  for (const StateChunk& chunk : chunks) {
    std::uint64_t bytes = core::size_of(chunk.dtype);
    for (const std::int64_t extent : chunk.extent) bytes *= static_cast<std::uint64_t>(extent);
    total += bytes;
  }
  return total;
}

}  // namespace

Manifest write_checkpoint_files(const fs::path& directory, const CheckpointMeta& meta,
                                std::span<const StateChunk> chunks, std::span<const TiedAlias> ties,
                                std::span<const SideFile> side_files, bool sha256) {
  Manifest manifest{.meta = meta, .ties = {ties.begin(), ties.end()}};
  const ShardIdentity identity{.run_id = meta.run_id, .nonce = meta.nonce, .step = meta.step};
  const fs::path shard = directory / shard_name(0);
  manifest.tensors = describe_tensors(chunks, write_shard(shard, identity, chunks));
  manifest.files.push_back(describe_file(shard, sha256));
  for (const SideFile& side : side_files) {
    core::check(is_file_name(side.name), "side file name \"{}\"", core::escaped(side.name));
    core::write_whole(directory / side.name, side.content, false);
    manifest.files.push_back(describe_file(directory / side.name, sha256));
  }
  core::sync_directory(directory);
  core::write_whole(directory / kManifestName, manifest.text(), false);
  return manifest;
}

CheckpointStore::CheckpointStore(const fs::path& root, const std::string& run_id) : root_(root), owner_(root, run_id) {
  remove_leftovers();
}

void CheckpointStore::remove_leftovers() const {
  for (const auto& entry : fs::directory_iterator(root_)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".staging-") || name.starts_with(".trash-")) remove_tree(entry.path());
  }
}

void CheckpointStore::check_space(std::uint64_t bytes) const {
  const fs::space_info space = fs::space(root_);
  const std::uint64_t needed = bytes + bytes / 5;
  core::require(space.available >= needed, ExitCode::storage, "{}: a checkpoint needs {} bytes, {} are free",
                root_.string(), needed, space.available);
}

SaveResult CheckpointStore::save(CheckpointMeta meta, std::span<const StateChunk> chunks,
                                 std::span<const TiedAlias> ties, std::span<const SideFile> side_files, bool sha256) {
  const double begin = core::now();
  const std::uint64_t needed = bytes_of(chunks);
  owner_.confirm();
  check_space(needed);
  meta.nonce = make_nonce();
  const fs::path staging = root_ / fmt::format(".staging-{:09}-{}", meta.step, meta.nonce);
  make_directory(staging);
  try {
    core::sync_directory(root_);
    write_checkpoint_files(staging, meta, chunks, ties, side_files, sha256);
    owner_.confirm();
    commit(staging, meta.step);
  } catch (const core::Error& error) {
    remove_tree(staging);
    const fs::space_info space = fs::space(root_);
    core::fail(error.code(), "{} (a checkpoint needs {} bytes, {} are free)", error.what(), needed, space.available);
  }
  mark_verified(meta.step);
  const fs::path directory = root_ / step_name(meta.step);
  try {
    core::write_whole(root_ / "LATEST", step_name(meta.step) + "\n", true);
    write_view(directory, Manifest::parse(core::read_whole(directory / kManifestName, std::uint64_t{1} << 28),
                                          directory.string()));
  } catch (const core::Error& error) {
    core::warning(fmt::format("{} is committed, but: {}", directory.string(), error.what()));
  }
  return {directory, needed, core::now() - begin};
}

void CheckpointStore::commit(const fs::path& staging, std::int64_t step) const {
  const fs::path directory = root_ / step_name(step);
  const std::string nonce = nonce_of(staging);
  try {
    rename_new(staging, directory);
  } catch (const core::Error&) {
    // A lost reply on a network file system: the rename may have happened all the same.
    if (fs::exists(staging) || nonce_of(directory) != nonce) throw;
  }
  try {
    core::sync_directory(root_);
  } catch (const core::Error&) {
    rename_new(directory, root_ / fmt::format(".trash-{}-{}", step_name(step), nonce));
    throw;
  }
}

void CheckpointStore::retain(std::int64_t keep, std::int64_t keep_every) {
  std::sort(verified_.begin(), verified_.end(), std::greater<>());
  std::vector<std::int64_t> left;
  for (std::size_t i = 0; i < verified_.size(); ++i) {
    const std::int64_t step = verified_[i];
    const fs::path directory = root_ / step_name(step);
    const bool kept = static_cast<std::int64_t>(i) < keep || (keep_every > 0 && step % keep_every == 0) ||
                      fs::exists(directory / "KEEP");
    if (kept) {
      left.push_back(step);
      continue;
    }
    const fs::path trash = root_ / fmt::format(".trash-{}-{}", step_name(step), make_nonce());
    rename_new(directory, trash);
    remove_tree(trash);
  }
  verified_ = left;
}

std::vector<std::string> CheckpointStore::set_aside_after(std::int64_t step) {
  std::vector<std::string> lines;
  for (const Candidate& candidate : list_candidates(root_)) {
    if (candidate.step <= step) continue;
    const fs::path aside = root_ / fmt::format("aside-{}-{}", step_name(candidate.step), make_nonce());
    rename_new(candidate.directory, aside);
    lines.push_back(fmt::format("{} is after the step resumed from: set aside as {}", candidate.directory.string(),
                                aside.filename().string()));
  }
  return lines;
}

void write_weights(const fs::path& directory, const CheckpointMeta& meta, std::span<const StateChunk> chunks,
                   std::span<const TiedAlias> ties, std::span<const SideFile> side_files, bool overwrite) {
  core::require(overwrite || !fs::exists(directory), ExitCode::run_directory,
                "{}: exists already (--force replaces it)", directory.string());
  const fs::path parent = fs::absolute(directory).parent_path();
  core::require(fs::is_directory(parent), ExitCode::run_directory, "{}: no such directory", parent.string());
  CheckpointMeta own = meta;
  own.nonce = make_nonce();
  const fs::path staging = parent / fmt::format(".staging-{}-{}", directory.filename().string(), own.nonce);
  make_directory(staging);
  try {
    write_view(staging, write_checkpoint_files(staging, own, chunks, ties, side_files, false));
    if (overwrite && fs::exists(directory)) {
      const fs::path trash = parent / fmt::format(".trash-{}-{}", directory.filename().string(), own.nonce);
      rename_new(directory, trash);
      rename_new(staging, directory);
      remove_tree(trash);
    } else {
      rename_new(staging, directory);
    }
    core::sync_directory(parent);
  } catch (const core::Error&) {
    remove_tree(staging);
    throw;
  }
}

}  // namespace trireme::train
