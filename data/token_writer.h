#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace trireme::data {

struct TokenWriterOptions {
  std::filesystem::path prefix;
  std::string format = "indexed";  ///< indexed: PREFIX.bin, .idx, .json; llmc: PREFIX_000000.bin, ...
  std::int64_t vocab_size = 0;
  std::optional<std::int32_t> eod_id;
  std::string tokenizer_sha256;
  std::int64_t shard_tokens = 100'000'000;  ///< llmc: tokens of a shard
  bool overwrite = false;
};

/// Writes a corpus document by document; files appear under their names at `commit`, the index last, and older ones of
/// the same prefix are gone then. Memory is four bytes a document (indexed) or constant (llmc). Throws
/// Error(run_directory) at once where a file exists and `overwrite` is not set.
class TokenWriter {
 public:
  explicit TokenWriter(TokenWriterOptions options);
  ~TokenWriter();
  /// As it is to be stored: the end-of-document id at the end (indexed) or the separator at the start (llmc) is the
  /// caller's.
  void add_document(std::span<const std::int32_t> ids);
  void commit();
  std::int64_t documents() const { return documents_; }
  std::int64_t tokens() const { return tokens_; }

 private:
  class Format;
  class Indexed;
  class Shards;
  TokenWriterOptions options_;
  std::unique_ptr<Format> format_;
  std::int64_t documents_ = 0;
  std::int64_t tokens_ = 0;
};

}  // namespace trireme::data
