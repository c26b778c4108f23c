#include "data/indexed_format.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace trireme::data {

using core::ExitCode;
using core::require;

std::int64_t width_of(TokenType type) {
  switch (type) {
    case TokenType::u8:
    case TokenType::i8:
      return 1;
    case TokenType::i16:
    case TokenType::u16:
      return 2;
    case TokenType::i64:
      return 8;
    default:
      return 4;
  }
}

std::string name_of(TokenType type) {
  switch (type) {
    case TokenType::u8:
      return "u8";
    case TokenType::i8:
      return "i8";
    case TokenType::i16:
      return "i16";
    case TokenType::i32:
      return "i32";
    case TokenType::i64:
      return "i64";
    case TokenType::u16:
      return "u16";
    case TokenType::u32:
      return "u32";
  }
  return "?";
}

namespace {

template <class T>
T read_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

struct Header {
  TokenType type;
  std::uint64_t sequences, boundaries;
};

Header parse_header(std::span<const std::byte> index, const std::string& name) {
  const bool magic = index.size() >= kIndexedMagic.size() &&
                     std::memcmp(index.data(), kIndexedMagic.data(), kIndexedMagic.size()) == 0;
  require(magic, ExitCode::bad_data, "{}: not an indexed dataset (it does not begin with MMIDIDX and two zero bytes)",
          name);
  require(index.size() >= kIndexedHeaderBytes, ExitCode::bad_data, "{}: the header needs {} bytes, the file has {}",
          name, kIndexedHeaderBytes, index.size());
  const auto version = read_at<std::uint64_t>(index, 9);
  require(version == 1, ExitCode::bad_data, "{}: version {}, only 1 is known", name, version);
  const auto type = read_at<std::uint8_t>(index, 17);
  require(type != 6 && type != 7, ExitCode::bad_data, "{}: token type {} ({}) is not an integer", name, type,
          type == 6 ? "f64" : "f32");
  require(type >= 1 && type <= 8, ExitCode::bad_data, "{}: token type {} is unknown", name, type);
  return {static_cast<TokenType>(type), read_at<std::uint64_t>(index, 18), read_at<std::uint64_t>(index, 26)};
}

void check_size(std::uint64_t index_bytes, const Header& header, const std::string& name) {
  std::uint64_t sequences = 0, boundaries = 0, total = 0;
  const bool wraps = __builtin_mul_overflow(header.sequences, std::uint64_t{12}, &sequences) ||
                     __builtin_mul_overflow(header.boundaries, std::uint64_t{8}, &boundaries) ||
                     __builtin_add_overflow(sequences, boundaries, &total) ||
                     __builtin_add_overflow(total, kIndexedHeaderBytes, &total);
  require(!wraps && total == index_bytes, ExitCode::bad_data,
          "{}: N = {} sequences and D = {} boundaries need {} bytes, the file has {}", name, header.sequences,
          header.boundaries, wraps ? "more than 2^64" : fmt::format("{}", total), index_bytes);
}

/// Goes over the sequences once: lengths and offsets agree with each other and with the .bin.
class Sequences {
 public:
  Sequences(std::span<const std::byte> index, const Header& header, const std::string& prefix, std::uint64_t bin_bytes,
            bool allow_unused)
      : index_(index), header_(header), prefix_(prefix), bin_bytes_(bin_bytes), allow_unused_(allow_unused) {}

  void read(IndexedLayout& layout, std::vector<std::int64_t>& starts) {
    const auto width = static_cast<std::uint64_t>(width_of(header_.type));
    std::uint64_t end = 0;
    for (std::uint64_t i = 0; i < header_.sequences; ++i) {
      const auto length = read_at<std::int32_t>(index_, kIndexedHeaderBytes + 4 * i);
      const auto offset = read_at<std::int64_t>(index_, kIndexedHeaderBytes + 4 * header_.sequences + 8 * i);
      const auto at = static_cast<std::uint64_t>(offset);
      require(length >= 0, ExitCode::bad_data, "{}.idx: sequence {} has length {}", prefix_, i, length);
      require(offset >= 0, ExitCode::bad_data, "{}.idx: sequence {} starts at byte {}, before the file", prefix_, i,
              offset);
      require(at % width == 0, ExitCode::bad_data,
              "{}.idx: sequence {} starts at byte {}, not a multiple of the token width {}", prefix_, i, offset, width);
      require(at >= end, ExitCode::bad_data, "{}.idx: sequence {} starts at byte {}, sequence {} ends at {}", prefix_,
              i, offset, i ? i - 1 : 0, end);
      cover(end, at);
      starts.push_back(layout.tokens);
      const std::uint64_t bytes = static_cast<std::uint64_t>(length) * width;
      require(at <= bin_bytes_ && bytes <= bin_bytes_ - at, ExitCode::bad_data,
              "{}.bin: sequence {} ends at byte {}, the file has {}", prefix_, i, at + bytes, bin_bytes_);
      if (length > 0) add(layout, at, length);
      end = at + bytes;
    }
    cover(end, bin_bytes_);
    starts.push_back(layout.tokens);
  }

 private:
  void cover(std::uint64_t end, std::uint64_t next) const {
    require(end == next || allow_unused_, ExitCode::bad_data,
            "{}.bin: {} bytes at offset {} belong to no sequence (data.allow_unused_bytes accepts them)", prefix_,
            next - end, end);
  }
  void add(IndexedLayout& layout, std::uint64_t at, std::int64_t length) {
    if (layout.extents.empty() || extent_end_ != at)
      layout.extents.push_back({.offset = at, .first_token = layout.tokens});
    layout.extents.back().tokens += length;
    layout.tokens += length;
    extent_end_ = at + static_cast<std::uint64_t>(length * width_of(header_.type));
  }

  std::span<const std::byte> index_;
  const Header& header_;
  const std::string& prefix_;
  std::uint64_t bin_bytes_;
  bool allow_unused_;
  std::uint64_t extent_end_ = 0;  // bytes
};

void read_documents(std::span<const std::byte> index, const Header& header, const std::string& name,
                    const std::vector<std::int64_t>& starts, IndexedLayout& layout) {
  const std::uint64_t at = kIndexedHeaderBytes + 12 * header.sequences;
  require(header.boundaries >= 1, ExitCode::bad_data, "{}: no document boundary", name);
  std::int64_t before = 0;
  for (std::uint64_t i = 0; i < header.boundaries; ++i) {
    const auto boundary = read_at<std::int64_t>(index, at + 8 * i);
    require(i > 0 || boundary == 0, ExitCode::bad_data, "{}: first document boundary is {}, not 0", name, boundary);
    require(boundary >= before, ExitCode::bad_data, "{}: boundary {} is {} after {}", name, i, boundary, before);
    if (boundary > static_cast<std::int64_t>(header.sequences))
      core::fail(ExitCode::bad_data, "{}: {} is {}, there are {} sequences", name,
                 i + 1 == header.boundaries ? "last document boundary" : fmt::format("document boundary {}", i),
                 boundary, header.sequences);
    if (i > 0) {
      const std::int64_t first = starts[static_cast<std::size_t>(before)];
      const bool empty = starts[static_cast<std::size_t>(boundary)] == first;
      if (empty)
        ++layout.empty_documents;
      else
        layout.document_starts.push_back(first);
    }
    before = boundary;
  }
  require(before == static_cast<std::int64_t>(header.sequences), ExitCode::bad_data,
          "{}: last document boundary is {}, there are {} sequences", name, before, header.sequences);
  layout.documents = static_cast<std::int64_t>(header.boundaries) - 1;
}

}  // namespace

void check_index_head(std::span<const std::byte> head, std::uint64_t index_bytes, const std::string& prefix) {
  const std::string name = prefix + ".idx";
  check_size(index_bytes, parse_header(head, name), name);
}

IndexedLayout parse_index(std::span<const std::byte> index, const std::string& prefix, std::uint64_t bin_bytes,
                          bool allow_unused_bytes) {
  const std::string name = prefix + ".idx";
  const Header header = parse_header(index, name);
  check_size(index.size(), header, name);
  IndexedLayout layout;
  layout.type = header.type;
  std::vector<std::int64_t> starts;
  starts.reserve(header.sequences + 1);
  Sequences(index, header, prefix, bin_bytes, allow_unused_bytes).read(layout, starts);
  read_documents(index, header, name, starts, layout);
  return layout;
}

std::int64_t find_document(std::span<const std::byte> index, std::int64_t token) {
  const Header header = parse_header(index, ".idx");
  check_size(index.size(), header, ".idx");
  std::int64_t end = 0;
  std::uint64_t sequence = 0;
  for (std::uint64_t document = 0; document + 1 < header.boundaries; ++document) {
    const auto boundary =
        read_at<std::uint64_t>(index, kIndexedHeaderBytes + 12 * header.sequences + 8 * (document + 1));
    for (; sequence < std::min(boundary, header.sequences); ++sequence)
      end += read_at<std::int32_t>(index, kIndexedHeaderBytes + 4 * sequence);
    if (token < end) return static_cast<std::int64_t>(document);
  }
  return -1;
}

}  // namespace trireme::data
