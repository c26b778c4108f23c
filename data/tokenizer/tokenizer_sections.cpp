#include "data/tokenizer/tokenizer_sections.h"

#include <algorithm>
#include <initializer_list>

#include "core/error.h"

namespace trireme::data {

namespace {
using core::ExitCode;
using nlohmann::json;

/// A value with its place, for messages: `tokenizer.json: pre_tokenizer.pattern`.
struct Section {
  const json& value;
  std::string where;

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    core::fail(ExitCode::bad_data, "{}: {}", where, fmt::format(text, std::forward<Args>(args)...));
  }
  std::string shown() const { return shown(value); }
  static std::string shown(const json& value) {
    if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
    if (value.is_structured()) return value.is_object() ? "an object" : "an array";
    return value.dump();
  }

  bool has(const char* key) const { return value.contains(key) && !value.at(key).is_null(); }
  Section at(const char* key) const {
    if (!value.contains(key)) refuse("key \"{}\" is missing", key);
    return {value.at(key), (where.ends_with(':') ? where + " " : where + ".") + key};
  }
  void want_object() const {
    if (!value.is_object()) refuse("{} is not an object", shown());
  }
  void want_keys(std::initializer_list<std::string_view> known) const {
    want_object();
    for (const auto& [key, item] : value.items())
      if (std::find(known.begin(), known.end(), key) == known.end())
        refuse("key {} is not known; accepted: {}", in_quotes(key), fmt::join(known, ", "));
  }
  std::string text(const char* key) const {
    const Section item = at(key);
    if (!item.value.is_string()) item.refuse("{} is not a string", item.shown());
    return item.value.get<std::string>();
  }
  bool flag(const char* key, bool fallback) const {
    if (!value.contains(key)) return fallback;
    const Section item = at(key);
    if (!item.value.is_boolean()) item.refuse("{} is neither true nor false", item.shown());
    return item.value.get<bool>();
  }
  void want_text(const char* key, std::string_view wanted) const {
    const std::string found = text(key);
    if (found != wanted) at(key).refuse("{} is not supported; accepted: \"{}\"", in_quotes(found), wanted);
  }
};

AddedToken read_added_token(const Section& section) {
  section.want_keys({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  AddedToken token;
  token.content = section.text("content");
  const Section id = section.at("id");
  const bool integer =
      id.value.is_number_unsigned() || (id.value.is_number_integer() && id.value.get<std::int64_t>() >= 0);
  if (!integer || id.value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT32_MAX))
    id.refuse("{} of {} is not an id (an integer from 0 to 2147483647)", id.shown(), in_quotes(token.content));
  if (token.content.empty() || token.content.size() > kMaximumName)
    section.at("content").refuse("{} bytes, accepted are 1 to {}", token.content.size(), kMaximumName);
  token.id = id.value.get<std::int32_t>();
  token.special = section.flag("special", false);
  token.normalized = section.flag("normalized", !token.special);
  token.lstrip = section.flag("lstrip", false);
  token.rstrip = section.flag("rstrip", false);
  token.single_word = section.flag("single_word", false);
  return token;
}

void read_added_tokens(const Section& section, TokenizerDefinition& into) {
  if (!section.value.is_array()) section.refuse("{} is not an array", section.shown());
  for (std::size_t i = 0; i < section.value.size(); ++i)
    into.added.push_back(read_added_token({section.value[i], fmt::format("{}[{}]", section.where, i)}));
}

void read_normalizer(const Section& section, TokenizerDefinition& into) {
  section.want_keys({"type"});
  section.want_text("type", "NFC");
  into.nfc = true;
}

void read_byte_level(const Section& section, TokenizerDefinition& into, bool wanted_regex) {
  section.want_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  section.want_text("type", "ByteLevel");
  into.add_prefix_space = section.flag("add_prefix_space", true);
  const bool regex = section.flag("use_regex", true);
  if (regex != wanted_regex)
    section.refuse("use_regex {} is not supported here; accepted: ByteLevel alone with true, behind a Split with false",
                   regex);
}

void read_split(const Section& section, TokenizerDefinition& into) {
  section.want_keys({"type", "pattern", "behavior", "invert"});
  section.want_text("type", "Split");
  section.want_text("behavior", "Isolated");
  if (section.flag("invert", false)) section.refuse("invert true is not supported; accepted: false");
  const Section pattern = section.at("pattern");
  pattern.want_keys({"Regex"});
  const std::string expression = pattern.text("Regex");
  const auto known = find_pattern(expression);
  if (!known)
    pattern.refuse("{} is not a known pattern; accepted are exactly those of GPT-2, Llama 3, Qwen and [\\s\\S]",
                   in_quotes(expression));
  into.pattern = *known;
}

void read_pre_tokenizer(const Section& section, TokenizerDefinition& into) {
  section.want_object();
  const std::string type = section.text("type");
  if (type == "ByteLevel") return read_byte_level(section, into, true);
  if (type != "Sequence")
    section.at("type").refuse("{} is not supported; accepted: ByteLevel, or a Sequence of Split and ByteLevel",
                              in_quotes(type));
  section.want_keys({"type", "pretokenizers"});
  const Section parts = section.at("pretokenizers");
  if (!parts.value.is_array() || parts.value.size() != 2)
    parts.refuse("{} parts; accepted: Split, then ByteLevel", parts.value.is_array() ? parts.value.size() : 0);
  read_split({parts.value[0], parts.where + "[0]"}, into);
  read_byte_level({parts.value[1], parts.where + "[1]"}, into, false);
  into.split_before_prefix = true;
}

// Settings of other kinds of BPE: null, false, empty and zero mean that they are not used.
void want_unused(const Section& model, const char* key) {
  if (!model.has(key)) return;
  const Section item = model.at(key);
  const json& value = item.value;
  const bool unused = value == false || value == "" || (value.is_number() && value == 0);
  if (!unused) item.refuse("{} is not supported; accepted: null, false or empty", item.shown());
}

void read_model(const Section& model, const RawDefinition& raw, TokenizerDefinition& into) {
  model.want_object();
  if (model.value.contains("type")) model.want_text("type", "BPE");
  model.want_keys({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                   "byte_fallback", "ignore_merges", "vocab", "merges"});
  for (const char* key :
       {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback"})
    want_unused(model, key);
  into.ignore_merges = model.flag("ignore_merges", false);
  if (!raw.has_vocabulary) model.refuse("vocab is missing or no object");
  if (!raw.has_merges) model.refuse("merges is missing or no array");
}
}  // namespace

void read_sections(const RawDefinition& raw, const std::string& file, TokenizerDefinition& into) {
  const Section root{raw.rest, file + ":"};
  if (!raw.rest.is_object()) core::fail(ExitCode::bad_data, "{}: not a JSON object", file);
  root.want_keys({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
                  "decoder", "model"});
  if (root.has("version") && raw.rest.at("version") != "1.0")
    root.at("version").refuse("{} is not supported; accepted: \"1.0\"", root.at("version").shown());
  read_model(root.at("model"), raw, into);
  if (root.has("added_tokens")) read_added_tokens(root.at("added_tokens"), into);
  if (root.has("normalizer")) read_normalizer(root.at("normalizer"), into);
  read_pre_tokenizer(root.at("pre_tokenizer"), into);
  if (root.has("decoder")) root.at("decoder").want_text("type", "ByteLevel");
}

}  // namespace trireme::data
