#pragma once

#include <memory>
#include <vector>

#include "model/gpt.h"

namespace trireme::model {

/// A small model of either kind with every feature that changes the arithmetic, and something to train it on.
struct SmallGpt {
  SmallGpt(bool llama, core::DType compute, Recompute recompute = Recompute::none, std::int64_t micro = 4)
      : config(shape(llama)), table(config), compute(compute) {
    const core::DType sums = core::accumulate_dtype(compute);
    const core::Shape all{table.flat_elements()};
    memory = core::Arena(static_cast<std::size_t>(all[0]) * 20 + 4096, "test");
    master = memory.allocate(sums, all);
    gradient = memory.allocate(sums, all);
    initialise(table, config, 1234, master);
    weight = master;
    if (compute == core::DType::bf16) {
      weight = memory.allocate(compute, all);
      for (std::int64_t i = 0; i < all[0]; ++i) weight.as<core::bf16>()[i] = core::bf16(master.as<float>()[i]);
    }
    gpt = std::make_unique<Gpt>(config, Weights(table, weight, gradient), compute, RecomputePlan{recompute},
                                PassShape{config.sequence_length, micro, true});
    const std::int64_t n = kSamples * config.sequence_length;
    for (std::int64_t i = 0; i < n; ++i) {
      tokens.push_back(static_cast<std::int32_t>((i * i * 7 + 3 * i) % config.vocab_size));
      targets.push_back(i % 5 == 2 ? -1 : static_cast<std::int32_t>((i * 11 + 5) % config.vocab_size));
    }
  }

  static ModelConfig shape(bool llama) {
    ModelConfig c;
    c.layers = 3;
    c.hidden = 24;
    c.heads = 4;
    c.vocab_size = 37;
    c.sequence_length = 13;
    c.init_std = 0.2;
    if (llama) {
      c.kv_heads = 2;
      c.head_dim = 8;
      c.ffn_hidden = 40;
      c.norm = "rmsnorm";
      c.activation = "swiglu";
      c.position = "rope";
      c.bias = false;
      c.qk_norm = true;
      c.tied_embeddings = false;
    }
    resolve(c);
    return c;
  }

  MicroBatch batch(std::int64_t first, std::int64_t count, double dropout = 0) const {
    const std::int64_t at = first * config.sequence_length;
    MicroBatch out{.ids = {count, config.sequence_length, tokens.data() + at}, .targets = targets.data() + at};
    out.dropout = {.rate = dropout, .seed = 99, .first_position = first};
    return out;
  }

  /// Losses of all samples in micro-batches of `micro`; gradients are added up.
  std::vector<double> train(std::int64_t micro, double dropout = 0) {
    std::vector<double> losses(kSamples);
    for (std::int64_t first = 0; first < kSamples; first += micro)
      gpt->train(batch(first, micro, dropout),
                 std::span(losses).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(micro)));
    return losses;
  }

  static constexpr std::int64_t kSamples = 4;
  ModelConfig config;
  ParameterTable table;
  core::DType compute;
  core::Arena memory;
  core::Tensor master, weight, gradient;
  std::unique_ptr<Gpt> gpt;
  std::vector<std::int32_t> tokens, targets;
};

}  // namespace trireme::model
