#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::data {

/// A tokenizer file as its JSON says it, unresolved. `position` is the number in the list, from 0.
struct RawDefinition {
  struct Entry {
    std::string name;
    std::int64_t id = 0;
  };
  struct Merge {
    std::string left;
    std::string right;
  };
  nlohmann::json rest;  ///< everything but model.vocab and model.merges
  std::vector<Entry> vocabulary;
  std::vector<Merge> merges;
  bool has_vocabulary = false;
  bool has_merges = false;
};

/// Reads tokenizer.json. Refuses what is not JSON, nests deeper than 64, repeats a key, has ids that are not integers
/// or merges that are not "left right" or ["left", "right"]: Error(bad_data) naming the entry.
RawDefinition read_raw_definition(std::string_view json, const std::string& name);
/// The same for vocab.json: one object of names and ids.
RawDefinition read_raw_vocabulary(std::string_view json, const std::string& name);

/// Splits "left right"; false unless there is exactly one space with something on both sides.
bool split_merge(std::string_view text, RawDefinition::Merge& into);

/// For messages: in quotes, control characters replaced, long names cut.
std::string in_quotes(std::string_view name);

}  // namespace trireme::data
