#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/tokenizer/definition.h"

namespace trireme::data {

namespace {
using nlohmann::ordered_json;

ordered_json describe(const AddedToken& token) {
  return {{"id", token.id},          {"content", token.content}, {"single_word", token.single_word},
          {"lstrip", token.lstrip},  {"rstrip", token.rstrip},   {"normalized", token.normalized},
          {"special", token.special}};
}

ordered_json describe_byte_level(bool add_prefix_space, bool use_regex) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", add_prefix_space}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

ordered_json describe_pre_tokenizer(const TokenizerDefinition& definition) {
  if (!definition.split_before_prefix) return describe_byte_level(definition.add_prefix_space, true);
  const ordered_json split{{"type", "Split"},
                           {"pattern", {{"Regex", expression_of(definition.pattern)}}},
                           {"behavior", "Isolated"},
                           {"invert", false}};
  return {{"type", "Sequence"},
          {"pretokenizers", ordered_json::array({split, describe_byte_level(definition.add_prefix_space, false)})}};
}

// Written by hand: an ordered JSON object takes quadratic time to fill.
std::string list_vocabulary(const TokenizerDefinition& definition) {
  std::vector<const VocabularyEntry*> by_id;
  for (const VocabularyEntry& entry : definition.vocabulary) by_id.push_back(&entry);
  std::sort(by_id.begin(), by_id.end(), [](const auto* a, const auto* b) { return a->id < b->id; });
  std::string text = "{";
  for (const VocabularyEntry* entry : by_id) {
    text += text.size() > 1 ? ",\n      " : "\n      ";
    text += ordered_json(entry->name).dump() + ": " + std::to_string(entry->id);
  }
  return text + "\n    }";
}

std::string list_merges(const TokenizerDefinition& definition) {
  const auto has_space = [](const VocabularyEntry& entry) { return entry.name.find(' ') != std::string::npos; };
  const bool pairs = std::any_of(definition.vocabulary.begin(), definition.vocabulary.end(), has_space);
  std::string text = "[";
  for (const Merge& merge : definition.merges) {
    const std::string& left = definition.vocabulary[merge.left].name;
    const std::string& right = definition.vocabulary[merge.right].name;
    text += text.size() > 1 ? ",\n      " : "\n      ";
    text += pairs ? ordered_json::array({left, right}).dump() : ordered_json(left + " " + right).dump();
  }
  return text + (definition.merges.empty() ? "]" : "\n    ]");
}

void add_field(std::string& text, std::string_view key, const ordered_json& value) {
  text += "  " + ordered_json(key).dump() + ": ";
  for (const char c : value.dump(2)) {
    text += c;
    if (c == '\n') text += "  ";
  }
  text += ",\n";
}
}  // namespace

std::string write_tokenizer_json(const TokenizerDefinition& definition) {
  ordered_json added = ordered_json::array();
  for (const AddedToken& token : definition.added) added.push_back(describe(token));
  std::string text = "{\n";
  add_field(text, "version", "1.0");
  add_field(text, "truncation", nullptr);
  add_field(text, "padding", nullptr);
  add_field(text, "added_tokens", added);
  add_field(text, "normalizer", definition.nfc ? ordered_json{{"type", "NFC"}} : ordered_json(nullptr));
  add_field(text, "pre_tokenizer", describe_pre_tokenizer(definition));
  add_field(text, "post_processor", nullptr);
  add_field(text, "decoder", describe_byte_level(true, true));
  text += "  \"model\": {\n    \"type\": \"BPE\",\n";
  for (const char* key : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"})
    text += std::string("    \"") + key + "\": null,\n";
  text += "    \"fuse_unk\": false,\n    \"byte_fallback\": false,\n    \"ignore_merges\": ";
  text += definition.ignore_merges ? "true" : "false";
  text += ",\n    \"vocab\": " + list_vocabulary(definition);
  text += ",\n    \"merges\": " + list_merges(definition);
  return text + "\n  }\n}\n";
}

}  // namespace trireme::data
