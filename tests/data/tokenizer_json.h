#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "data/tokenizer/byte_alphabet.h"

namespace trireme::data {

/// A small tokenizer.json: the 256 bytes (id = byte), then `merges` of the names "left right", each a new id.
inline nlohmann::json small_tokenizer(const std::vector<std::string>& merges = {}) {
  nlohmann::json vocabulary;
  int next = 0;
  for (; next < 256; ++next) vocabulary[name_of_bytes(std::string(1, static_cast<char>(next)))] = next;
  for (const std::string& merge : merges) {
    std::string name = merge;
    name.erase(name.find(' '), 1);
    if (!vocabulary.contains(name)) vocabulary[name] = next++;
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", nlohmann::json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer",
           {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocabulary},
            {"merges", merges}}}};
}

inline nlohmann::json added_token(const std::string& content, int id, bool special = true) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

/// The message of the Error that `work` throws, "" when it throws none; the code must be `code`.
template <class Work>
std::string error_of(const Work& work, core::ExitCode code = core::ExitCode::bad_data) {
  try {
    work();
  } catch (const core::Error& error) {
    if (error.code() != code) return fmt::format("code {}: {}", static_cast<int>(error.code()), error.what());
    return error.what();
  }
  return "";
}

}  // namespace trireme::data
