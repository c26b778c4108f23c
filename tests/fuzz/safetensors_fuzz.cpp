// The input is a safetensors file. It is refused with the code for bad data, or its tensors tile the data.
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "core/error.h"
#include "train/huggingface/safetensors.h"
#include "train/huggingface/stored_elements.h"

using trireme::core::Error;
using trireme::core::ExitCode;
using trireme::train::SafeTensor;

namespace {

void demand(bool condition) {
  if (!condition) std::abort();
}

void check(std::span<const std::byte> header, std::uint64_t file_size) {
  const auto tensors = trireme::train::parse_safetensors_header(header, file_size, "W.safetensors");
  std::uint64_t at = 0;
  for (const SafeTensor& tensor : tensors) {
    demand(tensor.begin == at && tensor.end >= at);
    demand(trireme::train::stored_bits(tensor.dtype) > 0);
    at = tensor.end;
  }
  demand(at == file_size - 8 - header.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 8) return 0;
  const auto bytes = std::as_bytes(std::span(data, size));
  std::uint64_t length = 0;
  std::memcpy(&length, data, sizeof length);
  try {
    trireme::train::check_header_length(length, size, "W.safetensors");
    check(bytes.subspan(8, length), size);
  } catch (const Error& error) {
    demand(error.code() == ExitCode::bad_data);
    demand(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
  return 0;
}
