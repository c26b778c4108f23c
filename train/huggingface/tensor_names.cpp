#include "train/huggingface/tensor_names.h"

#include <array>

#include "core/error.h"

namespace trireme::train {

namespace {

struct Renamed {
  std::string_view ours;
  std::string_view theirs;
  bool transposed = false;
};

constexpr std::array kGpt2Whole{Renamed{"token_embedding", "wte"}, Renamed{"position_embedding", "wpe"},
                                Renamed{"final_norm", "ln_f"}};
constexpr std::array kGpt2Block{Renamed{"attention_norm", "ln_1"},
                                Renamed{"attention.query", "attn.c_attn", true},
                                Renamed{"attention.key", "attn.c_attn", true},
                                Renamed{"attention.value", "attn.c_attn", true},
                                Renamed{"attention.output", "attn.c_proj", true},
                                Renamed{"mlp_norm", "ln_2"},
                                Renamed{"mlp.up", "mlp.c_fc", true},
                                Renamed{"mlp.down", "mlp.c_proj", true}};
constexpr std::array kLlamaWhole{Renamed{"token_embedding", "embed_tokens"}, Renamed{"final_norm", "norm"}};
constexpr std::array kLlamaBlock{Renamed{"attention_norm", "input_layernorm"},
                                 Renamed{"attention.query", "self_attn.q_proj"},
                                 Renamed{"attention.key", "self_attn.k_proj"},
                                 Renamed{"attention.value", "self_attn.v_proj"},
                                 Renamed{"attention.query_norm", "self_attn.q_norm"},
                                 Renamed{"attention.key_norm", "self_attn.k_norm"},
                                 Renamed{"attention.output", "self_attn.o_proj"},
                                 Renamed{"mlp_norm", "post_attention_layernorm"},
                                 Renamed{"mlp.gate", "mlp.gate_proj"},
                                 Renamed{"mlp.up", "mlp.up_proj"},
                                 Renamed{"mlp.down", "mlp.down_proj"}};

Renamed find(std::span<const Renamed> names, std::string_view ours) {
  for (const Renamed& renamed : names)
    if (renamed.ours == ours) return renamed;
  core::fail(core::ExitCode::internal, "parameter {} has no Hugging Face name", ours);
}

/// Name and layout of the tensor that holds `name`, a parameter like "blocks.3.mlp.up.weight".
Renamed stored_as(HfKind kind, std::string_view name, std::string& stored) {
  const bool gpt2 = kind == HfKind::gpt2;
  const std::string_view prefix = gpt2 ? kGpt2Prefix : "model.";
  const std::size_t dot = name.rfind('.');
  const std::string_view suffix = name.substr(dot);
  std::string_view stem = name.substr(0, dot);
  if (name == "head.weight") {
    stored = kHeadName;
    return {};
  }
  if (!stem.starts_with("blocks.")) {
    const Renamed renamed = gpt2 ? find(kGpt2Whole, stem) : find(kLlamaWhole, stem);
    stored = fmt::format("{}{}{}", prefix, renamed.theirs, suffix);
    return renamed;
  }
  stem.remove_prefix(std::string_view("blocks.").size());
  const std::size_t end = stem.find('.');
  const Renamed renamed = gpt2 ? find(kGpt2Block, stem.substr(end + 1)) : find(kLlamaBlock, stem.substr(end + 1));
  stored = fmt::format("{}{}.{}.{}{}", prefix, gpt2 ? "h" : "layers", stem.substr(0, end), renamed.theirs, suffix);
  return renamed;
}

}  // namespace

std::int64_t HfTensor::rows() const {
  std::int64_t total = 0;
  for (const model::Parameter* part : parts) total += part->shape[0];
  return total;
}

std::int64_t HfTensor::columns() const { return parts.front()->shape.rank() == 2 ? parts.front()->shape[1] : 1; }

std::vector<std::uint64_t> HfTensor::stored_shape() const {
  const auto out = static_cast<std::uint64_t>(rows());
  if (parts.front()->shape.rank() == 1) return {out};
  const auto in = static_cast<std::uint64_t>(columns());
  return transposed ? std::vector{in, out} : std::vector{out, in};
}

std::vector<HfTensor> hf_tensors(HfKind kind, const model::ParameterTable& table) {
  std::vector<HfTensor> tensors;
  for (const model::Parameter& parameter : table.parameters()) {
    if (!parameter.tied_to.empty()) continue;
    std::string name;
    const Renamed renamed = stored_as(kind, parameter.name, name);
    if (tensors.empty() || tensors.back().name != name)
      tensors.push_back({.name = name, .transposed = renamed.transposed && parameter.shape.rank() == 2});
    tensors.back().parts.push_back(&parameter);
  }
  return tensors;
}

bool ignored_on_reading(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with(".rotary_emb.inv_freq");
}

}  // namespace trireme::train
