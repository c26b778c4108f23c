#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/fields.h"

namespace trireme::model {

// One alphabet for shapes: b micro-batch, s sequence, h hidden, a heads, g key/value heads, d head size, f
// feed-forward, v vocabulary, l layers, T = s b tokens of a micro-batch.

/// Section [model]: shape and arithmetic of one GPT. 0 stands for "not given": `resolve` fills it in.
struct ModelConfig {
  std::string preset;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;    ///< default heads
  std::int64_t head_dim = 0;    ///< default hidden / heads
  std::int64_t ffn_hidden = 0;  ///< default 4 hidden (GELU)
  std::int64_t vocab_size = 0;
  std::int64_t sequence_length = 0;
  std::string norm = "layernorm";    ///< layernorm, rmsnorm
  std::string activation = "gelu";   ///< gelu (tanh form), swiglu
  std::string position = "learned";  ///< learned, rope
  double rope_theta = 10000;
  double norm_eps = 1e-5;
  bool bias = true;
  bool qk_norm = false;
  bool tied_embeddings = true;
  double dropout = 0;
  double init_std = 0.02;
  std::string initial_weights;  ///< checkpoint or Hugging Face directory

  void fields(core::FieldVisitor& visit);
  bool rms() const { return norm == "rmsnorm"; }
  bool swiglu() const { return activation == "swiglu"; }
  bool rope() const { return position == "rope"; }
  std::int64_t qkv_rows() const { return (heads + 2 * kv_heads) * head_dim; }  ///< (a + 2g) d
};

/// Fills in what follows from other keys (kv_heads, head_dim, ffn_hidden), starting from the preset's values for keys
/// that are still 0. Presets: `preset_names()`.
void resolve(ModelConfig& config);

/// Every contradiction as one message `model.KEY: ...`; empty when the model can be built.
std::vector<std::string> problems(const ModelConfig& config);

/// Names of the built-in shapes.
std::vector<std::string> preset_names();
/// The preset's configuration. Throws Error(usage) with the nearest names.
ModelConfig preset(const std::string& name);

/// Number of parameters: no padding rows, a tied matrix once.
std::int64_t parameter_count(const ModelConfig& config);

/// Model FLOPs a token, forward and backward: 6 M + 6 l a d s with M the elements of the matrix products (true v),
/// attention counted as causal, recomputation not counted. `full_attention` counts 12 l a d s.
double flops_per_token(const ModelConfig& config, bool full_attention = false);

}  // namespace trireme::model
