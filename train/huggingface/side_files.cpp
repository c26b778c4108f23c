#include "train/huggingface/side_files.h"

#include <algorithm>

#include "core/error.h"
#include "train/huggingface/config_json.h"

namespace trireme::train {

namespace {

/// One more than the highest integer among the values of `vocabulary`; a list counts its entries.
std::uint64_t size_of_vocabulary(const nlohmann::json& vocabulary) {
  if (vocabulary.is_array()) return vocabulary.size();
  std::uint64_t size = 0;
  if (!vocabulary.is_object()) return size;
  for (const auto& [token, id] : vocabulary.items())
    if (id.is_number_unsigned()) size = std::max(size, id.get<std::uint64_t>() + 1);
  return size;
}

std::uint64_t size_of_tokenizer(const nlohmann::json& json) {
  std::uint64_t size = 0;
  if (!json.is_object()) return size;
  if (json.contains("model") && json["model"].is_object() && json["model"].contains("vocab"))
    size = size_of_vocabulary(json["model"]["vocab"]);
  if (json.contains("added_tokens") && json["added_tokens"].is_array())
    for (const auto& token : json["added_tokens"])
      if (token.is_object() && token.contains("id") && token["id"].is_number_unsigned())
        size = std::max(size, token["id"].get<std::uint64_t>() + 1);
  return size;
}

}  // namespace

void check_tokenizer_size(const std::vector<SideFile>& files, std::int64_t vocab_size,
                          const std::filesystem::path& directory) {
  for (const char* name : {"tokenizer.json", "vocab.json"}) {
    const auto file = std::find_if(files.begin(), files.end(), [&](const SideFile& f) { return f.name == name; });
    if (file == files.end()) continue;
    const std::string path = (directory / name).string();
    const nlohmann::json json = parse_json(file->content, path);
    const std::uint64_t size =
        name == std::string_view("vocab.json") ? size_of_vocabulary(json) : size_of_tokenizer(json);
    core::require(size <= static_cast<std::uint64_t>(vocab_size), core::ExitCode::bad_data,
                  "{}: {} ids, config.json has vocab_size = {}", path, size, vocab_size);
    return;
  }
}

}  // namespace trireme::train
