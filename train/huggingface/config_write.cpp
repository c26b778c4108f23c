#include "core/error.h"
#include "train/huggingface/config_json.h"
#include "train/model_json.h"

namespace trireme::train {

namespace {

using core::ExitCode;

/// What hinders `config` from being of `kind`, one `model.KEY = VALUE does not fit KIND (ACCEPTED)` each.
std::vector<std::string> misfits(const model::ModelConfig& c, HfKind kind) {
  std::vector<std::string> out;
  const auto need = [&](const char* key, const auto& value, const auto& accepted) {
    if (value != accepted)
      out.push_back(fmt::format("model.{} = {} does not fit {} ({})", key, value, name_of(kind), accepted));
  };
  const bool gpt2 = kind == HfKind::gpt2;
  need("position", c.position, std::string(gpt2 ? "learned" : "rope"));
  need("norm", c.norm, std::string(gpt2 ? "layernorm" : "rmsnorm"));
  need("activation", c.activation, std::string(gpt2 ? "gelu" : "swiglu"));
  need("qk_norm", c.qk_norm, kind == HfKind::qwen3);
  if (kind != HfKind::llama) need("bias", c.bias, gpt2);
  if (gpt2) {
    need("kv_heads", c.kv_heads, c.heads);
    need("head_dim", c.head_dim, c.hidden / c.heads);
  }
  return out;
}

template <class Json>
void set_gpt2(Json& out, const model::ModelConfig& c) {
  out["n_layer"] = c.layers;
  out["n_embd"] = c.hidden;
  out["n_head"] = c.heads;
  out["n_inner"] = c.ffn_hidden == 4 * c.hidden ? Json() : Json(c.ffn_hidden);
  out["n_positions"] = c.sequence_length;
  if (out.contains("n_ctx")) out["n_ctx"] = c.sequence_length;
  out["layer_norm_epsilon"] = c.norm_eps;
  if (!out.contains("activation_function")) out["activation_function"] = "gelu_new";
  for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"})
    if (!out.contains(key)) out[key] = c.dropout;
}

template <class Json>
void set_llama(Json& out, const model::ModelConfig& c, bool qwen3) {
  out["num_hidden_layers"] = c.layers;
  out["hidden_size"] = c.hidden;
  out["num_attention_heads"] = c.heads;
  out["num_key_value_heads"] = c.kv_heads;
  out["head_dim"] = c.head_dim;
  out["intermediate_size"] = c.ffn_hidden;
  out["max_position_embeddings"] = c.sequence_length;
  out["rms_norm_eps"] = c.norm_eps;
  out["rope_theta"] = c.rope_theta;
  for (const char* key : {"rope_parameters", "rope_scaling"})
    if (out.contains(key) && out[key].is_object() && out[key].contains("rope_theta"))
      out[key]["rope_theta"] = c.rope_theta;
  out["hidden_act"] = "silu";
  out["attention_bias"] = c.bias;
  if (!qwen3) out["mlp_bias"] = c.bias;
  if (!out.contains("attention_dropout")) out["attention_dropout"] = c.dropout;
}

/// The fields of `original` if it is a config.json of the same kind, else none.
nlohmann::ordered_json kept_fields(const std::string& original, HfKind kind) {
  if (original.empty()) return nlohmann::ordered_json::object();
  const nlohmann::json checked = parse_json(original, "config.json");
  if (!checked.is_object() || checked.value("model_type", nlohmann::json()) != name_of(kind))
    return nlohmann::ordered_json::object();
  return nlohmann::ordered_json::parse(original);
}

/// The model as compared after a round trip: the base of rotary angles means nothing without them.
nlohmann::json arithmetic(model::ModelConfig config) {
  if (!config.rope()) config.rope_theta = 10000;
  return model_to_json(config);
}

}  // namespace

std::string_view name_of(HfKind kind) {
  switch (kind) {
    case HfKind::gpt2:
      return "gpt2";
    case HfKind::llama:
      return "llama";
    case HfKind::qwen3:
      return "qwen3";
  }
  return "?";
}

HfKind hf_kind(const model::ModelConfig& config) {
  HfKind nearest = HfKind::gpt2;
  std::vector<std::string> fewest = misfits(config, nearest);
  for (const HfKind kind : {HfKind::llama, HfKind::qwen3}) {
    std::vector<std::string> found = misfits(config, kind);
    if (found.size() >= fewest.size()) continue;
    nearest = kind;
    fewest = std::move(found);
  }
  core::require(fewest.empty(), ExitCode::usage, "the model is none of gpt2, llama, qwen3: {}",
                fmt::join(fewest, "; "));
  return nearest;
}

std::string config_to_hf(const model::ModelConfig& config, std::string_view torch_dtype, const std::string& original) {
  const HfKind kind = hf_kind(config);
  nlohmann::ordered_json out = kept_fields(original, kind);
  const bool fresh = out.empty();
  out["model_type"] = name_of(kind);
  out["architectures"] = nlohmann::ordered_json::array({kind == HfKind::gpt2    ? "GPT2LMHeadModel"
                                                        : kind == HfKind::llama ? "LlamaForCausalLM"
                                                                                : "Qwen3ForCausalLM"});
  if (kind == HfKind::gpt2)
    set_gpt2(out, config);
  else
    set_llama(out, config, kind == HfKind::qwen3);
  out["vocab_size"] = config.vocab_size;
  out["tie_word_embeddings"] = config.tied_embeddings;
  out["torch_dtype"] = torch_dtype;
  if (out.contains("dtype")) out["dtype"] = torch_dtype;
  if (fresh)
    for (const char* key : {"bos_token_id", "eos_token_id"}) out[key] = nullptr;
  std::string text = out.dump(2) + "\n";
  const model::ModelConfig back = config_from_hf(parse_json(text, "config.json"), "config.json");
  core::check(arithmetic(back) == arithmetic(config), "config.json does not describe the exported model");
  return text;
}

}  // namespace trireme::train
