#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace trireme::train {

/// A regular file taken from a directory without following links. What is wrong with the file (missing, a link, cut
/// while in use) is an Error(no_checkpoint), a failed system call an Error(storage); both name the path.
class DirectoryFile {
 public:
  DirectoryFile(const std::filesystem::path& directory, const std::string& name);
  ~DirectoryFile();
  DirectoryFile(DirectoryFile&& other) noexcept;
  DirectoryFile& operator=(DirectoryFile&&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }  ///< bytes, at the time of opening
  void read(std::span<std::byte> into, std::uint64_t offset) const;
  std::string read_whole(std::uint64_t limit) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

struct ByteRange {
  std::uint64_t at = 0, bytes = 0;
};

struct FileSums {
  std::uint32_t crc32c = 0;
  std::string sha256;                 ///< if asked for
  std::vector<std::uint32_t> ranges;  ///< CRC-32C of each range
};

/// Reads a file once. Ranges lie inside it and do not overlap.
FileSums sum_file(const DirectoryFile& file, std::span<const ByteRange> ranges, bool sha256);

}  // namespace trireme::train
