#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/file.h"

namespace trireme::data {

/// What becomes of bytes that are not UTF-8: stay, become one U+FFFD for each maximal broken part, or are an error.
enum class InvalidUtf8 { keep, replace, error };

struct DocumentOptions {
  bool jsonl = false;          ///< every input is JSONL, whatever its name
  std::string key = "text";    ///< of the text in a JSONL object
  std::string separator = {};  ///< cuts plain text into documents; empty: one file is one document
  InvalidUtf8 invalid = InvalidUtf8::keep;
};

/// A document as it stands in its file: plain text, or a line of JSONL.
struct Record {
  std::string bytes;
  const std::string* file = nullptr;
  std::uint64_t offset = 0;  ///< of `bytes` in the file
  std::uint64_t line = 0;    ///< from 1; 0: plain text

  std::string where() const { return line == 0 ? *file : fmt::format("{}:{}", *file, line); }
};

/// The document's text. Takes the record's bytes. Throws Error(bad_data) naming file, line or byte.
std::string take_text(Record& record, const DocumentOptions& options);

/// Reads the documents of several files, in order. A byte order mark at the start of a file is dropped; so are blank
/// lines of JSONL and a `\r` at a line's end.
class RecordReader {
 public:
  RecordReader(const std::vector<std::filesystem::path>& inputs, DocumentOptions options);

  /// False after the last document.
  bool next(Record& record);
  std::uint64_t total_bytes() const { return total_bytes_; }
  /// Bytes of the documents given so far.
  std::uint64_t done_bytes() const { return done_bytes_; }
  const DocumentOptions& options() const { return options_; }

 private:
  struct Input {
    std::string path;
    bool jsonl;
  };
  void open();
  bool next_whole(Record& record);
  bool next_delimited(Record& record, std::string_view delimiter);
  bool next_line(Record& record);
  bool read_block();

  std::vector<Input> inputs_;
  DocumentOptions options_;
  std::uint64_t total_bytes_ = 0;
  std::uint64_t done_bytes_ = 0;

  std::size_t input_ = 0;  // the one that is open, or comes next
  std::unique_ptr<core::ReadFile> file_;
  std::string buffer_;  // bytes read, from start_ on not given yet
  std::size_t start_ = 0;
  std::uint64_t position_ = 0;  // of the end of buffer_ in the file
  std::uint64_t line_ = 0;
};

}  // namespace trireme::data
