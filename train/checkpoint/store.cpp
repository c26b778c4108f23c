#include "train/checkpoint/store.h"

#include <algorithm>

#include "core/clock.h"
#include "core/file.h"
#include "core/log.h"
#include "train/checkpoint/directory_file.h"
#include "train/checkpoint/names.h"
#include "train/checkpoint/staging.h"

namespace trireme::train {

namespace fs = std::filesystem;
using core::ExitCode;

namespace {

constexpr std::int64_t kFewest = 2;

std::string nonce_of(const fs::path& directory) {
  try {
    return CheckpointReader(directory, {.verify = Verify::sizes}).manifest().meta.nonce;
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

std::uint64_t needed_for(std::uint64_t bytes) { return bytes + bytes / 5; }

StoredFile write_side_file(const fs::path& directory, const SideFile& side, bool sha256) {
  core::check(is_file_name(side.name) && side.name != kManifestName && side.name != kViewName && !shard_of(side.name),
              "side file name \"{}\"", core::escaped(side.name));
  core::write_whole(directory / side.name, side.content, false);
  const DirectoryFile file(directory, side.name);
  const FileSums sums = sum_file(file, {}, sha256);
  return {side.name, file.size(), sums.crc32c, sums.sha256};
}

Manifest write_files(const fs::path& directory, const CheckpointMeta& meta, std::span<const StateChunk> chunks,
                     std::span<const TiedAlias> ties, std::span<const SideFile> side_files, bool sha256) {
  const ShardIdentity identity{.run_id = meta.run_id, .nonce = meta.nonce, .step = meta.step};
  const std::vector<ShardReport> reports{write_shard(directory / shard_name(0), identity, chunks, sha256)};
  return write_manifest(directory, meta, reports, ties, side_files, sha256);
}

}  // namespace

Manifest write_manifest(const fs::path& directory, const CheckpointMeta& meta, std::span<const ShardReport> reports,
                        std::span<const TiedAlias> ties, std::span<const SideFile> side_files, bool sha256) {
  Manifest manifest{.meta = meta, .tensors = merge_reports(reports), .ties = {ties.begin(), ties.end()}};
  for (const ShardReport& report : reports) manifest.files.push_back(report.file);
  for (const SideFile& side : side_files) manifest.files.push_back(write_side_file(directory, side, sha256));
  core::sync_directory(directory);
  const std::string text = manifest.text();
  // What a load would refuse is never committed.
  (void)Manifest::parse(text, (directory / kManifestName).string());
  core::write_whole(directory / kManifestName, text, false);
  return manifest;
}

CheckpointStore::CheckpointStore(const fs::path& root, const std::string& run_id, bool take_over)
    : root_(root), owner_(root, run_id, take_over) {
  remove_leftovers();
}

void CheckpointStore::remove_leftovers() const {
  std::error_code error;
  for (fs::directory_iterator entry(root_, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(".staging-") || name.starts_with(".trash-") || name.starts_with("LATEST.tmp-"))
      remove_tree(entry->path());
  }
  core::require(!error, ExitCode::run_directory, "{}: cannot be listed: {}", root_.string(), error.message());
}

void CheckpointStore::check_space(std::uint64_t bytes) const {
  std::error_code error;
  const fs::space_info space = fs::space(root_, error);
  core::require(error || space.available >= needed_for(bytes), ExitCode::storage,
                "{}: a checkpoint needs {} bytes, {} are free", root_.string(), needed_for(bytes), space.available);
}

SaveResult CheckpointStore::save(CheckpointMeta meta, std::span<const StateChunk> chunks,
                                 std::span<const TiedAlias> ties, std::span<const SideFile> side_files, bool sha256) {
  const double begin = core::now();
  core::check(meta.step >= 0 && meta.step <= kLastStep, "step {} has no checkpoint name", meta.step);
  owner_.confirm();
  check_space(bytes_of(chunks));
  meta.nonce = make_nonce();
  Staging staging(root_ / fmt::format(".staging-{:09}-{}", meta.step, meta.nonce));
  Manifest manifest;
  try {
    core::sync_directory(root_);
    manifest = write_files(staging.path(), meta, chunks, ties, side_files, sha256);
  } catch (const core::Error& error) {
    std::error_code unknown;
    core::fail(ExitCode::storage, "{} (a checkpoint needs {} bytes, {} are free)", error.what(),
               needed_for(bytes_of(chunks)), fs::space(root_, unknown).available);
  }
  owner_.confirm();
  commit(staging.path(), meta);
  staging.release();
  mark_verified(meta.step);
  adopt_earlier(meta);
  const fs::path directory = root_ / step_name(meta.step);
  publish(directory, manifest);
  return {directory, manifest.bytes(), core::now() - begin};
}

void CheckpointStore::commit(const fs::path& staging, const CheckpointMeta& meta) const {
  const fs::path directory = root_ / step_name(meta.step);
  try {
    rename_new(staging, directory);
  } catch (const core::Error&) {
    // A lost reply on a network file system: the rename may have happened all the same.
    std::error_code error;
    if (fs::exists(staging, error) || nonce_of(directory) != meta.nonce) throw;
  }
  try {
    core::sync_directory(root_);
  } catch (const core::Error&) {
    const fs::path trash = root_ / fmt::format(".trash-{}-{}", step_name(meta.step), meta.nonce);
    rename_new(directory, trash);
    remove_tree(trash);
    throw;
  }
}

/// For people and scripts; a failure leaves the checkpoint as it is.
void CheckpointStore::publish(const fs::path& directory, const Manifest& manifest) const {
  try {
    core::write_whole(root_ / "LATEST", step_name(manifest.meta.step) + "\n", true);
    if (!write_view(directory, manifest))
      core::info(fmt::format("{}: too many chunks for {}", directory.string(), kViewName));
  } catch (const core::Error& error) {
    core::warning(fmt::format("{} is committed, but: {}", directory.string(), error.what()));
  }
}

/// Checkpoints that earlier attempts of this run committed were read back at their save.
void CheckpointStore::adopt_earlier(const CheckpointMeta& meta) {
  if (std::exchange(adopted_, true)) return;
  for (const Candidate& candidate : verify_candidates(root_, {.verify = Verify::sizes})) {
    if (candidate.step >= meta.step || !candidate.reason.empty()) continue;
    const CheckpointReader reader(candidate.directory, {.verify = Verify::sizes});
    if (reader.manifest().meta.run_id == meta.run_id) mark_verified(candidate.step);
  }
}

void CheckpointStore::retain(std::int64_t keep, std::int64_t keep_every) {
  const std::vector<std::int64_t> newest_first(verified_.rbegin(), verified_.rend());
  for (std::size_t i = 0; i < newest_first.size(); ++i) {
    const std::int64_t step = newest_first[i];
    const fs::path directory = root_ / step_name(step);
    std::error_code error;
    const bool kept = static_cast<std::int64_t>(i) < std::max(keep, kFewest) ||
                      (keep_every > 0 && step % keep_every == 0) || fs::exists(directory / "KEEP", error);
    if (kept) continue;
    verified_.erase(step);
    if (!fs::exists(directory, error)) continue;
    const fs::path trash = root_ / fmt::format(".trash-{}-{}", step_name(step), make_nonce());
    try {
      rename_new(directory, trash);
      remove_tree(trash);
    } catch (const core::Error& failure) {
      core::warning(fmt::format("an old checkpoint stays: {}", failure.what()));
    }
  }
}

std::vector<std::string> CheckpointStore::set_aside_after(std::int64_t step) {
  std::vector<std::string> lines;
  for (const Candidate& candidate : list_candidates(root_)) {
    if (candidate.step <= step) continue;
    const fs::path aside = root_ / fmt::format("aside-{}-{}", step_name(candidate.step), make_nonce());
    rename_new(candidate.directory, aside);
    verified_.erase(candidate.step);
    lines.push_back(fmt::format("{} is after the step resumed from: set aside as {}", candidate.directory.string(),
                                aside.filename().string()));
  }
  if (!lines.empty()) core::sync_directory(root_);
  return lines;
}

void write_weights(const fs::path& directory, const CheckpointMeta& meta, std::span<const StateChunk> chunks,
                   std::span<const TiedAlias> ties, std::span<const SideFile> side_files, bool overwrite) {
  std::error_code unknown;
  const bool exists = fs::exists(fs::symlink_status(directory, unknown));
  core::require(overwrite || !exists, ExitCode::run_directory, "{}: exists already (--force replaces it)",
                directory.string());
  const fs::path place = fs::absolute(directory);
  core::require(fs::is_directory(place.parent_path(), unknown), ExitCode::run_directory, "{}: no such directory",
                place.parent_path().string());
  CheckpointMeta own = meta;
  own.nonce = make_nonce();
  Staging staging(place.parent_path() / fmt::format(".staging-{}-{}", place.filename().string(), own.nonce));
  const Manifest manifest = write_files(staging.path(), own, chunks, ties, side_files, false);
  if (exists)
    replace_directory(staging.path(), place);
  else
    rename_new(staging.path(), place);
  staging.release();
  core::sync_directory(place.parent_path());
  try {
    (void)write_view(place, manifest);
  } catch (const core::Error& error) {
    core::warning(fmt::format("{} is complete, but: {}", directory.string(), error.what()));
  }
}

}  // namespace trireme::train
