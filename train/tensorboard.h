#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

namespace trireme::train {

/// A TensorBoard event file: TFRecord frames of Event protocol buffers, made by hand since only two kinds are needed.
class TensorBoardFile {
 public:
  /// A new file in `directory`. Throws Error(run_directory).
  explicit TensorBoardFile(const std::filesystem::path& directory);
  ~TensorBoardFile();
  TensorBoardFile(const TensorBoardFile&) = delete;
  TensorBoardFile& operator=(const TensorBoardFile&) = delete;

  void scalar(const std::string& tag, std::int64_t step, double value);
  void text(const std::string& tag, std::int64_t step, const std::string& value);

 private:
  void record(const std::string& event);
  std::string path_;
  std::FILE* file_ = nullptr;
};

}  // namespace trireme::train
