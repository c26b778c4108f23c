#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "train/checkpoint/candidates.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/ownership.h"
#include "train/checkpoint/shard.h"

namespace trireme::train {

struct SaveResult {
  std::filesystem::path directory;
  std::uint64_t bytes = 0;  ///< of all files
  double seconds = 0;
};

/// The checkpoints of a run. One process owns and writes; made when training starts.
class CheckpointStore {
 public:
  /// Makes the root, takes ownership, removes what interrupted saves left. Throws Error(run_directory).
  CheckpointStore(const std::filesystem::path& root, const std::string& run_id, bool take_over = false);

  const std::filesystem::path& root() const { return root_; }
  const Ownership& owner() const { return owner_; }
  /// Writes `step-N` by the commit protocol. A failure is an Error(storage) and leaves nothing behind; a lost ownership
  /// is Error(run_directory).
  SaveResult save(CheckpointMeta meta, std::span<const StateChunk> chunks, std::span<const TiedAlias> ties,
                  std::span<const SideFile> side_files, bool sha256);
  /// Keeps the newest `keep` (at least 2) checkpoints that verified, at their save or at a load, those whose step is a
  /// multiple of `keep_every` (0: none) and those that hold a file KEEP. Others that verified are removed.
  void retain(std::int64_t keep, std::int64_t keep_every);
  /// Renames every candidate after `step` so that it is none any more; returns a line for each.
  std::vector<std::string> set_aside_after(std::int64_t step);
  /// Counts a checkpoint that was loaded as verified.
  void mark_verified(std::int64_t step) { verified_.insert(step); }

 private:
  void remove_leftovers() const;
  void check_space(std::uint64_t bytes) const;
  void commit(const std::filesystem::path& staging, const CheckpointMeta& meta) const;
  void publish(const std::filesystem::path& directory, const Manifest& manifest) const;
  void adopt_earlier(const CheckpointMeta& meta);
  std::filesystem::path root_;
  Ownership owner_;
  std::set<std::int64_t> verified_;
  bool adopted_ = false;
};

/// Rank 0's part of a save, after every writer's shard is complete: side files, then the manifest made of the reports,
/// all synced. Throws Error(storage).
Manifest write_manifest(const std::filesystem::path& directory, const CheckpointMeta& meta,
                        std::span<const ShardReport> reports, std::span<const TiedAlias> ties,
                        std::span<const SideFile> side_files, bool sha256);

}  // namespace trireme::train
