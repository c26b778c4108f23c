#pragma once

#include <vector>

#include "core/memory.h"
#include "model/parameter.h"
#include "model/weights.h"
#include "train/checkpoint/checkpoint.h"

namespace trireme::train {

/// What a model is made of in memory: flat buffers in the layout of ParameterTable. Masters, gradients and moments have
/// the accumulate dtype of `compute`; the compute copy exists for bf16 only, else the master is the weight.
class ModelState {
 public:
  /// Without `training` there are no gradients and moments.
  ModelState(const model::ModelConfig& config, core::DType compute, bool training);

  const model::ParameterTable& table() const { return table_; }
  core::DType compute() const { return compute_; }
  const core::Tensor& master() const { return master_; }
  const core::Tensor& gradient() const { return gradient_; }
  const core::Tensor& moment1() const { return m_; }
  const core::Tensor& moment2() const { return v_; }
  /// Compute copy; absent where the master is the weight.
  const core::Tensor& copy() const { return copy_; }
  model::Weights weights() const { return {table_, copy_ ? copy_ : master_, gradient_}; }

  /// Makes the compute copy from the masters, after they were set from outside.
  void round_weights();

  /// What a checkpoint holds: masters, and with `moments` both moments.
  std::vector<StateChunk> chunks(bool moments) const;
  std::vector<TiedAlias> ties() const;

  static std::size_t bytes(const model::ModelConfig& config, core::DType compute, bool training);

 private:
  model::ParameterTable table_;
  core::DType compute_;
  core::Arena memory_;
  core::Tensor master_, copy_, gradient_, m_, v_;
};

}  // namespace trireme::train
