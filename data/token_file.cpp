#include "data/token_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "data/corpus_files.h"
#include "data/llmc_format.h"

namespace trireme::data {

using core::ExitCode;
using core::require;

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

struct BadId {
  std::int64_t at = 0, id = 0;
};

/// Widens tokens as they lie in a file. Returns the first id outside 0 ... limit - 1.
template <class T>
std::optional<BadId> widen(std::span<const std::byte> raw, std::span<std::int32_t> into, std::int64_t limit) {
  const auto at = [&](std::size_t i) {
    T value;
    std::memcpy(&value, raw.data() + i * sizeof(T), sizeof(T));
    return static_cast<std::int64_t>(value);
  };
  const auto bad = [&](std::int64_t id) { return id < 0 || id >= limit; };
  bool any = false;
  for (std::size_t i = 0; i < into.size(); ++i) {
    any |= bad(at(i));
    into[i] = static_cast<std::int32_t>(at(i));
  }
  if (!any) return std::nullopt;
  std::size_t first = 0;
  while (!bad(at(first))) ++first;
  return BadId{static_cast<std::int64_t>(first), at(first)};
}

std::optional<BadId> widen(TokenType type, std::span<const std::byte> raw, std::span<std::int32_t> into,
                           std::int64_t limit) {
  switch (type) {
    case TokenType::u8:
      return widen<std::uint8_t>(raw, into, limit);
    case TokenType::i8:
      return widen<std::int8_t>(raw, into, limit);
    case TokenType::i16:
      return widen<std::int16_t>(raw, into, limit);
    case TokenType::i32:
      return widen<std::int32_t>(raw, into, limit);
    case TokenType::i64:
      return widen<std::int64_t>(raw, into, limit);
    case TokenType::u16:
      return widen<std::uint16_t>(raw, into, limit);
    case TokenType::u32:
      return widen<std::uint32_t>(raw, into, limit);
  }
  core::fail(ExitCode::internal, "token type {}", static_cast<int>(type));
}

std::vector<std::byte> read_all(const core::ReadFile& file) {
  std::vector<std::byte> content(file.size());
  file.read(content, 0);
  return content;
}

}  // namespace

Corpus::Corpus(const CorpusOptions& options) : options_(options) {
  const CorpusFiles found = find_corpus(options.path, options.format, options.key);
  format_ = found.format;
  allow_open_files(found.files.size(), options.path);
  if (format_ == "indexed") open_indexed(found.prefix);
  for (const std::filesystem::path& path : found.files) add_shard(path);
  separator_starts_ = options.separator_at == "auto" ? format_ == "llmc" : options.separator_at == "start";
}

void Corpus::open_indexed(const std::string& prefix) {
  files_.emplace_back(prefix + ".bin");
  index_.emplace(prefix + ".idx");
  std::vector<std::byte> head(std::min<std::uint64_t>(index_->size(), kIndexedHeaderBytes));
  index_->read(head, 0);
  check_index_head(head, index_->size(), prefix);
  IndexedLayout layout = parse_index(read_all(*index_), prefix, files_[0].size(), options_.allow_unused_bytes);
  type_ = layout.type;
  extents_ = std::move(layout.extents);
  document_starts_ = std::move(layout.document_starts);
  documents_ = layout.documents;
  empty_documents_ = layout.empty_documents;
  tokens_ = layout.tokens;
  read_description(prefix);
}

void Corpus::read_description(const std::string& prefix) {
  const std::string name = prefix + ".json";
  if (std::error_code error; !std::filesystem::exists(name, error)) return;
  const auto json = nlohmann::json::parse(core::read_whole(name, kMiB), nullptr, false);
  require(json.is_object(), ExitCode::bad_data, "{}: not a JSON object that describes {}.idx", name, prefix);
  const auto number = [&](const char* key) {
    const auto found = json.find(key);
    require(found != json.end() && found->is_number_integer(), ExitCode::bad_data,
            "{}: no whole number \"{}\" that describes {}.idx", name, key, prefix);
    return found->get<std::int64_t>();
  };
  const auto agree = [&](const char* key, std::int64_t index) {
    require(number(key) == index, ExitCode::bad_data, "{}: {} = {}, the index has {}", name, key, number(key), index);
  };
  agree("tokens", tokens_);
  agree("documents", documents_);
  require(options_.vocab_size == 0 || number("vocab_size") <= options_.vocab_size, ExitCode::bad_data,
          "{}: tokenised with {} ids, model.vocab_size is {}", name, number("vocab_size"), options_.vocab_size);
  if (const auto sum = json.find("tokenizer_sha256"); sum != json.end() && sum->is_string()) tokenizer_sha256_ = *sum;
}

std::int64_t Corpus::read_shard_header(const core::ReadFile& file, TokenType& type) const {
  if (format_ != "llmc") {
    require(file.size() % 2 == 0, ExitCode::bad_data, "{}: {} bytes are not whole uint16 tokens", file.path(),
            file.size());
    return static_cast<std::int64_t>(file.size() / 2);
  }
  std::array<std::int32_t, 3> header{};
  require(file.size() >= kLlmcHeaderBytes, ExitCode::bad_data, "{}: the header needs {} bytes, the file has {}",
          file.path(), kLlmcHeaderBytes, file.size());
  file.read(std::as_writable_bytes(std::span(header)), 0);
  const bool wide = header[0] == kLlmcMagicU32;
  require(wide || header[0] == kLlmcMagicU16, ExitCode::bad_data, "{}: magic {}, llm.c shards have {} or {}",
          file.path(), header[0], kLlmcMagicU16, kLlmcMagicU32);
  const std::int32_t version = wide ? kLlmcVersionU32 : kLlmcVersionU16;
  require(header[1] == version, ExitCode::bad_data, "{}: version {}, only {} is known", file.path(), header[1],
          version);
  type = wide ? TokenType::u32 : TokenType::u16;
  const std::int64_t count = header[2];
  require(count > 0, ExitCode::bad_data, "{}: header says {} tokens, at least 1 is needed; the file has {} bytes",
          file.path(), count, file.size());
  const std::int64_t wanted = static_cast<std::int64_t>(kLlmcHeaderBytes) + count * width_of(type);
  require(static_cast<std::uint64_t>(wanted) == file.size(), ExitCode::bad_data,
          "{}: header says {} tokens = {} bytes, the file has {}", file.path(), count, wanted, file.size());
  return count;
}

void Corpus::add_shard(const std::filesystem::path& path) {
  core::ReadFile file(path);
  TokenType type = TokenType::u16;
  const std::int64_t count = read_shard_header(file, type);
  require(files_.empty() || type == type_, ExitCode::bad_data, "{}: {} tokens, the shards before have {}", file.path(),
          name_of(type), name_of(type_));
  type_ = type;
  if (count > 0) extents_.push_back({files_.size(), format_ == "llmc" ? kLlmcHeaderBytes : 0, tokens_, count});
  tokens_ += count;
  files_.push_back(std::move(file));
}

std::uint64_t Corpus::bytes() const {
  std::uint64_t total = 0;
  for (const core::ReadFile& file : files_) total += file.size();
  return total;
}

void Corpus::read(std::int64_t begin, std::span<std::int32_t> into) const {
  core::check(begin >= 0 && std::ssize(into) <= tokens_ && begin <= tokens_ - std::ssize(into), "tokens {}+{} of {}",
              begin, into.size(), tokens_);
  if (into.empty()) return;
  auto extent = std::upper_bound(extents_.begin(), extents_.end(), begin,
                                 [](std::int64_t at, const Extent& e) { return at < e.first_token; }) -
                1;
  for (; !into.empty(); ++extent) {
    const std::int64_t skip = begin - extent->first_token;
    const std::int64_t count = std::min(std::ssize(into), extent->tokens - skip);
    read_extent(*extent, skip, into.first(static_cast<std::size_t>(count)));
    into = into.subspan(static_cast<std::size_t>(count));
    begin += count;
  }
}

void Corpus::read_extent(const Extent& extent, std::int64_t skip, std::span<std::int32_t> into) const {
  std::array<std::byte, std::size_t{64} << 10> raw;
  const auto width = static_cast<std::size_t>(width_of(type_));
  while (!into.empty()) {
    const std::size_t count = std::min(into.size(), raw.size() / width);
    const auto bytes = std::span(raw).first(count * width);
    files_[extent.file].read(bytes, extent.offset + static_cast<std::uint64_t>(skip) * width);
    if (const auto bad = widen(type_, bytes, into.first(count), id_limit())) bad_id(extent, skip + bad->at, bad->id);
    into = into.subspan(count);
    skip += static_cast<std::int64_t>(count);
  }
}

void Corpus::bad_id(const Extent& extent, std::int64_t at, std::int64_t id) const {
  const core::ReadFile& file = files_[extent.file];
  std::string place = fmt::format("token {}", at);
  if (index_)
    place = fmt::format("token {} (document {})", extent.first_token + at,
                        find_document(read_all(*index_), extent.first_token + at));
  if (options_.vocab_size > 0)
    core::fail(ExitCode::bad_data, "{}: {} is {}, model.vocab_size is {}", file.path(), place, id, options_.vocab_size);
  core::fail(ExitCode::bad_data, "{}: {} is {}, ids are from 0 to 2^31 - 1", file.path(), place, id);
}

bool Corpus::has_documents() const { return !document_starts_.empty() || options_.separator_id >= 0; }

void Corpus::mark_documents(std::int64_t begin, std::span<const std::int32_t> ids,
                            std::span<std::int32_t> first) const {
  const bool indexed = !document_starts_.empty();
  auto start = std::lower_bound(document_starts_.begin(), document_starts_.end(), begin);
  std::int32_t current = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int64_t at = begin + static_cast<std::int64_t>(i);
    bool starts = false;
    if (indexed) {
      starts = start != document_starts_.end() && *start == at;
      if (starts) ++start;
    } else {
      starts = separator_starts_ ? ids[i] == options_.separator_id : i > 0 && ids[i - 1] == options_.separator_id;
    }
    if (starts) current = static_cast<std::int32_t>(i);
    first[i] = current;
  }
}

Corpus::Range Corpus::scan(const std::function<void()>& between) const {
  constexpr std::int64_t block = std::int64_t{1} << 20;
  std::vector<std::int32_t> ids;
  Range range{.smallest = tokens_ ? INT64_MAX : 0, .largest = 0};
  for (std::int64_t begin = 0; begin < tokens_; begin += block) {
    ids.resize(static_cast<std::size_t>(std::min(block, tokens_ - begin)));
    read(begin, ids);
    const auto [low, high] = std::minmax_element(ids.begin(), ids.end());
    range.smallest = std::min<std::int64_t>(range.smallest, *low);
    range.largest = std::max<std::int64_t>(range.largest, *high);
    between();
  }
  return range;
}

std::string Corpus::fingerprint(bool all, const std::function<void()>& between) const {
  core::Sha256 sum;
  sum.update(fmt::format("{} {} {}\n", format_, name_of(type_), index_ ? index_->size() : 0));
  std::vector<std::byte> block;
  const auto take = [&](const core::ReadFile& file, std::uint64_t offset, std::uint64_t bytes) {
    for (std::uint64_t done = 0; done < bytes; done += kMiB) {
      block.resize(std::min(kMiB, bytes - done));
      file.read(block, offset + done);
      sum.update(block);
      between();
    }
  };
  if (index_) take(*index_, 0, index_->size());
  for (const core::ReadFile& file : files_) {
    sum.update(fmt::format("{}\n", file.size()));
    if (all || file.size() <= kScanBytes) {
      take(file, 0, file.size());
      continue;
    }
    constexpr std::uint64_t blocks = 64, length = std::uint64_t{64} << 10;
    take(file, 0, kMiB);
    for (std::uint64_t i = 0; i < blocks; ++i) take(file, (file.size() - length) / (blocks - 1) * i, length);
    take(file, file.size() - kMiB, kMiB);
  }
  return sum.hex();
}

std::string describe_corpus(const std::filesystem::path& path, const std::string& format, bool full) {
  const Corpus corpus({.path = path.string(), .format = format, .key = "PATH"});
  std::string out = fmt::format("corpus {}\n  format      {}, {} tokens\n  tokens      {}\n", corpus.path(),
                                corpus.format(), name_of(corpus.type()), corpus.tokens());
  if (corpus.format() == "indexed")
    out += fmt::format("  documents   {} ({} empty)\n", corpus.documents(), corpus.empty_documents());
  out += fmt::format("  files       {}, {} bytes\n", corpus.files().size(), corpus.bytes());
  if (!corpus.tokenizer_sha256().empty()) out += fmt::format("  tokenizer   sha256 {}\n", corpus.tokenizer_sha256());
  if (full || corpus.scanned_at_start()) {
    const Corpus::Range range = corpus.scan();
    out += fmt::format("  ids         {} to {} (every token was read)\n", range.smallest, range.largest);
  } else {
    out += "  ids         not read (--full reads every token)\n";
  }
  return out + fmt::format("  fingerprint {}{}", corpus.fingerprint(full),
                           full || corpus.scanned_at_start() ? "" : " (of parts)");
}

}  // namespace trireme::data
