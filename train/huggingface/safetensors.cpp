#include "train/huggingface/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/huggingface/stored_elements.h"

namespace trireme::train {

namespace {

/// Sorts the tensors, gives each its place and returns length and JSON of the header.
std::string lay_out(std::vector<SafeTensor>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const SafeTensor& a, const SafeTensor& b) {
    const int a_bits = stored_bits(a.dtype);
    const int b_bits = stored_bits(b.dtype);
    return a_bits != b_bits ? a_bits > b_bits : a.name < b.name;
  });
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  std::uint64_t at = 0;
  for (SafeTensor& tensor : tensors) {
    std::uint64_t bytes = static_cast<std::uint64_t>(stored_bits(tensor.dtype)) / 8;
    for (const std::uint64_t extent : tensor.shape)
      core::check(!__builtin_mul_overflow(bytes, extent, &bytes), "tensor {} is too large", tensor.name);
    tensor.begin = at;
    tensor.end = at += bytes;
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string json = header.dump();
  json.append((8 - json.size() % 8) % 8, ' ');
  core::check(json.size() <= kMaximumHeader, "a header of {} bytes, at most {}", json.size(), kMaximumHeader);
  const std::uint64_t length = json.size();
  std::string out(sizeof length, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  return out + json;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  core::require(file_.size() >= 8, core::ExitCode::bad_data, "{}: {} bytes are no safetensors file, at least 8",
                file_.path(), file_.size());
  std::uint64_t length = 0;
  file_.read(std::as_writable_bytes(std::span(&length, 1)), 0);
  check_header_length(length, file_.size(), file_.path());
  std::vector<std::byte> header(length);
  file_.read(header, 8);
  tensors_ = parse_safetensors_header(header, file_.size(), file_.path());
  data_start_ = 8 + length;
}

void SafetensorsFile::read(const SafeTensor& tensor, std::uint64_t offset, std::span<std::byte> into) const {
  core::check(offset + into.size() <= tensor.end - tensor.begin, "bytes {}+{} of tensor {}", offset, into.size(),
              tensor.name);
  file_.read(into, data_start_ + tensor.begin + offset);
}

void write_safetensors(const std::filesystem::path& path, std::vector<SafeTensor> tensors, const WriteContent& content,
                       bool overwrite) {
  const std::string header = lay_out(tensors);
  core::WriteFile file(path, overwrite);
  file.write(header);
  for (const SafeTensor& tensor : tensors) {
    content(tensor, file);
    core::check(file.size() == header.size() + tensor.end, "tensor {} has {} bytes, {} were written", tensor.name,
                tensor.end - tensor.begin, file.size() - header.size() - tensor.begin);
  }
  file.commit();
}

}  // namespace trireme::train
