#include "data/tokenizer/documents.h"

#include <algorithm>
#include <utility>

#include "data/tokenizer/json_line.h"
#include "data/tokenizer/unicode.h"

namespace trireme::data {

namespace {
using core::ExitCode;
constexpr std::uint64_t kBlock = std::uint64_t{4} << 20;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t") == std::string_view::npos; }
}  // namespace

std::string take_text(Record& record, const DocumentOptions& options) {
  if (options.invalid == InvalidUtf8::error) {
    const auto bad = find_invalid_utf8(record.bytes);
    core::require(!bad, ExitCode::bad_data, "{}: byte {} is not UTF-8", record.where(),
                  record.offset + bad.value_or(0));
  }
  const bool replace = options.invalid == InvalidUtf8::replace;
  std::string text =
      record.line == 0 ? std::move(record.bytes) : read_json_text(record.bytes, {options.key, replace}, record.where());
  if (replace && find_invalid_utf8(text)) text = replace_invalid_utf8(text);
  return text;
}

RecordReader::RecordReader(const std::vector<std::filesystem::path>& inputs, DocumentOptions options)
    : options_(std::move(options)) {
  for (const std::filesystem::path& path : inputs) {
    inputs_.push_back({path.string(), options_.jsonl || path.extension() == ".jsonl"});
    total_bytes_ += core::ReadFile(path).size();
  }
}

void RecordReader::open() {
  file_ = std::make_unique<core::ReadFile>(inputs_[input_].path);
  buffer_.clear();
  start_ = 0;
  position_ = 0;
  line_ = 0;
  read_block();
  if (buffer_.starts_with(kByteOrderMark)) start_ = kByteOrderMark.size();
}

bool RecordReader::next(Record& record) {
  while (input_ < inputs_.size()) {
    if (!file_) open();
    record.file = &inputs_[input_].path;
    record.line = 0;
    const bool found = inputs_[input_].jsonl        ? next_line(record)
                       : options_.separator.empty() ? next_whole(record)
                                                    : next_delimited(record, options_.separator);
    if (found) {
      done_bytes_ += record.bytes.size();
      return true;
    }
    file_.reset();
    ++input_;
  }
  return false;
}

// Appends the next block; false at the end of the file.
bool RecordReader::read_block() {
  const std::uint64_t bytes = std::min(kBlock, file_->size() - position_);
  if (bytes == 0) return false;
  buffer_.erase(0, start_);
  start_ = 0;
  const std::size_t before = buffer_.size();
  buffer_.resize(before + bytes);
  file_->read(std::as_writable_bytes(std::span(buffer_).subspan(before)), position_);
  position_ += bytes;
  return true;
}

bool RecordReader::next_whole(Record& record) {
  if (line_++ > 0) return false;
  record.offset = start_;
  record.bytes.resize(file_->size() - start_);
  file_->read(std::as_writable_bytes(std::span(record.bytes)), start_);
  return true;
}

// What follows the last delimiter counts unless it is empty.
bool RecordReader::next_delimited(Record& record, std::string_view delimiter) {
  std::size_t searched = start_;
  std::size_t end = std::string::npos;
  while ((end = buffer_.find(delimiter, searched)) == std::string::npos) {
    const std::size_t pending = buffer_.size() - start_;
    if (!read_block()) break;
    searched = pending - std::min(pending, delimiter.size() - 1);
  }
  record.offset = position_ - (buffer_.size() - start_);
  const std::size_t length = std::min(end, buffer_.size()) - start_;
  if (end == std::string::npos && length == 0) return false;
  record.bytes.assign(buffer_, start_, length);
  start_ = end == std::string::npos ? buffer_.size() : end + delimiter.size();
  return true;
}

bool RecordReader::next_line(Record& record) {
  while (next_delimited(record, "\n")) {
    ++line_;
    if (record.bytes.ends_with('\r')) record.bytes.pop_back();
    if (is_blank(record.bytes)) continue;
    record.line = line_;
    return true;
  }
  return false;
}

}  // namespace trireme::data
