#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/file.h"

// Corpus files made byte by byte, independently of the writer.
namespace trireme::data {

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string out(values.size() * sizeof(T), '\0');
  if (!out.empty()) std::memcpy(out.data(), values.data(), out.size());
  return out;
}

template <class T>
std::string bytes_of(T value) {
  return bytes_of(std::vector<T>{value});
}

inline std::string u16_bytes(const std::vector<int>& ids) {
  return bytes_of(std::vector<std::uint16_t>(ids.begin(), ids.end()));
}

/// The parts of an .idx; the counts follow from the lists unless they are given.
struct IndexParts {
  std::vector<std::int32_t> lengths;
  std::vector<std::int64_t> offsets, boundaries;
  std::uint64_t version = 1;
  std::uint8_t type = 8;
  std::optional<std::uint64_t> sequences, documents;
};

inline std::string index_bytes(const IndexParts& parts) {
  return std::string("MMIDIDX\0\0", 9) + bytes_of(parts.version) + bytes_of(parts.type) +
         bytes_of<std::uint64_t>(parts.sequences.value_or(parts.lengths.size())) +
         bytes_of<std::uint64_t>(parts.documents.value_or(parts.boundaries.size())) + bytes_of(parts.lengths) +
         bytes_of(parts.offsets) + bytes_of(parts.boundaries);
}

/// One sequence a document, packed.
inline std::string packed_index(const std::vector<std::int32_t>& lengths, std::int64_t width = 2,
                                std::uint8_t type = 8) {
  IndexParts parts{.lengths = lengths, .type = type};
  std::int64_t at = 0;
  for (const std::int32_t length : lengths) {
    parts.offsets.push_back(at);
    at += length * width;
  }
  for (std::size_t i = 0; i <= lengths.size(); ++i) parts.boundaries.push_back(static_cast<std::int64_t>(i));
  return index_bytes(parts);
}

inline std::string llmc_bytes(const std::vector<int>& ids, std::int32_t magic = 20240520, std::int32_t version = 1,
                              std::optional<std::int32_t> count = std::nullopt) {
  std::vector<std::int32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = count.value_or(static_cast<std::int32_t>(ids.size()));
  return bytes_of(header) +
         (magic == 20240801 ? bytes_of(std::vector<std::uint32_t>(ids.begin(), ids.end())) : u16_bytes(ids));
}

/// 0, 1, ..., count - 1, each modulo `vocabulary`.
inline std::vector<int> counting(int count, int vocabulary) {
  std::vector<int> ids;
  for (int i = 0; i < count; ++i) ids.push_back(i % vocabulary);
  return ids;
}

/// What `action` is refused with; the code must be `code`.
template <class Action>
std::string refusal(const Action& action, core::ExitCode code = core::ExitCode::bad_data) {
  try {
    action();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "accepted";
}

/// A test with a folder of its own.
class CorpusTest : public testing::Test {
 protected:
  CorpusTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "trireme-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw std::runtime_error("mkdtemp");
    folder_ = pattern;
  }
  ~CorpusTest() override { std::filesystem::remove_all(folder_); }
  std::string put(const std::string& name, std::string_view bytes) const {
    core::write_whole(folder_ / name, bytes, true);
    return path(name);
  }
  /// An indexed dataset of u16 documents; returns its prefix.
  std::string put_pair(const std::string& name, const std::vector<std::vector<int>>& documents) const {
    std::vector<int> stream;
    std::vector<std::int32_t> lengths;
    for (const auto& document : documents) {
      stream.insert(stream.end(), document.begin(), document.end());
      lengths.push_back(static_cast<std::int32_t>(document.size()));
    }
    put(name + ".bin", u16_bytes(stream));
    put(name + ".idx", packed_index(lengths));
    return path(name);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::filesystem::path folder_;
};

}  // namespace trireme::data
