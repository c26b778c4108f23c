// The input is a manifest; it is signed first where its last line can hold a sum, so that the parser behind is reached.
// It is refused with the code for checkpoints and one line, or all it says of tensors can be relied on.
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/error.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checksum.h"

using trireme::core::Error;
using trireme::core::ExitCode;
using trireme::train::Manifest;

namespace {

void demand(bool condition) {
  if (!condition) std::abort();
}

/// Everything before the last line, with a line of the right sum.
std::string signed_again(const std::string& text) {
  const std::size_t end = text.empty() ? std::string::npos : text.rfind('\n', text.size() - 2);
  if (end == std::string::npos) return text;
  const std::string summed = text.substr(0, end + 1);
  return summed + fmt::format("\"crc32c\": \"{:08x}\"}}\n", trireme::train::crc32c(std::as_bytes(std::span(summed))));
}

void check(const Manifest& manifest) {
  for (const auto& tensor : manifest.tensors) {
    std::int64_t elements = 1, held = 0;
    for (const std::int64_t extent : tensor.shape) elements *= extent;
    for (const auto& chunk : tensor.chunks) {
      std::int64_t of_chunk = 1;
      demand(chunk.offset.size() == tensor.shape.size() && chunk.extent.size() == tensor.shape.size());
      for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) {
        demand(chunk.offset[axis] >= 0 && chunk.offset[axis] + chunk.extent[axis] <= tensor.shape[axis]);
        of_chunk *= chunk.extent[axis];
      }
      held += of_chunk;
    }
    demand(held == elements);
  }
  const std::string text = manifest.text();
  demand(Manifest::parse(text, "M").tensors.size() == manifest.tensors.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = signed_again({reinterpret_cast<const char*>(data), size});
  try {
    check(Manifest::parse(text, "M"));
  } catch (const Error& error) {
    demand(error.code() == ExitCode::no_checkpoint);
    demand(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
  return 0;
}
