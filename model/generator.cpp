#include "model/generator.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "core/random.h"
#include "model/ops/adamw.h"
#include "model/ops/decode_attention.h"

namespace trireme::model {

namespace {

constexpr std::uint32_t kTagSample = 0x73616d70;  // "samp"

std::size_t cache_bytes(const ModelConfig& config, std::int64_t s, core::DType dtype) {
  core::Arena arena;
  for (std::int64_t i = 0; i < 2 * config.layers; ++i) arena.allocate(dtype, {s, config.kv_heads * config.head_dim});
  return arena.peak();
}

}  // namespace

std::int32_t sample_token(std::span<const float> logits, const Sampling& sampling, double draw) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)];
    const float y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  if (sampling.temperature <= 0) return *std::min_element(order.begin(), order.end(), likelier);
  std::sort(order.begin(), order.end(), likelier);
  if (sampling.top_k > 0 && sampling.top_k < std::ssize(order)) order.resize(static_cast<std::size_t>(sampling.top_k));
  std::vector<double> weights;
  const double largest = logits[static_cast<std::size_t>(order[0])];
  for (const std::int32_t id : order)
    weights.push_back(std::exp((logits[static_cast<std::size_t>(id)] - largest) / sampling.temperature));
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::size_t kept = 0;
  double mass = 0;
  while (kept < weights.size() && (kept == 0 || mass < sampling.top_p * all)) mass += weights[kept++];
  double left = draw * mass;
  for (std::size_t i = 0; i < kept; ++i)
    if ((left -= weights[i]) < 0) return order[i];
  return order[kept - 1];
}

Generator::Generator(Gpt& gpt, std::int64_t usable_ids)
    : gpt_(gpt),
      usable_ids_(std::min(usable_ids, gpt.config_.vocab_size)),
      arena_(cache_bytes(gpt.config_, gpt.shape_.s, gpt.compute_), "keys and values of generated text") {
  for (std::int64_t layer = 0; layer < gpt.config_.layers; ++layer) {
    const core::Shape shape{gpt.shape_.s, gpt.config_.kv_heads * gpt.config_.head_dim};
    caches_.push_back({arena_.allocate(gpt.compute_, shape), arena_.allocate(gpt.compute_, shape)});
  }
}

void Generator::start(std::span<const std::int32_t> prompt, const Sampling& sampling) {
  core::check(!prompt.empty(), "generation needs at least one token to start from");
  sampling_ = sampling;
  drawn_ = 0;
  context_.clear();
  const auto longest = static_cast<std::size_t>(gpt_.shape_.s);
  const auto begin = prompt.size() > longest ? prompt.size() - longest : 0;
  for (const std::int32_t id : prompt.subspan(begin)) feed(id);
}

std::int32_t Generator::next() {
  const auto words = core::RandomKey(
      sampling_.seed, kTagSample)({static_cast<std::uint32_t>(drawn_), static_cast<std::uint32_t>(drawn_ >> 32), 0, 0});
  ++drawn_;
  const std::int32_t id =
      sample_token(std::span(logits_).first(static_cast<std::size_t>(usable_ids_)), sampling_, words[0] / 4294967296.0);
  if (std::ssize(context_) == gpt_.shape_.s) refill();
  feed(id);
  return id;
}

void Generator::refill() {
  const std::vector<std::int32_t> half(context_.begin() + std::ssize(context_) / 2, context_.end());
  context_.clear();
  for (const std::int32_t id : half) feed(id);
}

void Generator::feed(std::int32_t id) {
  const auto position = static_cast<std::int64_t>(context_.size());
  context_.push_back(id);
  const ModelConfig& config = gpt_.config_;
  core::Arena& scratch = gpt_.scratch_;
  const core::ArenaScope kept(gpt_.kept_);
  const core::ArenaScope used(scratch);
  const MicroBatch one{.ids = {.b = 1, .s = 1, .tokens = &id}};
  const core::Tensor rotary = gpt_.rotary_ ? gpt_.rotary_.rows(position, 1) : core::Tensor{};
  const Block::Step step{gpt_.context_, one, rotary, scratch};
  const AttentionShape shape{1, 1, config.heads, config.kv_heads, config.head_dim};
  core::Tensor x = gpt_.kept_.allocate(gpt_.compute_, {1, config.hidden});
  const core::Tensor table =
      gpt_.position_embedding_.value ? gpt_.position_embedding_.value.rows(position, 1) : core::Tensor{};
  embedding_forward(one.ids, gpt_.token_embedding_.value, table, {}, x.reshaped({1, 1, config.hidden}));
  for (std::size_t layer = 0; layer < gpt_.blocks_.size(); ++layer) {
    const core::ArenaScope block_scope(scratch);
    const BlockSaved saved = gpt_.blocks_[layer].allocate(1, 1, gpt_.compute_, Recompute::none, scratch);
    gpt_.blocks_[layer].attention_input(step, x, saved);
    const Cache& cache = caches_[layer];
    const std::size_t width = static_cast<std::size_t>(shape.g * shape.d) * core::size_of(gpt_.compute_);
    const auto* key = static_cast<const char*>(saved.qkv.data) +
                      static_cast<std::size_t>(shape.a * shape.d) * core::size_of(gpt_.compute_);
    std::memcpy(cache.keys.rows(position, 1).data, key, width);
    std::memcpy(cache.values.rows(position, 1).data, key + width, width);
    decode_attention(shape, saved.qkv, cache.keys, cache.values, position + 1, saved.attention);
    gpt_.blocks_[layer].finish(step, x, saved, x);
  }
  const core::Tensor logits = scratch.allocate(gpt_.compute_, {1, gpt_.columns()});
  gpt_.head_.logits(gpt_.context_, x, logits, scratch);
  logits_.resize(static_cast<std::size_t>(gpt_.columns()));
  convert(logits, core::view(logits_.data(), {1, gpt_.columns()}));
  logits_.resize(static_cast<std::size_t>(config.vocab_size));
}

}  // namespace trireme::model
