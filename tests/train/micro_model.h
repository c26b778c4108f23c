#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "model/parameter.h"

namespace trireme::train {

/// The GPT-2 micro-model whose losses and norms are known: V 61, s 16, l 2, a 2, h 32, tied; 27,936 parameters.
inline model::ModelConfig micro_model_config() {
  model::ModelConfig config;
  config.layers = 2;
  config.hidden = 32;
  config.heads = 2;
  config.vocab_size = 61;
  config.sequence_length = 16;
  model::resolve(config);
  return config;
}

/// One document of 33 tokens, two samples.
inline std::vector<std::int32_t> micro_model_corpus() {
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < 33; ++i) tokens.push_back((7 * i + 3) % 61);
  return tokens;
}

/// Tensors k = 0 ... 15 of the micro-model, each over all layers; qkvw and qkvb are query, key and value.
inline std::vector<std::vector<std::string>> micro_model_tensors() {
  std::vector<std::vector<std::string>> tensors{{"token_embedding.weight"}, {"position_embedding.weight"}};
  const std::vector<std::vector<std::string>> of_block{
      {"attention_norm.weight"},
      {"attention_norm.bias"},
      {"attention.query.weight", "attention.key.weight", "attention.value.weight"},
      {"attention.query.bias", "attention.key.bias", "attention.value.bias"},
      {"attention.output.weight"},
      {"attention.output.bias"},
      {"mlp_norm.weight"},
      {"mlp_norm.bias"},
      {"mlp.up.weight"},
      {"mlp.up.bias"},
      {"mlp.down.weight"},
      {"mlp.down.bias"}};
  for (const auto& parts : of_block) {
    tensors.emplace_back();
    for (const char* block : {"blocks.0.", "blocks.1."})
      for (const std::string& part : parts) tensors.back().push_back(block + part);
  }
  tensors.push_back({"final_norm.weight"});
  tensors.push_back({"final_norm.bias"});
  return tensors;
}

inline float micro_model_value(std::size_t k, std::int64_t j) {
  const auto value = static_cast<float>(0.1 * std::sin(0.37 * static_cast<double>(j) + static_cast<double>(k)));
  return k == 2 || k == 8 || k == 14 ? value + 1.0f : value;
}

/// Fills `flat` (fp32 or fp64, laid out by `table` of `micro_model_config()`).
inline void fill_micro_model(const model::ParameterTable& table, const core::Tensor& flat) {
  const auto tensors = micro_model_tensors();
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    std::int64_t j = 0;
    for (const std::string& name : tensors[k]) {
      const core::Tensor tensor = table.in(flat, name);
      for (std::int64_t i = 0; i < tensor.elements(); ++i, ++j) {
        if (flat.dtype == core::DType::f64)
          tensor.as<double>()[i] = micro_model_value(k, j);
        else
          tensor.as<float>()[i] = micro_model_value(k, j);
      }
    }
  }
}

}  // namespace trireme::train
