#include "model/layers/head.h"

#include <algorithm>

#include "model/ops/cross_entropy.h"
#include "model/ops/product.h"

namespace trireme::model {

namespace {
// Large enough that adding into the matrix gradient costs little beside the product, small enough for memory.
constexpr std::int64_t kBlockTokens = 1024;
}  // namespace

struct Head::Temporaries {
  NormStatistics statistics;
  core::Tensor normed, dnormed, logits;
};

Head::Head(const ModelConfig& config, const Weights& weights)
    : config_(config), norm_(config, weights, "final_norm"), matrix_(weights.at("head.weight")) {}

std::int64_t Head::columns() const { return (config_.vocab_size + 63) / 64 * 64; }

Head::Temporaries Head::allocate(std::int64_t tokens, core::DType dtype, core::Arena& arena) const {
  const core::DType sums = core::accumulate_dtype(dtype);
  Temporaries t;
  if (!config_.rms()) t.statistics.mean = arena.allocate(sums, {tokens});
  t.statistics.rstd = arena.allocate(sums, {tokens});
  t.normed = arena.allocate(dtype, {tokens, config_.hidden});
  t.dnormed = arena.allocate(dtype, {tokens, config_.hidden});
  t.logits = arena.allocate(dtype, {std::min(tokens, kBlockTokens), columns()});
  return t;
}

void Head::losses(const Step& step, const core::Tensor& x, const core::Tensor& out, const core::Tensor& d) const {
  const core::ArenaScope scope(step.scratch);
  const std::int64_t tokens = x.shape[0];
  const Temporaries t = allocate(tokens, x.dtype, step.scratch);
  norm_forward(norm_.weights, x, t.normed, t.statistics);
  step.context.profile.lap("norm");
  for (std::int64_t begin = 0; begin < tokens; begin += kBlockTokens) {
    const std::int64_t count = std::min(kBlockTokens, tokens - begin);
    const core::Tensor normed = t.normed.rows(begin, count);
    const core::Tensor logits = t.logits.rows(0, count);
    linear_forward(step.context, normed, matrix_.value, {}, logits);
    step.context.profile.lap("head forward");
    cross_entropy(logits, config_.vocab_size, step.targets + begin, static_cast<bool>(d), out.rows(begin, count));
    step.context.profile.lap("cross entropy");
    if (!d) continue;
    linear_backward_input(step.context, logits, matrix_.value, t.dnormed.rows(begin, count));
    step.context.profile.lap("head input gradient");
    linear_backward_weight(step.context, logits, normed, matrix_.gradient, {});
    step.context.profile.lap("head weight gradient");
  }
  if (d) norm_backward(norm_.weights, t.statistics, x, t.dnormed, {}, d, norm_.gradients);
}

void Head::logits(Context& context, const core::Tensor& x, const core::Tensor& out, core::Arena& scratch) const {
  const core::ArenaScope scope(scratch);
  const core::DType sums = core::accumulate_dtype(x.dtype);
  NormStatistics statistics;
  if (!config_.rms()) statistics.mean = scratch.allocate(sums, {x.shape[0]});
  statistics.rstd = scratch.allocate(sums, {x.shape[0]});
  const core::Tensor normed = scratch.allocate(x.dtype, x.shape);
  norm_forward(norm_.weights, x, normed, statistics);
  linear_forward(context, normed, matrix_.value, {}, out);
}

std::size_t Head::scratch_bytes(std::int64_t tokens, core::DType dtype) const {
  core::Arena arena;
  allocate(tokens, dtype, arena);
  return arena.peak();
}

}  // namespace trireme::model
