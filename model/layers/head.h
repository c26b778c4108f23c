#pragma once

#include "model/layers/block.h"

namespace trireme::model {

/// Final norm, the product with the (tied) embedding and the loss. Works in blocks of tokens: logits of a whole
/// micro-batch never exist in training.
class Head {
 public:
  Head(const ModelConfig& config, const Weights& weights);

  /// Losses [T] (accumulate dtype) of x [T, h]; targets [T]. With `d` [T, h]: the gradient of the sum of losses with
  /// respect to x, and the weights' gradients are added to.
  struct Step {
    Context& context;
    const std::int32_t* targets;
    core::Arena& scratch;
  };
  void losses(const Step& step, const core::Tensor& x, const core::Tensor& out, const core::Tensor& d) const;

  /// Logits [T, columns()] of x [T, h]; columns beyond v are not written.
  void logits(Context& context, const core::Tensor& x, const core::Tensor& out, core::Arena& scratch) const;

  std::int64_t columns() const;  ///< v rounded up to a multiple of 64: row pitch of logits
  std::size_t scratch_bytes(std::int64_t tokens, core::DType dtype) const;

 private:
  struct Temporaries;
  Temporaries allocate(std::int64_t tokens, core::DType dtype, core::Arena& arena) const;
  const ModelConfig& config_;
  NormLayer norm_;
  Weight matrix_;
};

}  // namespace trireme::model
