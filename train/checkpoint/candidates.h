#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint/checkpoint.h"

namespace trireme::train {

/// A directory of a checkpoint root whose name is a candidate's: step- and nine digits.
struct Candidate {
  std::int64_t step = 0;
  std::filesystem::path directory;
  std::string reason;  ///< why it is refused; empty: it verified, or was not looked at
};

/// Candidates of a root, newest first by number, not looked into. Other names are ignored; no root is an empty list.
std::vector<Candidate> list_candidates(const std::filesystem::path& root);
/// The same, each verified.
std::vector<Candidate> verify_candidates(const std::filesystem::path& root, const OpenOptions& options = {});

/// The newest candidate that verifies; each rejected one gives a line in `rejected`: directory, reason, steps lost.
std::optional<CheckpointReader> newest_valid(const std::filesystem::path& root, std::vector<std::string>& rejected);

/// Step of the newest candidate whose manifest verifies and whose files have their sizes; -1 without one.
std::int64_t last_committed(const std::filesystem::path& root);

/// A run directory's checkpoints/, else the path itself.
std::filesystem::path root_of(const std::filesystem::path& path);
/// Whether the path stands for one checkpoint: it holds a manifest or has a candidate's name.
bool is_checkpoint(const std::filesystem::path& path);

/// What a CHECKPOINT argument stands for: a checkpoint directory, or the newest valid one of a root or run directory,
/// with a warning for each newer one that is refused. Throws Error(no_checkpoint) with every candidate and its reason.
CheckpointReader open_checkpoint(const std::filesystem::path& path, const OpenOptions& options = {});

/// Where a run goes on.
struct ResumeChoice {
  std::optional<CheckpointReader> checkpoint;  ///< absent: begins at step 0
  std::vector<std::string> rejected;           ///< a line for each candidate that was refused
};

/// `run.resume`: auto (newest valid; step 0 only where nothing was ever saved), must, never, or the path of a
/// checkpoint (exactly that one). Throws Error(no_checkpoint) with every candidate and its reason: never from scratch
/// in silence.
ResumeChoice choose_resume(const std::string& resume, const std::filesystem::path& root,
                           const std::filesystem::path& run_directory);

}  // namespace trireme::train
