#include "model/parameter.h"

#include <cmath>
#include <numbers>

#include "core/random.h"

namespace trireme::model {

namespace {

constexpr std::int64_t kAlignment = 64;

std::int64_t aligned(std::int64_t elements) { return (elements + kAlignment - 1) / kAlignment * kAlignment; }

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

/// Elements 4 quad ... 4 quad + 3.
std::array<double, 4> normal_quad(core::RandomKey key, std::uint64_t hash, std::uint64_t quad) {
  const auto words = key({static_cast<std::uint32_t>(quad), static_cast<std::uint32_t>(quad >> 32),
                          static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32)});
  std::array<double, 4> out{};
  for (std::size_t pair = 0; pair < 4; pair += 2) {
    const double u1 = (words[pair] + 0.5) / 4294967296.0;
    const double u2 = (words[pair + 1] + 0.5) / 4294967296.0;
    const double radius = std::sqrt(-2 * std::log(u1));
    out[pair] = radius * std::cos(2 * std::numbers::pi * u2);
    out[pair + 1] = radius * std::sin(2 * std::numbers::pi * u2);
  }
  return out;
}

double standard_deviation(const Parameter& parameter, const ModelConfig& config) {
  return parameter.init == Init::residual_normal ? config.init_std / std::sqrt(2.0 * static_cast<double>(config.layers))
                                                 : config.init_std;
}

template <class T>
void fill(const Parameter& parameter, const ModelConfig& config, std::uint64_t seed, T* out) {
  const std::int64_t n = parameter.shape.elements();
  if (parameter.init == Init::ones || parameter.init == Init::zeros) {
    std::fill(out, out + n, parameter.init == Init::ones ? T(1) : T(0));
    return;
  }
  const double std = standard_deviation(parameter, config);
  const core::RandomKey key(seed, core::kTagInit);
  const std::uint64_t hash = fnv1a(parameter.name);
#pragma omp parallel for schedule(static)
  for (std::int64_t quad = 0; quad < (n + 3) / 4; ++quad) {
    const auto values = normal_quad(key, hash, static_cast<std::uint64_t>(quad));
    for (std::int64_t i = 0; i < 4 && 4 * quad + i < n; ++i)
      out[4 * quad + i] = static_cast<float>(values[static_cast<std::size_t>(i)] * std);
  }
}

}  // namespace

ParameterTable::ParameterTable(const ModelConfig& config) {
  const std::int64_t h = config.hidden;
  const std::int64_t v = config.vocab_size;
  declare({.name = "token_embedding.weight", .shape = {v, h}, .init = Init::normal, .split = Split::rows});
  if (!config.rope())
    declare({.name = "position_embedding.weight", .shape = {config.sequence_length, h}, .init = Init::normal});
  for (int layer = 0; layer < config.layers; ++layer) declare_block(config, layer);
  const int head = static_cast<int>(config.layers) + 1;
  declare_norm(config, "final_norm", head, h);
  declare({.name = "head.weight",
           .shape = {v, h},
           .init = Init::normal,
           .split = Split::rows,
           .unit = head,
           .tied_to = config.tied_embeddings ? "token_embedding.weight" : ""});
  flat_elements_ = aligned(flat_elements_);
}

void ParameterTable::declare(Parameter parameter) {
  if (!parameter.tied_to.empty()) {
    parameter.offset = find(parameter.tied_to).offset;
  } else {
    if (!parameter.fused) flat_elements_ = aligned(flat_elements_);
    parameter.offset = flat_elements_;
    flat_elements_ += parameter.shape.elements();
  }
  parameters_.push_back(std::move(parameter));
}

void ParameterTable::declare_norm(const ModelConfig& config, const std::string& name, int unit, std::int64_t width) {
  declare({.name = name + ".weight", .shape = {width}, .init = Init::ones, .unit = unit});
  if (!config.rms()) declare({.name = name + ".bias", .shape = {width}, .init = Init::zeros, .unit = unit});
}

void ParameterTable::declare_block(const ModelConfig& config, int layer) {
  const std::string block = fmt::format("blocks.{}.", layer);
  const int unit = layer + 1;
  const std::int64_t h = config.hidden;
  const std::int64_t q = config.heads * config.head_dim;
  const std::int64_t kv = config.kv_heads * config.head_dim;
  const std::int64_t f = config.ffn_hidden;
  const auto matrix = [&](const char* name, std::int64_t rows, std::int64_t columns, Init init, Split split,
                          bool fused) {
    declare({.name = block + name + ".weight",
             .shape = {rows, columns},
             .init = init,
             .split = split,
             .unit = unit,
             .fused = fused});
  };
  const auto bias = [&](const char* name, std::int64_t rows, Split split, bool fused) {
    if (config.bias)
      declare({.name = block + name + ".bias", .shape = {rows}, .split = split, .unit = unit, .fused = fused});
  };
  declare_norm(config, block + "attention_norm", unit, h);
  matrix("attention.query", q, h, Init::normal, Split::rows, false);
  matrix("attention.key", kv, h, Init::normal, Split::rows, true);
  matrix("attention.value", kv, h, Init::normal, Split::rows, true);
  bias("attention.query", q, Split::rows, false);
  bias("attention.key", kv, Split::rows, true);
  bias("attention.value", kv, Split::rows, true);
  if (config.qk_norm)
    for (const char* name : {"attention.query_norm.weight", "attention.key_norm.weight"})
      declare({.name = block + name, .shape = {config.head_dim}, .init = Init::ones, .unit = unit});
  matrix("attention.output", h, q, Init::residual_normal, Split::columns, false);
  bias("attention.output", h, Split::none, false);
  declare_norm(config, block + "mlp_norm", unit, h);
  if (config.swiglu()) matrix("mlp.gate", f, h, Init::normal, Split::rows, false);
  matrix("mlp.up", f, h, Init::normal, Split::rows, config.swiglu());
  if (config.swiglu()) bias("mlp.gate", f, Split::rows, false);
  bias("mlp.up", f, Split::rows, config.swiglu());
  matrix("mlp.down", h, f, Init::residual_normal, Split::columns, false);
  bias("mlp.down", h, Split::none, false);
}

const Parameter& ParameterTable::find(std::string_view name) const {
  for (const Parameter& parameter : parameters_)
    if (parameter.name == name) return parameter;
  core::fail(core::ExitCode::internal, "no parameter named {}", name);
}

std::int64_t ParameterTable::count() const {
  std::int64_t total = 0;
  for (const Parameter& parameter : parameters_)
    if (parameter.tied_to.empty()) total += parameter.shape.elements();
  return total;
}

core::Tensor ParameterTable::in(const core::Tensor& flat, std::string_view name) const {
  const Parameter& parameter = find(name);
  return flat.rows(parameter.offset, parameter.shape.elements()).reshaped(parameter.shape);
}

float initial_normal(std::uint64_t seed, std::string_view name, std::uint64_t j, double std) {
  const auto values = normal_quad(core::RandomKey(seed, core::kTagInit), fnv1a(name), j / 4);
  return static_cast<float>(values[j % 4] * std);
}

void initialise(const ParameterTable& table, const ModelConfig& config, std::uint64_t seed, const core::Tensor& flat) {
  for (const Parameter& parameter : table.parameters()) {
    if (!parameter.tied_to.empty()) continue;
    const core::Tensor tensor = flat.rows(parameter.offset, parameter.shape.elements());
    if (flat.dtype == core::DType::f64)
      fill(parameter, config, seed, tensor.as<double>());
    else
      fill(parameter, config, seed, tensor.as<float>());
  }
}

}  // namespace trireme::model
