// The input is text. Each pattern cuts it without loss; encoding in parts gives the ids of the whole; decoding gives
// the text again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/definition.h"
#include "data/tokenizer/tokenizer.h"

using namespace trireme::data;

namespace {

void demand(bool condition) {
  if (!condition) std::abort();
}

TokenizerDefinition define(Pattern pattern) {
  TokenizerDefinition definition;
  definition.pattern = pattern;
  for (int byte = 0; byte < 256; ++byte) {
    definition.vocabulary.push_back({name_of_bytes(std::string(1, static_cast<char>(byte))), byte});
  }
  for (const auto& [left, right] : {std::pair{32U, 32U}, {'a', 'a'}, {256U, 256U}, {32U, 'a'}, {257U, 257U}}) {
    const auto result = static_cast<std::uint32_t>(definition.vocabulary.size());
    definition.vocabulary.push_back(
        {definition.vocabulary[left].name + definition.vocabulary[right].name, static_cast<std::int32_t>(result)});
    definition.merges.push_back({left, right, result});
  }
  definition.added.push_back({.content = "<|endoftext|>", .id = 261, .special = true});
  return definition;
}

void check(Pattern pattern, const Tokenizer& tokenizer, std::string_view text) {
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t length = piece_length(pattern, rest);
    demand(length >= 1 && length <= rest.size());
    rest.remove_prefix(length);
  }
  for (const SpecialText special : {SpecialText::parse, SpecialText::text}) {
    const std::vector<std::int32_t> ids = tokenizer.encode(text, special);
    demand(tokenizer.decode(ids) == text);
    std::vector<std::int32_t> joined;
    for (const Tokenizer::Part& part : tokenizer.cut(text, special, 5)) tokenizer.encode_part(part, special, joined);
    demand(joined == ids);
    StreamDecoder decoder(tokenizer);
    std::string streamed;
    for (const std::int32_t id : ids) streamed += decoder.push(id);
    demand(streamed + decoder.finish() == text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const Pattern pattern : {Pattern::gpt2, Pattern::llama3, Pattern::qwen, Pattern::characters}) {
    static const Tokenizer tokenizers[] = {
        Tokenizer::make(define(Pattern::gpt2)), Tokenizer::make(define(Pattern::llama3)),
        Tokenizer::make(define(Pattern::qwen)), Tokenizer::make(define(Pattern::characters))};
    check(pattern, tokenizers[static_cast<std::size_t>(pattern)], text);
  }
  return 0;
}
