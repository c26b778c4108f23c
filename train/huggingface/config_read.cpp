#include <array>
#include <unordered_set>

#include "core/error.h"
#include "core/log.h"
#include "train/huggingface/config_json.h"
#include "train/huggingface/hf_fields.h"

namespace trireme::train {

namespace {

using core::ExitCode;

constexpr std::int64_t kMaximumLayers = 10'000;
constexpr std::int64_t kMaximumExtent = 1 << 24;
constexpr std::int64_t kMaximumVocabulary = 1 << 30;

/// A field that changes what a model computes unless it has this value (or is absent or null).
struct Neutral {
  const char* key;
  const char* value;  ///< JSON
};
constexpr std::array kNeutral{
    Neutral{"is_encoder_decoder", "false"},
    Neutral{"add_cross_attention", "false"},
    Neutral{"quantization_config", "null"},
    Neutral{"pruned_heads", "{}"},
    Neutral{"scale_attn_weights", "true"},
    Neutral{"scale_attn_by_inverse_layer_idx", "false"},
    Neutral{"position_embedding_type", "\"absolute\""},
    Neutral{"partial_rotary_factor", "1"},
    Neutral{"rotary_pct", "1"},
    Neutral{"rope_interleaved", "false"},
    Neutral{"no_rope_layers", "null"},
    Neutral{"no_rope_layer_interval", "null"},
    Neutral{"alibi", "false"},
    Neutral{"parallel_residual", "false"},
    Neutral{"use_parallel_residual", "false"},
    Neutral{"clip_qkv", "null"},
    Neutral{"attn_logit_softcapping", "null"},
    Neutral{"final_logit_softcapping", "null"},
    Neutral{"logit_scale", "1"},
    Neutral{"logits_scaling", "1"},
    Neutral{"embedding_multiplier", "1"},
    Neutral{"residual_multiplier", "1"},
    Neutral{"attention_multiplier", "null"},
    Neutral{"query_pre_attn_scalar", "null"},
    Neutral{"num_experts", "0"},
    Neutral{"num_local_experts", "0"},
    Neutral{"attention_chunk_size", "null"},
};

void check_neutral(const HfFields& fields) {
  for (const Neutral& neutral : kNeutral) {
    const nlohmann::json* value = fields.find(neutral.key);
    if (value && *value != nlohmann::json::parse(neutral.value)) fields.refuse(neutral.key, neutral.value);
  }
}

double norm_eps(const HfFields& fields, const char* key, double absent) {
  const double eps = fields.number(key, absent);
  core::require(eps > 0 && eps < 1, ExitCode::bad_data, "{}: {} is not between 0 and 1", fields.file(),
                fields.shown(key));
  return eps;
}

/// The base in `key` ("rope_parameters", "rope_scaling"), if it is there; refuses every scaled kind of rotary
/// positions.
std::optional<double> rope_base_in(const HfFields& fields, const char* key) {
  if (!fields.find(key)) return std::nullopt;
  const HfFields rope = fields.object(key);
  const char* type_key = rope.find("rope_type") ? "rope_type" : "type";
  for (const char* name : {"rope_type", "type"})
    if (rope.text(name, "default") != "default") rope.refuse(name, "\"default\"");
  if (const auto part = rope.number("partial_rotary_factor"); part && *part != 1)
    rope.refuse("partial_rotary_factor", "1");
  const bool said = rope.find(type_key) != nullptr;
  for (const auto& [name, value] : rope.json().items()) {
    const bool known = name == "rope_type" || name == "type" || name == "rope_theta" || name == "partial_rotary_factor";
    if (!known && !value.is_null() && (!said || value.is_structured())) rope.refuse(name, "rope_type \"default\"");
  }
  return rope.number("rope_theta");
}

double rope_theta(const HfFields& fields) {
  std::optional<double> theta = fields.number("rope_theta");
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const std::optional<double> inner = rope_base_in(fields, key);
    core::require(!inner || !theta || *inner == *theta, ExitCode::bad_data,
                  "{}: {}.rope_theta = {} and rope_theta = {} differ", fields.file(), key, inner.value_or(0),
                  theta.value_or(0));
    if (inner) theta = inner;
  }
  const double base = theta.value_or(10000);
  core::require(base > 0 && base <= 1e12, ExitCode::bad_data, "{}: rope_theta = {} is outside 0 to 1e12", fields.file(),
                base);
  return base;
}

void check_window(const HfFields& fields, std::int64_t layers) {
  const nlohmann::json* types = fields.find("layer_types");
  const bool window = fields.flag("use_sliding_window", false);
  bool full = types != nullptr;
  if (types) {
    if (!types->is_array()) fields.refuse("layer_types", "a list of \"full_attention\"");
    const bool idle = fields.find("use_sliding_window") && !window;
    for (const auto& type : *types) {
      full = full && type == "full_attention";
      if (type != "full_attention" && !(idle && type == "sliding_attention"))
        fields.refuse("layer_types", "every entry \"full_attention\"");
    }
    full = full && types->size() == static_cast<std::size_t>(layers);
  }
  if (window && !full) fields.refuse("use_sliding_window", "false, or every entry of layer_types \"full_attention\"");
}

model::ModelConfig read_gpt2(const HfFields& fields) {
  model::ModelConfig config;
  config.layers = fields.integer("n_layer", kMaximumLayers);
  config.hidden = fields.integer("n_embd", kMaximumExtent);
  config.heads = fields.integer("n_head", kMaximumExtent);
  config.ffn_hidden = fields.integer("n_inner", kMaximumExtent, 4 * config.hidden);
  config.vocab_size = fields.integer("vocab_size", kMaximumVocabulary);
  config.sequence_length = fields.integer("n_positions", kMaximumExtent);
  config.norm_eps = norm_eps(fields, "layer_norm_epsilon", 1e-5);
  config.tied_embeddings = fields.flag("tie_word_embeddings", true);
  const std::string activation = fields.text("activation_function", "gelu_new");
  if (activation != "gelu_new" && activation != "gelu_pytorch_tanh")
    fields.refuse("activation_function", "gelu_new, gelu_pytorch_tanh");
  return config;
}

model::ModelConfig read_llama(const HfFields& fields, bool qwen3) {
  model::ModelConfig config;
  config.norm = "rmsnorm";
  config.activation = "swiglu";
  config.position = "rope";
  config.qk_norm = qwen3;
  config.layers = fields.integer("num_hidden_layers", kMaximumLayers);
  config.hidden = fields.integer("hidden_size", kMaximumExtent);
  config.heads = fields.integer("num_attention_heads", kMaximumExtent);
  config.kv_heads = fields.integer("num_key_value_heads", kMaximumExtent, config.heads);
  config.head_dim = fields.integer("head_dim", kMaximumExtent, qwen3 ? 128 : 0);
  config.ffn_hidden = fields.integer("intermediate_size", kMaximumExtent);
  config.vocab_size = fields.integer("vocab_size", kMaximumVocabulary);
  config.sequence_length = fields.integer("max_position_embeddings", kMaximumExtent);
  config.norm_eps = norm_eps(fields, "rms_norm_eps", 1e-6);
  config.tied_embeddings = fields.flag("tie_word_embeddings", false);
  config.rope_theta = rope_theta(fields);
  config.bias = fields.flag("attention_bias", false);
  const char* other = qwen3 ? "mlp_bias false and attention_bias false: Qwen3 has no biases in its MLP"
                            : "attention_bias and mlp_bias both false or both true";
  if (fields.flag("mlp_bias", false) != config.bias) fields.refuse(config.bias ? "attention_bias" : "mlp_bias", other);
  if (qwen3 && config.bias) fields.refuse("mlp_bias", other);
  if (fields.text("hidden_act", "silu") != "silu") fields.refuse("hidden_act", "silu");
  check_window(fields, config.layers);
  return config;
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& file) {
  constexpr int kMaximumDepth = 64;
  std::vector<std::unordered_set<std::string>> keys;
  const auto check = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    core::require(depth <= kMaximumDepth, ExitCode::bad_data, "{}: more than {} levels of nesting", file,
                  kMaximumDepth);
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key)
      core::require(keys.back().insert(value.get<std::string>()).second, ExitCode::bad_data, "{}: key {} twice", file,
                    value.dump(-1, ' ', true));
    return true;
  };
  try {
    return nlohmann::json::parse(text, check);
  } catch (const nlohmann::json::parse_error& error) {
    core::fail(ExitCode::bad_data, "{}: not JSON at byte {}", file, error.byte);
  } catch (const nlohmann::json::exception& error) {
    core::fail(ExitCode::bad_data, "{}: not JSON: {}", file, core::escaped(error.what()));
  }
}

model::ModelConfig config_from_hf(const nlohmann::json& json, const std::string& file) {
  const HfFields fields(json, file);
  core::require(fields.find("model_type") != nullptr, ExitCode::bad_data,
                "{}: model_type is missing (gpt2, llama, qwen3)", file);
  const std::string type = fields.text("model_type", "");
  core::require(type == "gpt2" || type == "llama" || type == "qwen3", ExitCode::bad_data,
                "{}: {} is not read (gpt2, llama, qwen3)", file, fields.shown("model_type"));
  check_neutral(fields);
  model::ModelConfig config = type == "gpt2" ? read_gpt2(fields) : read_llama(fields, type == "qwen3");
  model::resolve(config);
  const auto problems = model::problems(config);
  core::require(problems.empty(), ExitCode::bad_data, "{}: {}", file, fmt::join(problems, "; "));
  return config;
}

}  // namespace trireme::train
