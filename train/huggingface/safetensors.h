#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/file.h"

namespace trireme::train {

/// One tensor of a safetensors file. Offsets are bytes from the end of the header.
struct SafeTensor {
  std::string name;
  std::string dtype;  ///< as in the file: "F32"
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::string shape_text() const;  ///< "[61, 32]"
};

inline constexpr std::uint64_t kMaximumHeader = 100'000'000;

/// Checks the first eight bytes' value against the file's size. Throws Error(bad_data).
void check_header_length(std::uint64_t length, std::uint64_t file_size, const std::string& file);

/// The tensors in order of their place, from the JSON header (without its length) of a file of `file_size` bytes. They
/// cover the data without gap or overlap. Throws Error(bad_data) naming `file`, tensor and offsets.
std::vector<SafeTensor> parse_safetensors_header(std::span<const std::byte> header, std::uint64_t file_size,
                                                 const std::string& file);

/// An open file whose header was checked. Throws Error(bad_data).
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  const std::string& path() const { return file_.path(); }
  const std::vector<SafeTensor>& tensors() const { return tensors_; }
  /// Fills `into` with the tensor's bytes from `offset` on.
  void read(const SafeTensor& tensor, std::uint64_t offset, std::span<std::byte> into) const;

 private:
  core::ReadFile file_;
  std::uint64_t data_start_ = 0;
  std::vector<SafeTensor> tensors_;
};

/// Appends the tensor's bytes, row-major, to the file.
using WriteContent = std::function<void(const SafeTensor&, core::WriteFile&)>;

/// Writes name, dtype and shape of `tensors`, wider dtypes first, then by name, each filled by `content`.
void write_safetensors(const std::filesystem::path& path, std::vector<SafeTensor> tensors, const WriteContent& content,
                       bool overwrite);

}  // namespace trireme::train
