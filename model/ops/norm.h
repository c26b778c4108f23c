#pragma once

#include "core/tensor.h"

// LayerNorm (Ba et al. 2016) and RMSNorm (Zhang and Sennrich 2019) over the last axis. Statistics, and sums inside, are
// in the accumulate dtype. `bias` and `mean` are absent for RMSNorm.
namespace trireme::model {

struct NormWeights {
  core::Tensor weight;  ///< [h], compute dtype
  core::Tensor bias;    ///< [h] or absent: RMSNorm
  double eps = 1e-5;
};

struct NormStatistics {
  core::Tensor mean;  ///< [T], absent for RMSNorm
  core::Tensor rstd;  ///< [T]
};

struct NormGradients {
  core::Tensor weight;  ///< [h], accumulate dtype, added to
  core::Tensor bias;
};

/// y [T, h] = norm(x [T, h]). x is the compute dtype, and so is y.
void norm_forward(const NormWeights& weights, const core::Tensor& x, const core::Tensor& y,
                  const NormStatistics& statistics);

/// sum = residual + branch (rounded to the compute dtype), y = norm(sum): one pass. sum may be residual or branch.
void add_norm_forward(const NormWeights& weights, const core::Tensor& residual, const core::Tensor& branch,
                      const core::Tensor& sum, const core::Tensor& y, const NormStatistics& statistics);

/// dx [T, h] = dresidual + gradient of norm at x for dy. dresidual may be absent, and may be dx. Weight gradients do
/// not depend on the number of threads.
void norm_backward(const NormWeights& weights, const NormStatistics& statistics, const core::Tensor& x,
                   const core::Tensor& dy, const core::Tensor& dresidual, const core::Tensor& dx,
                   const NormGradients& gradients);

/// QK-norm: RMSNorm over each head's d elements of the query and key parts of qkv [T, (a + 2g) d], in place. The values
/// before go to raw [T, (a + g) d], 1 / rms to rstd [T, a + g].
struct HeadNorm {
  std::int64_t a = 0, g = 0, d = 0;
  core::Tensor query_weight, key_weight;  ///< [d]
  double eps = 1e-5;
};
void head_norm_forward(const HeadNorm& norm, const core::Tensor& qkv, const core::Tensor& raw,
                       const core::Tensor& rstd);
/// In place on the query and key parts of dqkv; adds to dquery_weight and dkey_weight [d] (accumulate dtype).
void head_norm_backward(const HeadNorm& norm, const core::Tensor& raw, const core::Tensor& rstd,
                        const core::Tensor& dqkv, const core::Tensor& dquery_weight, const core::Tensor& dkey_weight);

}  // namespace trireme::model
