// The input is an .idx and, in its last eight bytes, the size of the .bin. It is refused with the code for bad data, or
// what it describes lies inside the .bin.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include "core/error.h"
#include "data/indexed_format.h"

using trireme::core::Error;
using trireme::core::ExitCode;
using trireme::data::Extent;
using trireme::data::IndexedLayout;

namespace {

void demand(bool condition) {
  if (!condition) std::abort();
}

void check_extents(const IndexedLayout& layout, std::uint64_t bin_bytes) {
  const auto width = static_cast<std::uint64_t>(trireme::data::width_of(layout.type));
  std::uint64_t end = 0;
  std::int64_t tokens = 0;
  for (const Extent& extent : layout.extents) {
    demand(extent.file == 0 && extent.tokens > 0 && extent.first_token == tokens);
    demand(extent.offset >= end && extent.offset % width == 0 && extent.offset <= bin_bytes);
    demand(static_cast<std::uint64_t>(extent.tokens) <= (bin_bytes - extent.offset) / width);
    end = extent.offset + static_cast<std::uint64_t>(extent.tokens) * width;
    tokens += extent.tokens;
  }
  demand(tokens == layout.tokens);
}

void check_documents(const IndexedLayout& layout, std::span<const std::byte> index) {
  demand(layout.empty_documents >= 0 &&
         layout.documents - layout.empty_documents == std::ssize(layout.document_starts));
  std::int64_t before = -1, document = -1;
  for (const std::int64_t start : layout.document_starts) {
    demand(start > before && start < layout.tokens);
    const std::int64_t found = trireme::data::find_document(index, start);
    demand(found > document && found < layout.documents);
    before = start;
    document = found;
  }
  demand(trireme::data::find_document(index, layout.tokens) == -1);
}

void parse(std::span<const std::byte> index, std::uint64_t bin_bytes, bool allow_unused) {
  try {
    const IndexedLayout layout = trireme::data::parse_index(index, "input", bin_bytes, allow_unused);
    trireme::data::check_index_head(index.first(trireme::data::kIndexedHeaderBytes), index.size(), "input");
    check_extents(layout, bin_bytes);
    check_documents(layout, index);
    const auto width = static_cast<std::uint64_t>(trireme::data::width_of(layout.type));
    demand(allow_unused || static_cast<std::uint64_t>(layout.tokens) * width == bin_bytes);
  } catch (const Error& error) {
    demand(error.code() == ExitCode::bad_data);
    demand(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::uint64_t bin_bytes = 0;
  if (size < sizeof(bin_bytes)) return 0;
  const std::span input(reinterpret_cast<const std::byte*>(data), size);
  std::memcpy(&bin_bytes, input.last(sizeof(bin_bytes)).data(), sizeof(bin_bytes));
  for (const bool allow_unused : {false, true}) parse(input.first(size - sizeof(bin_bytes)), bin_bytes, allow_unused);
  return 0;
}
