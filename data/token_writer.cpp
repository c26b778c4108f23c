#include "data/token_writer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/file.h"
#include "data/indexed_format.h"
#include "data/llmc_format.h"

namespace trireme::data {

namespace fs = std::filesystem;

namespace {

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

/// Tokens narrowed to their width on disk.
template <class T>
void write_as(core::WriteFile& file, std::span<const std::int32_t> ids) {
  std::array<T, 4096> narrow;
  while (!ids.empty()) {
    const auto block = ids.first(std::min(ids.size(), narrow.size()));
    std::transform(block.begin(), block.end(), narrow.begin(), [](std::int32_t id) { return static_cast<T>(id); });
    file.write(std::as_bytes(std::span(narrow).first(block.size())));
    ids = ids.subspan(block.size());
  }
}

void write_tokens(core::WriteFile& file, bool wide, std::span<const std::int32_t> ids) {
  wide ? write_as<std::uint32_t>(file, ids) : write_as<std::uint16_t>(file, ids);
}

void remove_file(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  core::require(!error, core::ExitCode::storage, "{}: cannot be removed: {}", path.string(), error.message());
}

}  // namespace

class TokenWriter::Format {
 public:
  virtual ~Format() = default;
  virtual void add(std::span<const std::int32_t> ids) = 0;
  virtual void commit(std::int64_t documents, std::int64_t tokens) = 0;
};

class TokenWriter::Indexed : public TokenWriter::Format {
 public:
  explicit Indexed(const TokenWriterOptions& options)
      : options_(options),
        wide_(options.vocab_size >= kIndexedWideVocabulary),
        tokens_(with_suffix(options.prefix, ".bin"), options.overwrite),
        index_(with_suffix(options.prefix, ".idx"), options.overwrite),
        description_(with_suffix(options.prefix, ".json"), options.overwrite) {}

  void add(std::span<const std::int32_t> ids) override {
    core::require(ids.size() < (std::size_t{1} << 31), core::ExitCode::bad_data,
                  "a document of {} tokens, less than 2^31 are accepted", ids.size());
    lengths_.push_back(static_cast<std::int32_t>(ids.size()));
    write_tokens(tokens_, wide_, ids);
  }

  void commit(std::int64_t documents, std::int64_t tokens) override {
    write_index();
    nlohmann::ordered_json description;
    description["format"] = "indexed";
    description["tokenizer_sha256"] = options_.tokenizer_sha256;
    description["vocab_size"] = options_.vocab_size;
    description["eod_id"] = options_.eod_id ? nlohmann::ordered_json(*options_.eod_id) : nullptr;
    description["documents"] = documents;
    description["tokens"] = tokens;
    description_.write(description.dump(2) + "\n");
    tokens_.finish();
    description_.finish();
    index_.finish();
    // An old index must not stand beside new tokens, not even after a crash.
    if (options_.overwrite) remove_file(with_suffix(options_.prefix, ".idx"));
    tokens_.commit();
    description_.commit();
    index_.commit();
  }

 private:
  static fs::path with_suffix(fs::path prefix, const char* suffix) {
    prefix += suffix;
    return prefix;
  }

  void write_index() {
    const std::uint64_t count = lengths_.size();
    index_.write(std::string_view(kIndexedMagic.data(), kIndexedMagic.size()));
    index_.write(bytes_of(std::uint64_t{1}));
    index_.write(bytes_of(wide_ ? std::uint8_t{4} : std::uint8_t{8}));
    index_.write(bytes_of(count));
    index_.write(bytes_of(count + 1));
    index_.write(std::as_bytes(std::span(lengths_)));
    std::int64_t offset = 0;
    for (const std::int32_t length : lengths_) {
      index_.write(bytes_of(offset));
      offset += std::int64_t{length} * (wide_ ? 4 : 2);
    }
    for (std::uint64_t document = 0; document <= count; ++document)
      index_.write(bytes_of(static_cast<std::int64_t>(document)));
  }

  const TokenWriterOptions& options_;
  bool wide_;
  core::WriteFile tokens_, index_, description_;
  std::vector<std::int32_t> lengths_;
};

class TokenWriter::Shards : public TokenWriter::Format {
 public:
  explicit Shards(const TokenWriterOptions& options)
      : options_(options), wide_(options.vocab_size > kLlmcWideVocabulary) {
    core::require(options.shard_tokens > 0 && options.shard_tokens < (std::int64_t{1} << 31), core::ExitCode::usage,
                  "--shard-tokens: {} is not between 1 and 2^31 - 1", options.shard_tokens);
    const std::vector<fs::path> old = existing();
    core::require(options.overwrite || old.empty(), core::ExitCode::run_directory,
                  "{}: exists already (--force replaces it)", old.empty() ? "" : old.front().string());
    begin_shard();
  }

  void add(std::span<const std::int32_t> ids) override {
    while (!ids.empty()) {
      if (in_shard_ == options_.shard_tokens) begin_shard();
      const std::int64_t count = std::min(options_.shard_tokens - in_shard_, std::ssize(ids));
      write_tokens(*files_.back(), wide_, ids.first(static_cast<std::size_t>(count)));
      in_shard_ += count;
      ids = ids.subspan(static_cast<std::size_t>(count));
    }
  }

  void commit(std::int64_t, std::int64_t) override {
    if (in_shard_ == 0) files_.pop_back();
    finish_shard();
    if (options_.overwrite)
      for (const fs::path& old : existing()) remove_file(old);
    for (const auto& file : files_) file->commit();
  }

 private:
  /// Shards of an earlier corpus under this prefix: they would be read along with the new ones.
  std::vector<fs::path> existing() const {
    const fs::path folder = options_.prefix.has_parent_path() ? options_.prefix.parent_path() : ".";
    const std::string begin = options_.prefix.filename().string() + "_", end = ".bin";
    std::vector<fs::path> found;
    std::error_code error;
    for (fs::directory_iterator at(folder, error), last; !error && at != last; at.increment(error)) {
      const std::string name = at->path().filename().string();
      const bool shard = name.size() == begin.size() + kDigits + end.size() && name.starts_with(begin) &&
                         name.ends_with(end) &&
                         std::all_of(name.begin() + std::ssize(begin), name.end() - std::ssize(end),
                                     [](unsigned char c) { return std::isdigit(c) != 0; });
      if (shard) found.push_back(at->path());
    }
    core::require(!error, core::ExitCode::run_directory, "{}: {}", folder.string(), error.message());
    std::sort(found.begin(), found.end());
    return found;
  }

  void begin_shard() {
    finish_shard();
    core::require(files_.size() < kMostShards, core::ExitCode::usage,
                  "--shard-tokens {}: more than {} shards; a larger number makes fewer", options_.shard_tokens,
                  kMostShards);
    fs::path path = options_.prefix;
    path += fmt::format("_{:0{}}.bin", files_.size(), kDigits);
    files_.push_back(std::make_unique<core::WriteFile>(path, options_.overwrite));
    std::array<std::int32_t, kLlmcHeaderWords> header{};
    header[0] = wide_ ? kLlmcMagicU32 : kLlmcMagicU16;
    header[1] = wide_ ? kLlmcVersionU32 : kLlmcVersionU16;
    files_.back()->write(std::as_bytes(std::span(header)));
    in_shard_ = 0;
  }

  /// Closes the file, so that any number of shards may wait for `commit`.
  void finish_shard() {
    if (files_.empty()) return;
    files_.back()->rewrite(kLlmcCountOffset, bytes_of(static_cast<std::int32_t>(in_shard_)));
    files_.back()->finish();
  }

  static constexpr std::size_t kDigits = 6;
  static constexpr std::size_t kMostShards = 1'000'000;
  const TokenWriterOptions& options_;
  bool wide_;
  std::int64_t in_shard_ = 0;
  std::vector<std::unique_ptr<core::WriteFile>> files_;
};

TokenWriter::TokenWriter(TokenWriterOptions options) : options_(std::move(options)) {
  if (options_.format == "indexed")
    format_ = std::make_unique<Indexed>(options_);
  else if (options_.format == "llmc")
    format_ = std::make_unique<Shards>(options_);
  else
    core::fail(core::ExitCode::usage, "format \"{}\" is not written; indexed and llmc are", options_.format);
}

TokenWriter::~TokenWriter() = default;

void TokenWriter::add_document(std::span<const std::int32_t> ids) {
  for (const std::int32_t id : ids)
    core::check(id >= 0 && id < options_.vocab_size, "id {} of a vocabulary of {}", id, options_.vocab_size);
  format_->add(ids);
  ++documents_;
  tokens_ += std::ssize(ids);
}

void TokenWriter::commit() { format_->commit(documents_, tokens_); }

}  // namespace trireme::data
