#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "model/config.h"

namespace trireme::train {

enum class HfKind { gpt2, llama, qwen3 };

/// "gpt2", "llama", "qwen3": model_type of config.json.
std::string_view name_of(HfKind kind);

/// The kind that has exactly this model's arithmetic. Throws Error(usage) naming the keys that fit none.
HfKind hf_kind(const model::ModelConfig& config);

/// The model a config.json describes. Throws Error(bad_data) naming `file`, field and value for whatever is missing, of
/// a wrong type, or would change the arithmetic in a way that is not understood.
model::ModelConfig config_from_hf(const nlohmann::json& json, const std::string& file);

/// config.json of `config` with tensors of `torch_dtype` ("float32", "bfloat16"). Fields of `original` (the text of the
/// config.json the model came from, or empty) that say nothing about shape or arithmetic are kept.
std::string config_to_hf(const model::ModelConfig& config, std::string_view torch_dtype, const std::string& original);

/// JSON of at most 64 levels, no key twice in an object. Throws Error(bad_data) naming `file` and position.
nlohmann::json parse_json(std::string_view text, const std::string& file);

}  // namespace trireme::train
