#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

namespace trireme::train {

/// Right to write into a checkpoint root: the file OWNER, whose beat a thread rewrites in place every five seconds. The
/// destructor removes the file if it is still ours.
class Ownership {
 public:
  /// Makes the root and OWNER. An owner that is provably gone is taken over at once, one whose beat stands still after
  /// 25 s, any with `take_over`. Throws Error(run_directory) naming the owner's host, pid and job when it is alive, or
  /// when the root cannot be written.
  Ownership(const std::filesystem::path& root, const std::string& run_id, bool take_over = false);
  ~Ownership();
  Ownership(const Ownership&) = delete;
  Ownership& operator=(const Ownership&) = delete;
  /// Throws Error(run_directory) when another process has taken over.
  void confirm() const;
  /// True once a beat found another owner.
  bool lost() const { return lost_; }

 private:
  bool create();
  void take_over();
  void beat();
  std::string text() const;
  std::filesystem::path path_;
  std::string run_id_, nonce_;
  int descriptor_ = -1;  // of our own file: never writes into another's that replaced it
  std::int64_t beats_ = 0;
  std::mutex mutex_;
  std::condition_variable ended_changed_;
  bool ended_ = false;
  std::atomic<bool> lost_{false};
  std::thread thread_;
};

}  // namespace trireme::train
