#pragma once

#include "model/micro_batch.h"
#include "model/ops/attention.h"
#include "model/ops/norm.h"
#include "model/weights.h"

namespace trireme::model {

/// A norm's parameters and their gradients.
struct NormLayer {
  NormLayer() = default;
  NormLayer(const ModelConfig& config, const Weights& weights, const std::string& name);
  NormWeights weights;
  NormGradients gradients;
};

/// A block's activations. Which of them outlive the forward pass depends on Recompute.
struct BlockSaved {
  NormStatistics attention_statistics;  // [T]
  core::Tensor attention_normed;        // [T, h]
  core::Tensor qkv;                     // [T, (a + 2g) d] after QK-norm and rotation
  core::Tensor raw_heads;               // [T, (a + g) d] before QK-norm, else absent
  core::Tensor heads_rstd;              // [T, a + g]
  core::Tensor attention;               // [T, a d]
  core::Tensor lse;                     // [b, a, s]
  core::Tensor middle;                  // [T, h] residual stream between attention and MLP
  NormStatistics mlp_statistics;        // [T]
  core::Tensor mlp_normed;              // [T, h]
  core::Tensor up;                      // [T, f], SwiGLU: gate and up [T, 2f]
  core::Tensor active;                  // [T, f]
};

/// One transformer block: x + attention(norm(x)), then x + mlp(norm(x)).
class Block {
 public:
  Block(const ModelConfig& config, const Weights& weights, int layer);

  /// What backward needs besides the input; dropped activations stay absent.
  BlockSaved allocate(std::int64_t s, std::int64_t b, core::DType dtype, Recompute recompute, core::Arena& arena) const;

  /// out [T, h] from x [T, h]. Absent activations of `saved` live in `scratch` meanwhile. An absent `out` leaves the
  /// last product away: recomputation needs the activations only. `rotary` is the table of rotary.h, absent if unused.
  struct Step {
    Context& context;
    const MicroBatch& batch;
    const core::Tensor& rotary;
    core::Arena& scratch;
  };
  void forward(const Step& step, const core::Tensor& x, const BlockSaved& saved, const core::Tensor& out) const;

  /// Turns d [T, h], the gradient of the output, into the gradient of the input x and adds to the weights' gradients.
  void backward(const Step& step, const core::Tensor& x, const BlockSaved& saved, const core::Tensor& d) const;

  /// The two halves of forward around the attention itself; the generator puts its own cached attention between them.
  /// All activations of `saved` must be there.
  void attention_input(const Step& step, const core::Tensor& x, const BlockSaved& saved) const;
  void finish(const Step& step, const core::Tensor& x, const BlockSaved& saved, const core::Tensor& out) const;

  /// Scratch bytes of forward and backward.
  std::size_t scratch_bytes(std::int64_t s, std::int64_t b, core::DType dtype, Recompute recompute) const;

 private:
  AttentionShape shape(std::int64_t s, std::int64_t b) const;
  Dropout dropout(const MicroBatch& batch, std::uint32_t which) const;
  BlockSaved complete(const BlockSaved& kept, const Step& step, core::DType dtype) const;
  void recompute(const Step& step, const core::Tensor& x, const BlockSaved& kept, const BlockSaved& saved) const;
  void activate(const BlockSaved& saved) const;
  void backward_mlp(const Step& step, const BlockSaved& saved, const core::Tensor& d) const;
  void backward_attention(const Step& step, const core::Tensor& x, const BlockSaved& saved,
                          const core::Tensor& d) const;

  const ModelConfig& config_;
  int layer_;
  NormLayer attention_norm_, mlp_norm_;
  Weight qkv_, qkv_bias_, query_norm_, key_norm_, output_, output_bias_;
  Weight up_, up_bias_, down_, down_bias_;
};

}  // namespace trireme::model
