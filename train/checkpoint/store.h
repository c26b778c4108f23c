#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "train/checkpoint/checkpoint.h"

namespace trireme::train {

/// A directory of a checkpoint root whose name is a candidate's.
struct Candidate {
  std::int64_t step = 0;
  std::filesystem::path directory;
};

/// Candidates of a root, newest first by number. Other names are ignored.
std::vector<Candidate> list_candidates(const std::filesystem::path& root);

/// The newest candidate that verifies; each rejected one gives a line in `rejected`: directory, reason.
std::optional<CheckpointReader> newest_valid(const std::filesystem::path& root, std::vector<std::string>& rejected);

/// What a CHECKPOINT argument stands for: a checkpoint directory, or the newest valid one of a root or run directory.
/// Throws Error(no_checkpoint) listing what is there.
CheckpointReader open_checkpoint(const std::filesystem::path& path);

/// Right to write into a root: OWNER, whose beat a thread rewrites every five seconds. Throws Error(run_directory) when
/// another live process owns it. The destructor removes it.
class Ownership {
 public:
  Ownership(const std::filesystem::path& root, const std::string& run_id);
  ~Ownership();
  Ownership(const Ownership&) = delete;
  Ownership& operator=(const Ownership&) = delete;
  /// Throws Error(run_directory) when another process has taken over.
  void confirm() const;

 private:
  void beat();
  std::string text() const;
  std::filesystem::path path_;
  std::string run_id_, nonce_;
  std::int64_t beats_ = 0;
  std::mutex mutex_;
  std::condition_variable ended_changed_;
  bool ended_ = false;
  std::thread thread_;
};

struct SaveResult {
  std::filesystem::path directory;
  std::uint64_t bytes = 0;
  double seconds = 0;
};

/// The checkpoints of a run. One process owns and writes; made when training starts.
class CheckpointStore {
 public:
  /// Makes the root, takes ownership, removes what interrupted saves left.
  CheckpointStore(const std::filesystem::path& root, const std::string& run_id);

  const std::filesystem::path& root() const { return root_; }
  /// Writes `step-N` by the commit protocol. A failure is an Error(storage) and leaves nothing behind.
  SaveResult save(CheckpointMeta meta, std::span<const StateChunk> chunks, std::span<const TiedAlias> ties,
                  std::span<const SideFile> side_files, bool sha256);
  /// Keeps the newest `keep` verified checkpoints, those whose step is a multiple of `keep_every` (0: none) and those
  /// that hold a file KEEP.
  void retain(std::int64_t keep, std::int64_t keep_every);
  /// Renames every candidate after `step` so that it is none any more; returns a line for each.
  std::vector<std::string> set_aside_after(std::int64_t step);
  /// Counts a checkpoint that was loaded as verified.
  void mark_verified(std::int64_t step) { verified_.push_back(step); }

 private:
  void remove_leftovers() const;
  void check_space(std::uint64_t bytes) const;
  void commit(const std::filesystem::path& staging, std::int64_t step) const;
  std::filesystem::path root_;
  Ownership owner_;
  std::vector<std::int64_t> verified_;
};

/// Writes shards, side files and manifest of one checkpoint into an empty directory, all synced. Shared by save and
/// import.
Manifest write_checkpoint_files(const std::filesystem::path& directory, const CheckpointMeta& meta,
                                std::span<const StateChunk> chunks, std::span<const TiedAlias> ties,
                                std::span<const SideFile> side_files, bool sha256);

}  // namespace trireme::train
