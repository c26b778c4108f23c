#include "model/config.h"

#include <array>

#include "core/error.h"

namespace trireme::model {

namespace {

constexpr std::array<std::string_view, 2> kNorms{"layernorm", "rmsnorm"};
constexpr std::array<std::string_view, 2> kActivations{"gelu", "swiglu"};
constexpr std::array<std::string_view, 2> kPositions{"learned", "rope"};

// Extents stay small enough that no product of a table overflows 64 bits.
constexpr core::IntegerRange kLayers{0, 10'000};
constexpr core::IntegerRange kExtent{0, 1 << 24};

struct Shape {
  const char* name;
  std::int64_t layers, heads, kv_heads, hidden, ffn_hidden, vocab_size, sequence_length;
  bool tied;
};

// GPT-2: Radford et al. 2019 and its public configurations. GPT-3: Brown et al. 2020, table 2.1.
constexpr std::array kGpt{
    Shape{"gpt2-tiny", 4, 4, 4, 128, 512, 512, 128, true},
    Shape{"gpt2-124m", 12, 12, 12, 768, 3072, 50257, 1024, true},
    Shape{"gpt2-350m", 24, 16, 16, 1024, 4096, 50257, 1024, true},
    Shape{"gpt2-774m", 36, 20, 20, 1280, 5120, 50257, 1024, true},
    Shape{"gpt2-1558m", 48, 25, 25, 1600, 6400, 50257, 1024, true},
    Shape{"gpt3-125m", 12, 12, 12, 768, 3072, 50257, 2048, true},
    Shape{"gpt3-350m", 24, 16, 16, 1024, 4096, 50257, 2048, true},
    Shape{"gpt3-760m", 24, 16, 16, 1536, 6144, 50257, 2048, true},
    Shape{"gpt3-1.3b", 24, 16, 16, 2048, 8192, 50257, 2048, true},
    Shape{"gpt3-2.7b", 32, 32, 32, 2560, 10240, 50257, 2048, true},
    Shape{"gpt3-6.7b", 32, 32, 32, 4096, 16384, 50257, 2048, true},
    Shape{"gpt3-13b", 40, 40, 40, 5120, 20480, 50257, 2048, true},
    Shape{"gpt3-175b", 96, 96, 96, 12288, 49152, 50257, 2048, true},
};

// Llama: the public config.json files of Llama 2 and Llama 3 (3.2 for 1B and 3B).
constexpr std::array kLlama{
    Shape{"llama-tiny", 4, 4, 2, 128, 352, 512, 128, false},
    Shape{"llama2-7b", 32, 32, 32, 4096, 11008, 32000, 4096, false},
    Shape{"llama2-13b", 40, 40, 40, 5120, 13824, 32000, 4096, false},
    Shape{"llama2-70b", 80, 64, 8, 8192, 28672, 32000, 4096, false},
    Shape{"llama3-1b", 16, 32, 8, 2048, 8192, 128256, 8192, true},
    Shape{"llama3-3b", 28, 24, 8, 3072, 8192, 128256, 8192, true},
    Shape{"llama3-8b", 32, 32, 8, 4096, 14336, 128256, 8192, false},
    Shape{"llama3-70b", 80, 64, 8, 8192, 28672, 128256, 8192, false},
    Shape{"llama3-405b", 126, 128, 8, 16384, 53248, 128256, 8192, false},
};

ModelConfig from(const Shape& shape, bool llama) {
  ModelConfig config;
  config.preset = shape.name;
  config.layers = shape.layers;
  config.hidden = shape.hidden;
  config.heads = shape.heads;
  config.kv_heads = shape.kv_heads;
  config.head_dim = shape.hidden / shape.heads;
  config.ffn_hidden = shape.ffn_hidden;
  config.vocab_size = shape.vocab_size;
  config.sequence_length = shape.sequence_length;
  config.tied_embeddings = shape.tied;
  if (llama) {
    config.norm = "rmsnorm";
    config.activation = "swiglu";
    config.position = "rope";
    config.bias = false;
    config.rope_theta = config.vocab_size == 128256 ? 500000 : 10000;
  }
  return config;
}

}  // namespace

void ModelConfig::fields(core::FieldVisitor& visit) {
  visit.text("preset", preset, "a built-in shape; the other keys of this section change it");
  visit.integer("layers", layers, kLayers, "transformer blocks");
  visit.integer("hidden", hidden, kExtent, "width of the residual stream");
  visit.integer("heads", heads, kExtent, "query heads");
  visit.integer("kv_heads", kv_heads, kExtent, "key/value heads; 0 means heads");
  visit.integer("head_dim", head_dim, kExtent, "size of a head; 0 means hidden / heads");
  visit.integer("ffn_hidden", ffn_hidden, kExtent, "width of the MLP; 0 means 4 hidden");
  visit.integer("vocab_size", vocab_size, {0, 1 << 30}, "true vocabulary size; 0 means the tokenizer's");
  visit.integer("sequence_length", sequence_length, kExtent, "tokens of a sample");
  visit.choice("norm", norm, kNorms, "normalisation");
  visit.choice("activation", activation, kActivations, "MLP activation; gelu is the tanh form");
  visit.choice("position", position, kPositions, "learned position table or rotary positions");
  visit.number("rope_theta", rope_theta, {0, 1e12, true}, "base of the rotary angles");
  visit.number("norm_eps", norm_eps, {0, 1, true, true}, "added to the variance in norms");
  visit.flag("bias", bias, "biases in attention and MLP");
  visit.flag("qk_norm", qk_norm, "RMSNorm over each query and key head");
  visit.flag("tied_embeddings", tied_embeddings, "the head uses the token embedding's matrix");
  visit.number("dropout", dropout, {0, 1, false, true}, "after embedding, attention probabilities, attention, MLP");
  visit.number("init_std", init_std, {0, 10, true}, "standard deviation of initial weights");
  visit.text("initial_weights", initial_weights, "checkpoint or Hugging Face directory to start from");
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Shape& shape : kGpt) names.emplace_back(shape.name);
  for (const Shape& shape : kLlama) names.emplace_back(shape.name);
  return names;
}

ModelConfig preset(const std::string& name) {
  for (const Shape& shape : kGpt)
    if (name == shape.name) return from(shape, false);
  for (const Shape& shape : kLlama)
    if (name == shape.name) return from(shape, true);
  core::fail(core::ExitCode::usage, "model.preset: \"{}\" is unknown, the presets are {}", name,
             fmt::join(preset_names(), ", "));
}

void resolve(ModelConfig& config) {
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  if (config.head_dim == 0 && config.heads > 0) config.head_dim = config.hidden / config.heads;
  if (config.ffn_hidden == 0) config.ffn_hidden = 4 * config.hidden;
}

std::vector<std::string> problems(const ModelConfig& c) {
  std::vector<std::string> out;
  const auto needed = [&](const char* key, std::int64_t value) {
    if (value < 1) out.push_back(fmt::format("model.{}: {} must be at least 1 (or give model.preset)", key, value));
  };
  needed("layers", c.layers);
  needed("hidden", c.hidden);
  needed("heads", c.heads);
  needed("vocab_size", c.vocab_size);
  needed("sequence_length", c.sequence_length);
  if (!out.empty()) return out;
  if (c.heads % c.kv_heads != 0)
    out.push_back(fmt::format("model.kv_heads: heads = {} is not a multiple of kv_heads = {}", c.heads, c.kv_heads));
  if (c.head_dim < 1 || (c.hidden % c.heads != 0 && c.head_dim == c.hidden / c.heads))
    out.push_back(
        fmt::format("model.heads: hidden = {} is not a multiple of heads = {}; give model.head_dim or other "
                    "heads",
                    c.hidden, c.heads));
  if (c.rope() && c.head_dim % 2 != 0)
    out.push_back(fmt::format("model.head_dim: {} is odd, rotary positions need an even head size", c.head_dim));
  const double parameters =
      2.0 * static_cast<double>(c.vocab_size) * static_cast<double>(c.hidden) +
      static_cast<double>(c.layers) *
          (static_cast<double>(c.qkv_rows() + c.hidden) + 3.0 * static_cast<double>(c.ffn_hidden)) *
          static_cast<double>(c.hidden);
  if (parameters > 1e15) out.push_back(fmt::format("model: {:.3g} parameters, at most 1e15", parameters));
  return out;
}

std::int64_t parameter_count(const ModelConfig& c) {
  const std::int64_t norm = c.rms() ? 1 : 2;
  const std::int64_t q = c.heads * c.head_dim;
  const std::int64_t kv = c.kv_heads * c.head_dim;
  const std::int64_t mlp = (c.swiglu() ? 3 : 2) * c.ffn_hidden * c.hidden;
  const std::int64_t biases = c.bias ? c.qkv_rows() + 2 * c.hidden + (c.swiglu() ? 2 : 1) * c.ffn_hidden : 0;
  const std::int64_t block =
      (2 * q + 2 * kv) * c.hidden + mlp + biases + 2 * norm * c.hidden + (c.qk_norm ? 2 * c.head_dim : 0);
  return (c.tied_embeddings ? 1 : 2) * c.vocab_size * c.hidden + (c.rope() ? 0 : c.sequence_length * c.hidden) +
         c.layers * block + norm * c.hidden;
}

double flops_per_token(const ModelConfig& c, bool full_attention) {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const double h = real(c.hidden);
  const double d = real(c.head_dim);
  const double products =
      real(c.layers) * (2 * h * d * real(c.heads + c.kv_heads) + (c.swiglu() ? 3 : 2) * h * real(c.ffn_hidden)) +
      h * real(c.vocab_size);
  return 6 * products + (full_attention ? 12 : 6) * real(c.layers) * real(c.heads) * d * real(c.sequence_length);
}

}  // namespace trireme::model
