#pragma once

#include <filesystem>

namespace trireme::train {

/// A new directory that is removed with all it holds unless it was released.
class Staging {
 public:
  /// Throws Error(storage) when it exists or cannot be made.
  explicit Staging(std::filesystem::path path);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  const std::filesystem::path& path() const { return path_; }
  void release() { released_ = true; }

 private:
  std::filesystem::path path_;
  bool released_ = false;
};

/// Removes a directory tree that may be half there; says so when it cannot.
void remove_tree(const std::filesystem::path& path);
/// Renames unless something has the new name. Throws Error(storage).
void rename_new(const std::filesystem::path& from, const std::filesystem::path& to);
/// Puts `from` in the place of `to`, which is removed. Throws Error(storage); one of both is there at any moment.
void replace_directory(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace trireme::train
