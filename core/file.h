#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/error.h"

namespace trireme::core {

/// A file open for reading with `pread`; every error is an Error of `code` naming the path.
class ReadFile {
 public:
  ReadFile(const std::filesystem::path& path, ExitCode code = ExitCode::bad_data);
  ~ReadFile();
  ReadFile(ReadFile&& other) noexcept;
  ReadFile& operator=(ReadFile&& other) noexcept;

  std::uint64_t size() const { return size_; }  ///< at the time of opening, bytes
  const std::string& path() const { return path_; }
  /// Fills `into` from byte `offset`. A short read is `PATH: wanted N bytes at OFFSET, got K: the file changed while in
  /// use`.
  void read(std::span<std::byte> into, std::uint64_t offset) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  ExitCode code_;
};

/// The whole file, refused above `limit` bytes.
std::string read_whole(const std::filesystem::path& path, std::uint64_t limit, ExitCode code = ExitCode::bad_data);

/// Written under a temporary name beside its place, fsynced, renamed by `commit`; without `commit` nothing remains.
/// An existing target is refused (exit 73) unless `overwrite`.
class WriteFile {
 public:
  WriteFile(const std::filesystem::path& path, bool overwrite);
  ~WriteFile();
  WriteFile(const WriteFile&) = delete;
  WriteFile& operator=(const WriteFile&) = delete;

  void write(std::span<const std::byte> bytes);  ///< appends; buffered
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Replaces bytes that were written before.
  void rewrite(std::uint64_t offset, std::span<const std::byte> bytes);
  std::uint64_t size() const { return size_; }
  /// Fsyncs and closes: the content is complete, and `commit` only renames.
  void finish();
  void commit();

 private:
  void flush();
  void put(std::span<const std::byte> bytes, std::uint64_t offset);
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  std::string buffer_;
  std::uint64_t flushed_ = 0;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  bool overwrite_;
  bool committed_ = false;
};

/// `WriteFile` in one call.
void write_whole(const std::filesystem::path& path, std::string_view content, bool overwrite);

/// fsync of a directory, so that names made or renamed in it last. Throws Error(storage).
void sync_directory(const std::filesystem::path& path);

/// Lower-case hexadecimal SHA-256.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
  std::string hex();  ///< ends the sum

 private:
  void* context_;
};

}  // namespace trireme::core
