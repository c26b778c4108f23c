#include "data/token_writer.h"

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/file.h"
#include "data/indexed_format.h"
#include "data/llmc_format.h"

namespace trireme::data {

namespace {

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

/// Tokens narrowed to their width on disk.
template <class T>
void write_tokens(core::WriteFile& file, std::span<const std::int32_t> ids) {
  std::vector<T> narrow(ids.begin(), ids.end());
  file.write(std::as_bytes(std::span(narrow)));
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
                  "a document of {} tokens, at most 2^31", ids.size());
    lengths_.push_back(static_cast<std::int32_t>(ids.size()));
    if (wide_)
      write_tokens<std::int32_t>(tokens_, ids);
    else
      write_tokens<std::uint16_t>(tokens_, ids);
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
    tokens_.commit();
    description_.commit();
    index_.commit();
  }

 private:
  static std::filesystem::path with_suffix(std::filesystem::path prefix, const char* suffix) {
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
  explicit Shards(const TokenWriterOptions& options) : options_(options), wide_(options.vocab_size > 65536) {
    core::require(options.shard_tokens > 0 && options.shard_tokens < (std::int64_t{1} << 31), core::ExitCode::usage,
                  "--shard-tokens: {} is not between 1 and 2^31 - 1", options.shard_tokens);
  }

  void add(std::span<const std::int32_t> ids) override {
    while (!ids.empty()) {
      const auto room = static_cast<std::size_t>(options_.shard_tokens) - shard_.size();
      const std::size_t count = std::min(room, ids.size());
      shard_.insert(shard_.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count));
      ids = ids.subspan(count);
      if (std::ssize(shard_) == options_.shard_tokens) finish_shard();
    }
  }

  void commit(std::int64_t, std::int64_t) override {
    if (!shard_.empty()) finish_shard();
    for (const auto& file : files_) file->commit();
  }

 private:
  void finish_shard() {
    std::filesystem::path path = options_.prefix;
    path += fmt::format("_{:06}.bin", files_.size());
    core::WriteFile& file = *files_.emplace_back(std::make_unique<core::WriteFile>(path, options_.overwrite));
    std::array<std::int32_t, kLlmcHeaderWords> header{};
    header[0] = wide_ ? kLlmcMagicU32 : kLlmcMagicU16;
    header[1] = wide_ ? kLlmcVersionU32 : kLlmcVersionU16;
    header[2] = static_cast<std::int32_t>(shard_.size());
    file.write(std::as_bytes(std::span(header)));
    if (wide_)
      write_tokens<std::uint32_t>(file, shard_);
    else
      write_tokens<std::uint16_t>(file, shard_);
    shard_.clear();
  }

  const TokenWriterOptions& options_;
  bool wide_;
  std::vector<std::int32_t> shard_;
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
