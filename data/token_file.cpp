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

constexpr std::uint64_t kLargestIndex = std::uint64_t{1} << 36;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

template <class T>
void widen(std::span<const std::byte> raw, std::span<std::int64_t> into) {
  for (std::size_t i = 0; i < into.size(); ++i) {
    T value;
    std::memcpy(&value, raw.data() + i * sizeof(T), sizeof(T));
    into[i] = static_cast<std::int64_t>(value);
  }
}

void widen(TokenType type, std::span<const std::byte> raw, std::span<std::int64_t> into) {
  switch (type) {
    case TokenType::u8:
      return widen<std::uint8_t>(raw, into);
    case TokenType::i8:
      return widen<std::int8_t>(raw, into);
    case TokenType::i16:
      return widen<std::int16_t>(raw, into);
    case TokenType::i32:
      return widen<std::int32_t>(raw, into);
    case TokenType::i64:
      return widen<std::int64_t>(raw, into);
    case TokenType::u16:
      return widen<std::uint16_t>(raw, into);
    case TokenType::u32:
      return widen<std::uint32_t>(raw, into);
  }
}

}  // namespace

Corpus::Corpus(const CorpusOptions& options) : options_(options) {
  const CorpusFiles found = find_corpus(options.path, options.format, options.key);
  format_ = found.format;
  if (format_ == "indexed")
    open_indexed(found.prefix);
  else
    open_files(found.files, format_ == "llmc");
  separator_starts_ = options.separator_at == "auto" ? format_ == "llmc" : options.separator_at == "start";
}

void Corpus::open_indexed(const std::string& prefix) {
  files_.emplace_back(prefix + ".bin");
  index_ = core::read_whole(prefix + ".idx", kLargestIndex);
  IndexedLayout layout =
      parse_index(std::as_bytes(std::span(index_)), prefix, files_[0].size(), options_.allow_unused_bytes);
  type_ = layout.type;
  extents_ = std::move(layout.extents);
  document_starts_ = std::move(layout.document_starts);
  documents_ = layout.documents;
  empty_documents_ = layout.empty_documents;
  tokens_ = layout.tokens;
  check_description(prefix);
}

void Corpus::check_description(const std::string& prefix) const {
  const std::string name = prefix + ".json";
  if (!std::filesystem::exists(name)) return;
  const auto json = nlohmann::json::parse(core::read_whole(name, kMiB), nullptr, false);
  require(json.is_object(), ExitCode::bad_data, "{}: not a JSON object", name);
  const auto number = [&](const char* key) -> std::int64_t {
    const auto found = json.find(key);
    return found != json.end() && found->is_number_integer() ? found->get<std::int64_t>() : -1;
  };
  require(number("tokens") == tokens_, ExitCode::bad_data, "{}: tokens = {}, the index has {}", name, number("tokens"),
          tokens_);
  require(number("documents") == documents_, ExitCode::bad_data, "{}: documents = {}, the index has {}", name,
          number("documents"), documents_);
  const std::int64_t vocabulary = number("vocab_size");
  require(options_.vocab_size == 0 || vocabulary <= options_.vocab_size, ExitCode::bad_data,
          "{}: tokenised with {} ids, model.vocab_size is {}", name, vocabulary, options_.vocab_size);
}

void Corpus::open_files(const std::vector<std::filesystem::path>& files, bool llmc) {
  for (const std::filesystem::path& path : files) add_shard(path, llmc);
}

void Corpus::add_shard(const std::filesystem::path& path, bool llmc) {
  core::ReadFile file(path);
  TokenType type = TokenType::u16;
  std::int64_t count = static_cast<std::int64_t>(file.size() / 2);
  if (llmc) {
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
    count = header[2];
    const std::int64_t wanted = static_cast<std::int64_t>(kLlmcHeaderBytes) + count * width_of(type);
    require(count > 0 && wanted == static_cast<std::int64_t>(file.size()), ExitCode::bad_data,
            "{}: header says {} tokens = {} bytes, the file has {}", file.path(), count, wanted, file.size());
  } else {
    require(file.size() % 2 == 0, ExitCode::bad_data, "{}: {} bytes are not whole uint16 tokens", file.path(),
            file.size());
  }
  require(files_.empty() || type == type_, ExitCode::bad_data, "{}: {} tokens, the shards before have {}", file.path(),
          name_of(type), name_of(type_));
  type_ = type;
  extents_.push_back({files_.size(), llmc ? kLlmcHeaderBytes : 0, tokens_, count});
  tokens_ += count;
  files_.push_back(std::move(file));
}

std::uint64_t Corpus::bytes() const {
  std::uint64_t total = 0;
  for (const core::ReadFile& file : files_) total += file.size();
  return total;
}

void Corpus::read(std::int64_t begin, std::span<std::int32_t> into) const {
  core::check(begin >= 0 && begin + std::ssize(into) <= tokens_, "tokens {}+{} of {}", begin, into.size(), tokens_);
  auto extent = std::upper_bound(extents_.begin(), extents_.end(), begin,
                                 [](std::int64_t at, const Extent& e) { return at < e.first_token; });
  if (extent != extents_.begin()) --extent;
  const auto width = static_cast<std::size_t>(width_of(type_));
  std::vector<std::byte> raw;
  while (!into.empty()) {
    const std::int64_t skip = begin - extent->first_token;
    const std::int64_t count = std::min<std::int64_t>(std::ssize(into), extent->tokens - skip);
    if (count > 0) {
      raw.resize(static_cast<std::size_t>(count) * width);
      const core::ReadFile& file = files_[extent->file];
      file.read(raw, extent->offset + static_cast<std::uint64_t>(skip) * width);
      convert(raw, into.first(static_cast<std::size_t>(count)), begin, file);
      into = into.subspan(static_cast<std::size_t>(count));
      begin += count;
    }
    ++extent;
  }
}

void Corpus::convert(std::span<const std::byte> raw, std::span<std::int32_t> into, std::int64_t begin,
                     const core::ReadFile& file) const {
  std::vector<std::int64_t> wide(into.size());
  widen(type_, raw, wide);
  const std::int64_t limit = options_.vocab_size > 0 ? options_.vocab_size : std::int64_t{1} << 31;
  for (std::size_t i = 0; i < wide.size(); ++i) {
    if (wide[i] < 0 || wide[i] >= limit) bad_id(begin + static_cast<std::int64_t>(i), wide[i], file);
    into[i] = static_cast<std::int32_t>(wide[i]);
  }
}

void Corpus::bad_id(std::int64_t at, std::int64_t id, const core::ReadFile& file) const {
  const auto after = std::upper_bound(document_starts_.begin(), document_starts_.end(), at);
  const std::string document =
      document_starts_.empty() ? "" : fmt::format(" (document {})", after - document_starts_.begin() - 1);
  core::fail(ExitCode::bad_data, "{}: token {}{} is {}, model.vocab_size is {}", file.path(), at, document, id,
             options_.vocab_size);
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
  sum.update(fmt::format("{} {} {}\n", format_, name_of(type_), index_.size()));
  sum.update(index_);
  std::vector<std::byte> block;
  const auto take = [&](const core::ReadFile& file, std::uint64_t offset, std::uint64_t bytes) {
    for (std::uint64_t done = 0; done < bytes; done += kMiB) {
      block.resize(std::min(kMiB, bytes - done));
      file.read(block, offset + done);
      sum.update(block);
      between();
    }
  };
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
  std::string out = fmt::format("corpus {}\n  format     {}, {} tokens\n  tokens     {}\n", corpus.path(),
                                corpus.format(), name_of(corpus.type()), corpus.tokens());
  if (corpus.format() == "indexed")
    out += fmt::format("  documents  {} ({} empty)\n", corpus.documents(), corpus.empty_documents());
  out += fmt::format("  bytes      {}\n", corpus.bytes());
  if (full || corpus.scanned_at_start()) {
    const Corpus::Range range = corpus.scan();
    out += fmt::format("  ids        {} to {} (all tokens read)\n", range.smallest, range.largest);
  }
  return out + fmt::format("  fingerprint {}\n", corpus.fingerprint(full));
}

}  // namespace trireme::data
