#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/file.h"
#include "data/config.h"
#include "data/indexed_format.h"

namespace trireme::data {

/// How a corpus is opened.
struct CorpusOptions {
  std::string path;             ///< as formats.md: PREFIX, file, glob or folder
  std::string format = "auto";  ///< auto, indexed, llmc, raw-u16
  std::string key;              ///< "data.train[0].path", for messages
  std::int64_t vocab_size = 0;  ///< 0: ids are not compared
  bool allow_unused_bytes = false;
  std::int64_t separator_id = -1;
  std::string separator_at = "auto";
};

/// One stream of tokens from files: an indexed dataset, llm.c shards or raw uint16. Every error is Error(bad_data)
/// naming file and position. Reading is thread-safe.
class Corpus {
 public:
  explicit Corpus(const CorpusOptions& options);

  const std::string& path() const { return options_.path; }
  const std::string& format() const { return format_; }
  TokenType type() const { return type_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t documents() const { return documents_; }  ///< 0: no index says
  std::int64_t empty_documents() const { return empty_documents_; }
  std::uint64_t bytes() const;  ///< of the tokens' files
  const std::vector<core::ReadFile>& files() const { return files_; }
  /// From PREFIX.json; empty: not known.
  const std::string& tokenizer_sha256() const { return tokenizer_sha256_; }

  /// Tokens [begin, begin + into.size()). An id outside the vocabulary, or negative, is an error. Allocates nothing.
  void read(std::int64_t begin, std::span<std::int32_t> into) const;

  /// Marks documents in tokens [begin, begin + ids.size()): first[i] is the index, in the range, of the first token of
  /// the document of token i (0 where it began before).
  void mark_documents(std::int64_t begin, std::span<const std::int32_t> ids, std::span<std::int32_t> first) const;
  bool has_documents() const;
  /// A separator that stands at a document's start may be predicted from the document before.
  bool separator_starts() const { return separator_starts_; }
  std::int64_t separator_id() const { return options_.separator_id; }

  /// SHA-256 over format, widths, sizes, the index and tokens: all of a file up to 1 GiB, else its first and last MiB
  /// and 64 evenly spaced blocks of 64 KiB; `all` takes everything. `between` is called between blocks.
  std::string fingerprint(
      bool all, const std::function<void()>& between = [] {}) const;

  /// Reads every token; returns the smallest and largest id.
  struct Range {
    std::int64_t smallest = 0, largest = 0;
  };
  Range scan(const std::function<void()>& between = [] {}) const;
  /// Whether the start of a run scans this corpus whole.
  bool scanned_at_start() const { return bytes() <= kScanBytes; }

 private:
  static constexpr std::uint64_t kScanBytes = std::uint64_t{1} << 30;
  void open_indexed(const std::string& prefix);
  void add_shard(const std::filesystem::path& path);
  std::int64_t read_shard_header(const core::ReadFile& file, TokenType& type) const;
  void read_description(const std::string& prefix);
  void read_extent(const Extent& extent, std::int64_t skip, std::span<std::int32_t> into) const;
  [[noreturn]] void bad_id(const Extent& extent, std::int64_t at, std::int64_t id) const;
  std::int64_t id_limit() const { return options_.vocab_size > 0 ? options_.vocab_size : std::int64_t{1} << 31; }

  CorpusOptions options_;
  std::string format_;
  TokenType type_ = TokenType::u16;
  std::vector<core::ReadFile> files_;
  std::optional<core::ReadFile> index_;
  std::vector<Extent> extents_;
  std::vector<std::int64_t> document_starts_;
  std::int64_t documents_ = 0, empty_documents_ = 0, tokens_ = 0;
  bool separator_starts_ = false;
  std::string tokenizer_sha256_;
};

/// What a corpus holds, for people. `full` scans every token.
std::string describe_corpus(const std::filesystem::path& path, const std::string& format, bool full);

}  // namespace trireme::data
