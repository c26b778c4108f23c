#pragma once

#include <span>
#include <vector>

#include "model/layers/block.h"
#include "model/layers/head.h"

namespace trireme::model {

/// What a training pass recomputes: `mode` acts on the first `layers` blocks (negative: all).
struct RecomputePlan {
  Recompute mode = Recompute::none;
  std::int64_t layers = -1;
  Recompute of(std::int64_t layer) const { return layers < 0 || layer < layers ? mode : Recompute::none; }
};

/// The extents a Gpt holds memory for.
struct PassShape {
  std::int64_t s = 0;    ///< longest sequence
  std::int64_t b = 0;    ///< largest micro-batch
  bool training = true;  ///< keep what backward needs
};

/// A whole GPT on one device. Weights and gradients live in flat buffers owned by the caller; activations in arenas
/// that are allocated once here.
class Gpt {
 public:
  Gpt(const ModelConfig& config, const Weights& weights, core::DType compute, const RecomputePlan& recompute,
      const PassShape& shape);

  /// Forward, loss and backward of a micro-batch: adds the gradient of the *sum* of its losses to the gradients.
  /// sample_losses [b]: each sample's sum of losses over counted targets.
  void train(const MicroBatch& batch, std::span<double> sample_losses);
  /// The same losses, no gradients.
  void evaluate(const MicroBatch& batch, std::span<double> sample_losses);
  /// Logits [T, columns()] of all positions, rows in [s, b] order. For tests and scoring.
  void logits(const MicroBatch& batch, const core::Tensor& out);

  std::int64_t columns() const { return head_.columns(); }
  /// Memory of activations and of what one micro-batch works in.
  std::size_t activation_bytes() const { return kept_.capacity() + scratch_.capacity(); }
  Context& context() { return context_; }

 private:
  friend class Generator;
  struct Bytes {
    std::size_t kept = 0, scratch = 0;
  };
  Bytes measure() const;
  void check_fits(const MicroBatch& batch) const;
  Block::Step step(const MicroBatch& batch) { return {context_, batch, rotary_, scratch_}; }
  core::Tensor embed(const MicroBatch& batch, core::Arena& arena);
  core::Tensor forward_only(const MicroBatch& batch);
  const std::int32_t* order_targets(const MicroBatch& batch);
  void sum_losses(const MicroBatch& batch, const core::Tensor& losses, std::span<double> sample_losses) const;

  const ModelConfig& config_;
  core::DType compute_;
  RecomputePlan recompute_;
  PassShape shape_;
  Weight token_embedding_, position_embedding_;
  std::vector<Block> blocks_;
  Head head_;
  Context context_;
  core::Arena kept_, scratch_, tables_;
  core::Tensor rotary_;
};

}  // namespace trireme::model
