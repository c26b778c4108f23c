#include "data/tokenizer/tokenizer.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/definition.h"
#include "data/tokenizer/merger.h"
#include "data/tokenizer/missing_byte.h"
#include "data/tokenizer/pattern.h"
#include "data/tokenizer/piece_cache.h"
#include "data/tokenizer/unicode.h"

namespace trireme::data {

namespace {
using core::ExitCode;

std::atomic<std::uint64_t> next_number{1};

struct ThreadMemory {
  PieceCache cache;
  Merger::Scratch scratch;
  std::string prefixed;
};

ThreadMemory& thread_memory() {
  thread_local ThreadMemory memory;
  return memory;
}

const AddedToken* find_end_of_document(const std::vector<AddedToken>& added) {
  for (const std::string_view name : kEndOfDocumentNames)
    for (const AddedToken& token : added)
      if (token.content == name) return &token;
  return nullptr;
}

using TokenBytes = std::pair<std::int32_t, std::string>;

std::vector<TokenBytes> list_bytes(const TokenizerDefinition& definition) {
  std::vector<TokenBytes> bytes;
  for (const AddedToken& token : definition.added) bytes.emplace_back(token.id, token.content);
  for (const VocabularyEntry& entry : definition.vocabulary)
    bytes.emplace_back(entry.id, bytes_of_name(entry.name).value_or(entry.name));
  // Stable: where an added token is an entry too, the added token comes first and counts.
  std::stable_sort(bytes.begin(), bytes.end(),
                   [](const TokenBytes& a, const TokenBytes& b) { return a.first < b.first; });
  return bytes;
}

std::vector<AddedTokenFinder::Needle> list_needles(const TokenizerDefinition& definition, const AddedToken* end,
                                                   bool normalized) {
  std::vector<AddedTokenFinder::Needle> needles;
  for (const AddedToken& token : definition.added) {
    if (token.normalized != normalized) continue;
    const bool in_form = normalized && definition.nfc;
    needles.push_back({in_form ? normalize_nfc(token.content) : token.content, &token, token.special || &token == end});
  }
  return needles;
}

std::string describe_character(std::string_view text) {
  const int length = utf8_length(text.substr(0, 4));
  if (length == 0) return fmt::format("0x{:02x}", static_cast<unsigned char>(text[0]));
  return fmt::format("U+{:04X}", utf8_code(text, length));
}
}  // namespace

struct Tokenizer::State {
  State(TokenizerDefinition given, std::string text)
      : definition(std::move(given)),
        end(find_end_of_document(definition.added)),
        json(std::move(text)),
        bytes(list_bytes(definition)),
        merger(definition),
        raw(list_needles(definition, end, false)),
        normalized(list_needles(definition, end, true)) {
    core::Sha256 sum;
    sum.update(json);
    sha256 = sum.hex();
  }

  bool is_special(const AddedToken* token) const { return token->special || token == end; }
  void encode_text(std::string_view text, bool begins, std::vector<std::int32_t>& ids) const;
  std::size_t encode_piece(std::string_view piece, ThreadMemory& memory, std::vector<std::int32_t>& ids) const;
  void add_piece(std::string_view piece, std::size_t offset, ThreadMemory& memory,
                 std::vector<std::int32_t>& ids) const;

  TokenizerDefinition definition;
  const AddedToken* end;
  std::string json;
  std::string sha256;
  std::vector<TokenBytes> bytes;  // ascending by id
  Merger merger;
  AddedTokenFinder raw;
  AddedTokenFinder normalized;
  std::uint64_t number = next_number++;
};

std::size_t Tokenizer::State::encode_piece(std::string_view piece, ThreadMemory& memory,
                                           std::vector<std::int32_t>& ids) const {
  if (piece.size() > PieceCache::kMaximumBytes) return merger.append(piece, ids, memory.scratch);
  const std::uint64_t hash = hash_piece(piece);
  PieceCache::Slot& slot = memory.cache.slot_of(hash);
  if (PieceCache::holds(slot, piece, hash)) {
    ids.insert(ids.end(), slot.id, slot.id + slot.ids);
    return Merger::kAllKnown;
  }
  const std::size_t before = ids.size();
  const std::size_t missing = merger.append(piece, ids, memory.scratch);
  if (missing == Merger::kAllKnown) PieceCache::put(slot, piece, hash, std::span(ids).subspan(before));
  return missing;
}

void Tokenizer::State::add_piece(std::string_view piece, std::size_t offset, ThreadMemory& memory,
                                 std::vector<std::int32_t>& ids) const {
  const std::size_t missing = encode_piece(piece, memory, ids);
  if (missing == Merger::kAllKnown) return;
  std::size_t start = missing;  // of the character
  while (start > 0 && (static_cast<unsigned char>(piece[start]) & 0xc0u) == 0x80u) --start;
  throw MissingByte(offset + start, describe_character(piece.substr(start)));
}

// `text` is normalised and holds no added token.
void Tokenizer::State::encode_text(std::string_view text, bool begins, std::vector<std::int32_t>& ids) const {
  ThreadMemory& memory = thread_memory();
  memory.cache.use_for(number);
  const bool prefix = definition.add_prefix_space;
  std::string with_space;
  if (prefix && !definition.split_before_prefix && begins && !text.starts_with(' ')) {
    with_space.append(1, ' ').append(text);
    text = with_space;
  }
  const std::string_view whole = text;
  while (!text.empty()) {
    const std::size_t length = piece_length(definition.pattern, text);
    const std::string_view piece = text.substr(0, length);
    const auto offset = static_cast<std::size_t>(text.data() - whole.data());
    if (prefix && definition.split_before_prefix && !piece.starts_with(' ')) {
      memory.prefixed.assign(1, ' ').append(piece);
      add_piece(memory.prefixed, offset, memory, ids);
    } else {
      add_piece(piece, offset, memory, ids);
    }
    text.remove_prefix(length);
  }
}

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  std::filesystem::path file = path;
  if (std::filesystem::is_directory(path)) {
    file = path / "tokenizer.json";
    const auto vocabulary = path / "vocab.json";
    const auto merges = path / "merges.txt";
    const bool pair = std::filesystem::exists(vocabulary) && std::filesystem::exists(merges);
    if (!std::filesystem::exists(file) && pair)
      return make(read_vocabulary_and_merges(vocabulary, merges, Pattern::gpt2));
    core::require(std::filesystem::exists(file), ExitCode::bad_data,
                  "{}: no tokenizer (looked for tokenizer.json, and for vocab.json with merges.txt)", path.string());
  }
  return parse(core::read_whole(file, kMaximumTokenizerFile), file.string());
}

Tokenizer Tokenizer::parse(std::string_view json, const std::string& name) {
  return Tokenizer(std::make_unique<State>(parse_tokenizer_json(json, name), std::string(json)));
}

Tokenizer Tokenizer::make(TokenizerDefinition definition) {
  std::string json = write_tokenizer_json(definition);
  return Tokenizer(std::make_unique<State>(std::move(definition), std::move(json)));
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, SpecialText special) const {
  std::vector<std::int32_t> ids;
  for (const Part& part : cut(text, special, text.size() + 1)) {
    try {
      encode_part(part, special, ids);
    } catch (const MissingByte& error) {
      throw MissingByte(static_cast<std::uint64_t>(part.text.data() - text.data()) + error.offset(), error.character());
    }
  }
  return ids;
}

std::vector<Tokenizer::Part> Tokenizer::cut(std::string_view text, SpecialText special, std::size_t bytes) const {
  std::vector<Part> parts;
  // Tokens looked for behind the normaliser may hold any text: no cut is safe then.
  const bool may_cut = state_->normalized.empty();
  state_->raw.cut(text, special == SpecialText::parse, [&](const Stretch& stretch) {
    std::string_view rest = stretch.text;
    bool begins = true;
    while (may_cut && !stretch.token && rest.size() > bytes) {
      const std::size_t end = find_cut(rest, bytes);
      if (end == rest.size()) break;
      parts.push_back({rest.substr(0, end), nullptr, begins});
      rest.remove_prefix(end);
      begins = false;
    }
    parts.push_back({rest, stretch.token, begins});
  });
  return parts;
}

std::int64_t Tokenizer::encode_part(const Part& part, SpecialText special, std::vector<std::int32_t>& ids) const {
  const State& state = *state_;
  if (part.token) {
    ids.push_back(part.token->id);
    return state.is_special(part.token) ? 1 : 0;
  }
  std::string composed;
  std::string_view text = part.text;
  if (state.definition.nfc) text = composed = normalize_nfc(text);
  if (state.normalized.empty()) {
    state.encode_text(text, part.begins, ids);
    return 0;
  }
  std::int64_t parsed = 0;
  state.normalized.cut(text, special == SpecialText::parse, [&](const Stretch& stretch) {
    if (!stretch.token) return state.encode_text(stretch.text, true, ids);
    ids.push_back(stretch.token->id);
    if (state.is_special(stretch.token)) ++parsed;
  });
  return parsed;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) {
    const auto found =
        std::lower_bound(state_->bytes.begin(), state_->bytes.end(), id,
                         [](const TokenBytes& token, std::int32_t wanted) { return token.first < wanted; });
    if (found != state_->bytes.end() && found->first == id)
      text += found->second;
    else
      append_utf8(text, 0xfffd);
  }
  return text;
}

std::int64_t Tokenizer::vocab_size() const {
  return state_->bytes.empty() ? 0 : std::int64_t{state_->bytes.back().first} + 1;
}

std::optional<std::int32_t> Tokenizer::end_of_document() const {
  return state_->end ? std::optional(state_->end->id) : std::nullopt;
}

std::optional<std::int32_t> Tokenizer::special(std::string_view token) const {
  for (const AddedToken& added : state_->definition.added)
    if (added.content == token) return added.id;
  return std::nullopt;
}

std::vector<std::string> Tokenizer::special_tokens() const {
  std::vector<const AddedToken*> by_id;
  for (const AddedToken& token : state_->definition.added) by_id.push_back(&token);
  std::sort(by_id.begin(), by_id.end(), [](const auto* a, const auto* b) { return a->id < b->id; });
  std::vector<std::string> names;
  for (const AddedToken* token : by_id) names.push_back(token->content);
  return names;
}

const std::string& Tokenizer::json() const { return state_->json; }
const std::string& Tokenizer::sha256() const { return state_->sha256; }

std::string StreamDecoder::push(std::int32_t id) {
  held_ += tokenizer_.decode(std::span(&id, 1));
  std::size_t keep = 0;
  for (std::size_t count = 1; count <= std::min<std::size_t>(3, held_.size()); ++count)
    if (is_unfinished(std::string_view(held_).substr(held_.size() - count))) keep = count;
  std::string ready = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return ready;
}

std::string StreamDecoder::finish() { return std::exchange(held_, {}); }

}  // namespace trireme::data
